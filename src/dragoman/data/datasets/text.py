"""Running text for language models: training, validation and test parts, and their ids in memory-mapped stores."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, final

import numpy as np
from pydantic import Field

from dragoman.atomic_files import open_or_build, write_atomically
from dragoman.data.datasets.memory_map import ORIGINS, Numbers, RaggedStore, id_dtype
from dragoman.data.fingerprints import json_fingerprint, require_file
from dragoman.data.readers.line_reader import ReadWarnings
from dragoman.data.readers.plain_text import Passage, TextCorpus, TextFile, read_texts
from dragoman.data.readers.recognize_format import corpus_notes
from dragoman.data.splits import TEXT_VALID_SHARE, ValidationConfig, missing_corpus_error
from dragoman.data.tokenizers import LanguageTokenizer, Tokenizer
from dragoman.errors import DataError

_CHUNK = 2**18
"""Characters tokenized at a time."""

_VERSION = 1
"""Version of the tokenization; raise it if the same text and tokenizer would give another store."""


class TextDataConfig(ValidationConfig):
    """Running text of a run."""

    train: TextCorpus | None
    """Training corpus; null: none, as in a run that was imported."""
    valid: TextCorpus | None = None
    """Validation corpus; by default the end of `train` is held out."""
    valid_size: float | None = Field(default=None, gt=0, lt=1)
    """Share of the characters of `train`, from its end, to hold out without `valid`; by default 0.1."""
    test: TextCorpus | None = None
    """Test corpus, scored at the end."""
    context_length: int = Field(default=256, ge=3, le=1_048_576)
    """Maximum number of tokens of a training sequence, BOS and EOS included; longer texts are cut."""


@final
@dataclass(frozen=True)
class DocumentRange:
    """Part of a corpus between two positions, read from its file on demand.

    Positions count characters. A file that is one document is cut at any position; other documents belong to the part
    in which they begin.
    """

    corpus: TextCorpus
    file_hash: str
    """Fingerprint of the file."""
    start: int = 0
    end: int | None = None

    @property
    def fingerprint(self) -> str:
        """Hash that is equal for the same documents of the same file at any path."""
        read_as = self.corpus.model_dump(mode="json", exclude={"path"})
        return json_fingerprint({"file": self.file_hash, "read_as": read_as, "first": self.start, "last": self.end})

    def passages(self) -> Iterator[Passage]:
        """Yield the documents in passages. Raises DataError if the file is unreadable or, at its end, has changed."""
        passages = read_texts(self.corpus, ReadWarnings(fingerprints={str(self.corpus.path): self.file_hash}))
        if isinstance(self.corpus, TextFile) and self.corpus.documents == "file":
            return self._cut_anywhere(passages)
        return self._whole_documents(passages)

    def texts(self) -> Iterator[str]:
        """Yield the texts of the passages, for `Tokenizer.train_on_texts`."""
        return (passage.text for passage in self.passages())

    def _whole_documents(self, passages: Iterator[Passage]) -> Iterator[Passage]:
        start, chosen = 0, False
        for passage in passages:
            if passage.is_first:
                chosen = self.start <= start and (self.end is None or start < self.end)
            if chosen:
                yield passage
            start += len(passage.text)

    def _cut_anywhere(self, passages: Iterator[Passage]) -> Iterator[Passage]:
        start, begins = 0, True
        for passage in passages:
            before = max(self.start - start, 0)
            text = passage.text[before : None if self.end is None else max(self.end - start, 0)]
            if text:
                yield Passage(text, passage.line + passage.text[:before].count("\n"), begins)
                begins = False
            start += len(passage.text)


TokenizedPassage = tuple[Sequence[int], Passage]
"""Ids of a passage, and the passage."""


@final
class DocumentStore(RaggedStore):
    """Ids of documents without BOS and EOS. `origins` holds the first line of each document in its corpus."""

    format = "dragoman.documents"
    names = ("texts",)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (self.texts,) = self.arrays

    @classmethod
    def build(
        cls,
        folder: Path,
        chunks: Iterable[Sequence[TokenizedPassage]],
        *,
        vocab_size: int | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> Self:
        """Write passages in the order of their documents, with `facts` in the header.

        `vocab_size` bounds the ids, so that two bytes per id may suffice.
        """
        dtypes = {"texts.values": id_dtype(vocab_size), "texts.lengths": "int64", ORIGINS: "int64"}
        return cls.write(folder, _store_columns(chunks), dtypes=dtypes, facts=facts)

    @property
    def tokens(self) -> int:
        """Number of ids of all documents."""
        return len(self.texts.values)


@final
@dataclass(frozen=True)
class PreparedText:
    """Running text of a run."""

    train: DocumentRange
    valid: DocumentRange
    test: DocumentRange | None
    notes: tuple[str, ...]
    """Messages about repairs."""
    fingerprints: Mapping[str, str]
    """SHA-256 of every corpus file, by path."""


def prepare_text(data: TextDataConfig, *, report: Callable[[str], None] | None = None) -> PreparedText:
    """Read every corpus once and determine its parts; `report` receives messages about the progress.

    Raises DataError if a corpus is unreadable or empty, or if the training or the held-out part is empty, and
    ConfigError without a training corpus.
    """
    if data.train is None:
        raise missing_corpus_error()
    corpora = [corpus for corpus in (data.train, data.valid, data.test) if corpus is not None]
    for corpus in corpora:
        require_file(corpus.path)
    warnings = ReadWarnings(report=report)
    sizes = [_count_characters(corpus, warnings) for corpus in corpora]

    def whole(corpus: TextCorpus) -> DocumentRange:
        return DocumentRange(corpus, warnings.fingerprints[str(corpus.path)])

    train = whole(data.train)
    if data.valid is not None:
        valid = whole(data.valid)
    else:
        share = TEXT_VALID_SHARE if data.valid_size is None else data.valid_size
        train, valid = _split(train, size=sizes[0], share=share)
    test = whole(data.test) if data.test is not None else None
    notes = [note for corpus in corpora if isinstance(corpus, TextFile) for note in corpus_notes(corpus)]
    # Blank lines are part of running text, so they deserve no note.
    return PreparedText(train, valid, test, (*notes, *warnings.messages(blank=False)), warnings.fingerprints)


def tokenize_documents(documents: DocumentRange, tokenizer: Tokenizer, cache: Path) -> DocumentStore:
    """Return the ids of documents, from `cache` if they are there; a damaged store is built again."""
    facts = {"documents": documents.fingerprint, "tokenizer": tokenizer.fingerprint}
    folder = cache / f"documents-{json_fingerprint({'version': _VERSION, **facts})[:16]}"
    side = tokenizer.source

    def build(folder: Path) -> DocumentStore:
        chunks = (_tokenize(chunk, side) for chunk in _chunks(documents.passages()))
        return DocumentStore.build(folder, chunks, vocab_size=len(side), facts=facts)

    return open_or_build(folder, DocumentStore.open_verified, build)


def count_characters(documents: DocumentRange, tokenizer: Tokenizer, cache: Path) -> int:
    """Return the number of characters of documents after normalization, from `cache` if they were counted before."""
    facts = {"documents": documents.fingerprint, "tokenizer": tokenizer.fingerprint}
    path = cache / f"characters-{json_fingerprint(facts)[:16]}"
    with suppress(OSError, ValueError):
        return int(path.read_text())
    count = sum(len(tokenizer.source.normalize(text)) for text in documents.texts())
    write_atomically(path, f"{count}\n")
    return count


def _count_characters(corpus: TextCorpus, warnings: ReadWarnings) -> int:
    size, blank = 0, True
    for passage in read_texts(corpus, warnings):
        size += len(passage.text)
        blank = blank and passage.text.isspace()
    if blank:
        raise DataError(f"{corpus.path}: the corpus holds no text; give another file")
    return size


def _split(documents: DocumentRange, *, size: int, share: float) -> tuple[DocumentRange, DocumentRange]:
    cut = int(size * (1 - share))
    train, valid = replace(documents, end=cut), replace(documents, start=cut)
    for part, use in ((train, "for training"), (valid, "to hold out")):
        if next(part.passages(), None) is None:
            raise DataError(
                f"{documents.corpus.path}: no document is left {use} when those in the last {share:.3g} of its "
                "characters are held out; change data.valid_size, give data.valid, or give more text"
            )
    return train, valid


def _chunks(passages: Iterable[Passage]) -> Iterator[list[Passage]]:
    chunk: list[Passage] = []
    size = 0
    for passage in passages:
        chunk.append(passage)
        size += len(passage.text)
        if size >= _CHUNK:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _tokenize(chunk: list[Passage], side: LanguageTokenizer) -> list[TokenizedPassage]:
    texts, continues = [passage.text for passage in chunk], [not passage.is_first for passage in chunk]
    ids = side.encode_passages(texts, continues=continues)
    return list(zip(ids, chunk, strict=True))


def _store_columns(chunks: Iterable[Sequence[TokenizedPassage]]) -> Iterator[dict[str, Numbers]]:
    """Yield the values of each chunk and the documents that end in it: where the next begins, or at the very end."""
    lengths: list[int] = []
    origins: list[int] = []
    for chunk in chunks:
        for ids, passage in chunk:
            if passage.is_first:
                lengths.append(0)
                origins.append(passage.line)
            lengths[-1] += len(ids)
        values = [np.zeros(0, dtype=np.int64), *(np.asarray(ids, dtype=np.int64) for ids, _ in chunk)]
        yield {
            "texts.values": np.concatenate(values),
            "texts.lengths": np.array(lengths[:-1]),
            ORIGINS: np.array(origins[:-1]),
        }
        lengths, origins = lengths[-1:], origins[-1:]
    yield {"texts.lengths": np.array(lengths), ORIGINS: np.array(origins)}
