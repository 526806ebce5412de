"""Running text as configuration, its parts to learn from and to be judged by, and their ids on disk."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, final

from pydantic import Field, model_validator

from dragoman.atomic import opened_or_made
from dragoman.config import Config
from dragoman.data.datasets.documents import DocumentStore, TokenizedPassage
from dragoman.data.hashing import file_fingerprint
from dragoman.data.readers.text import Passage, TextCorpus, TextFile, read_texts
from dragoman.data.readers.text_lines import ReadWarnings
from dragoman.data.tokenizers import LanguageTokenizer, Tokenizer
from dragoman.errors import DataError

DEFAULT_VALID_SIZE = 0.1
"""The share that is held out unless told otherwise."""
CHUNK = 2**18
"""Characters that are segmented together."""

_VERSION = 1
"""Raised when the same text and tokenizer would give another store."""


class TextDataConfig(Config):
    """The running text of a run."""

    train: TextCorpus
    """What is learnt from."""

    valid: TextCorpus | None = None
    """What training is watched and chosen by; without it the end of `train` is held out."""

    valid_size: float | None = Field(None, gt=0, lt=1)
    """Share of the characters of `train`, counted from its end, that is held out without `valid`; by default 0.1."""

    test: TextCorpus | None = None
    """What is scored at the end."""

    context_length: int = Field(256, ge=3)
    """Tokens that the network is shown together, begin and end included; longer texts are cut."""

    @model_validator(mode="after")
    def _one_validation_set(self) -> Self:
        if self.valid is not None and self.valid_size is not None:
            raise ValueError("valid_size has no effect if valid is given; remove one of them")
        return self


@final
@dataclass(frozen=True)
class DocumentRange:
    """A part of a corpus, from one place to another; the text is read anew from its file whenever it is asked for.

    Places count characters. A file that is one document is cut anywhere; others belong where they begin.
    """

    corpus: TextCorpus
    file_hash: str
    """The fingerprint of the file."""
    start: int = 0
    end: int | None = None

    @property
    def fingerprint(self) -> str:
        """Equal for the same documents of the same file, wherever it lies."""
        read_as = self.corpus.model_dump(mode="json", exclude={"path"})
        return _digest({"file": self.file_hash, "read_as": read_as, "first": self.start, "last": self.end})

    def passages(self) -> Iterator[Passage]:
        """The documents in passages. Raises DataError where the file cannot be read as it is."""
        if isinstance(self.corpus, TextFile) and self.corpus.documents == "file":
            return self._cut_anywhere(read_texts(self.corpus))
        return self._whole_documents(read_texts(self.corpus))

    def texts(self) -> Iterator[str]:
        """The texts of the passages; the method is what `Tokenizer.train_on_texts` wants."""
        return (passage.text for passage in self.passages())

    def _whole_documents(self, passages: Iterator[Passage]) -> Iterator[Passage]:
        start, chosen = 0, False
        for passage in passages:
            if passage.is_first:
                if self.end is not None and start >= self.end:
                    return
                chosen = start >= self.start
            if chosen:
                yield passage
            start += len(passage.text)

    def _cut_anywhere(self, passages: Iterator[Passage]) -> Iterator[Passage]:
        start, begins = 0, True
        for passage in passages:
            if self.end is not None and start >= self.end:
                return
            before = max(self.start - start, 0)
            text = passage.text[before : None if self.end is None else self.end - start]
            if text:
                yield Passage(text, passage.line + passage.text[:before].count("\n"), begins)
                begins = False
            start += len(passage.text)


@final
@dataclass(frozen=True)
class PreparedText:
    """The running text of a run, and what was found on the way."""

    train: DocumentRange
    valid: DocumentRange
    test: DocumentRange | None
    notes: tuple[str, ...]
    """Sentences to be printed: repairs."""
    fingerprints: Mapping[str, str]
    """SHA-256 of every corpus file, by path."""


def prepare_text(data: TextDataConfig) -> PreparedText:
    """Read every corpus once, and say where its parts begin and end.

    Raises DataError where a corpus cannot be read, or holds no text, or none is left to learn from or to hold out.
    """
    corpora = [corpus for corpus in (data.train, data.valid, data.test) if corpus is not None]
    fingerprints = {str(corpus.path): file_fingerprint(corpus.path) for corpus in corpora}
    repairs = ReadWarnings()
    sizes = [_size(corpus, repairs) for corpus in corpora]

    def whole(corpus: TextCorpus) -> DocumentRange:
        return DocumentRange(corpus, fingerprints[str(corpus.path)])

    train = whole(data.train)
    if data.valid is not None:
        valid = whole(data.valid)
    else:
        share = DEFAULT_VALID_SIZE if data.valid_size is None else data.valid_size
        train, valid = _split(train, size=sizes[0], share=share)
    return PreparedText(
        train=train,
        valid=valid,
        test=whole(data.test) if data.test is not None else None,
        notes=tuple(repairs.messages()),
        fingerprints=fingerprints,
    )


def tokenize_documents(documents: DocumentRange, tokenizer: Tokenizer, cache: Path) -> DocumentStore:
    """The ids of documents, from `cache` if they were stored there before; a damaged store is built again."""
    facts = {"documents": documents.fingerprint, "tokenizer": tokenizer.fingerprint}
    folder = cache / f"documents-{_digest({'version': _VERSION, **facts})[:16]}"
    side = tokenizer.source

    def built() -> DocumentStore:
        chunks = (_segmented(chunk, side) for chunk in _gathered(documents.passages()))
        return DocumentStore.build(folder, chunks, vocabulary=len(side), facts=facts)

    return opened_or_made(folder, lambda: DocumentStore.open(folder), built)


def _size(corpus: TextCorpus, repairs: ReadWarnings) -> int:
    """Characters of a corpus. Raises DataError where it holds no text."""
    found = ReadWarnings()
    size, blank = 0, True
    for passage in read_texts(corpus, found):
        size += len(passage.text)
        blank = blank and passage.text.isspace()
    if blank:
        raise DataError(f"{corpus.path}: the corpus holds no text; give another file")
    # Blank lines are part of running text: only what was mended is worth a note.
    repairs.found |= {key: count for key, count in found.found.items() if key[1] != "blank"}
    return size


def _split(documents: DocumentRange, *, size: int, share: float) -> tuple[DocumentRange, DocumentRange]:
    cut = int(size * (1 - share))
    train = DocumentRange(documents.corpus, documents.file_hash, 0, cut)
    valid = DocumentRange(documents.corpus, documents.file_hash, cut, None)
    for part, missing in ((train, "learn from"), (valid, "hold out")):
        if next(part.passages(), None) is None:
            raise DataError(
                f"{documents.corpus.path}: no document is left to {missing} when those in the last {share:.3g} of its "
                "characters are held out; change data.valid_size, give data.valid, or give more text"
            )
    return train, valid


def _gathered(passages: Iterable[Passage]) -> Iterator[list[Passage]]:
    held: list[Passage] = []
    size = 0
    for passage in passages:
        held.append(passage)
        size += len(passage.text)
        if size >= CHUNK:
            yield held
            held, size = [], 0
    if held:
        yield held


def _segmented(chunk: list[Passage], side: LanguageTokenizer) -> list[TokenizedPassage]:
    texts, continues = [passage.text for passage in chunk], [not passage.is_first for passage in chunk]
    ids = side.encode_passages(texts, continues=continues)
    return [TokenizedPassage(row, passage.line, passage.is_first) for row, passage in zip(ids, chunk, strict=True)]


def _digest(tree: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()
