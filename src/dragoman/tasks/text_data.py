"""Running text, turned into ids: what language models and masked language models learn from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

from dragoman.data.datasets.documents import DocumentStore
from dragoman.data.datasets.text import Documents, PreparedText, TextData, prepare_text, segment_text
from dragoman.data.tokenizers import Tokenizer, TokenizerSettings
from dragoman.runs.folder import RunFolder
from dragoman.tasks.prepared_data import cache_folder, check_same, listed, own_tokenizer


@final
@dataclass(frozen=True)
class Part:
    """One part of a corpus, as text and as ids."""

    texts: Documents
    store: DocumentStore

    def characters(self, tokenizer: Tokenizer) -> int:
        """How long the text is, as the tokenizer normalises it."""
        return sum(len(tokenizer.source.normalise(text)) for text in self.texts.texts())


@final
@dataclass(frozen=True)
class Texts:
    """The text of a run."""

    prepared: PreparedText
    tokenizer: Tokenizer
    train: Part
    valid: Part
    test: Part | None

    @property
    def fingerprints(self) -> Mapping[str, str]:
        return self.prepared.fingerprints

    @property
    def report(self) -> None:
        """Running text is taken as it is."""

    @property
    def remarks(self) -> tuple[str, ...]:
        return self.prepared.notes

    @property
    def sizes(self) -> str:
        train, valid = self.train.store, self.valid.store
        documents = "1 document" if len(train) == 1 else f"{len(train):,} documents"
        test = f", {self.test.store.tokens:,} to test" if self.test is not None else ""
        return f"{train.tokens:,} tokens of {documents} to learn from, {valid.tokens:,} to validate{test}"

    @property
    def tokens(self) -> int:
        return self.train.store.tokens + len(self.train.store)

    @property
    def held_out(self) -> dict[str, Part]:
        """What is scored at the end, by name."""
        return {"valid": self.valid} | ({"test": self.test} if self.test is not None else {})

    def name_documents(self, rows: Sequence[int]) -> str:
        """Which documents these are, in words."""
        lines = [int(self.train.store.origins[row]) for row in rows]
        return f"the documents at {listed(list(dict.fromkeys(lines)))} of the training text"


def gather_texts(
    data: TextData,
    tokenizer_settings: TokenizerSettings,
    folder: RunFolder,
    *,
    tell: Callable[[str], None],
) -> Texts:
    """Read, learn the tokenizer or take the run's own, and segment.

    Raises DataError on texts that cannot be used, and RunError where they are not those the run began with.
    """
    cache = cache_folder()
    tell("reading the text")
    prepared = prepare_text(data)
    check_same(prepared.fingerprints, folder)
    train = prepared.train.texts
    tokenizer = own_tokenizer(folder, lambda: Tokenizer.train_on_texts(train, tokenizer_settings), tell=tell)
    tell("turning text into tokens")

    def part(documents: Documents) -> Part:
        return Part(documents, segment_text(documents, tokenizer, cache))

    test = None if prepared.test is None else part(prepared.test)
    return Texts(prepared, tokenizer, part(prepared.train), part(prepared.valid), test)
