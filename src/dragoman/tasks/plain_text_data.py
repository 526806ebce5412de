"""Tokenized plain text, for language models and masked language models."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

from dragoman.data.datasets.document_store import DocumentStore
from dragoman.data.datasets.text import DocumentRange, PreparedText, TextDataConfig, prepare_text, tokenize_documents
from dragoman.data.tokenizers import Tokenizer, TokenizerConfig
from dragoman.tasks.task import RunFiles, cache_dir, check_unchanged, format_list, load_or_create_tokenizer


@final
@dataclass(frozen=True)
class TextPart:
    """One set of a corpus as documents and as token ids."""

    documents: DocumentRange
    store: DocumentStore

    def num_characters(self, tokenizer: Tokenizer) -> int:
        """Return the number of characters after normalization."""
        return sum(len(tokenizer.source.normalize(text)) for text in self.documents.texts())


@final
@dataclass(frozen=True)
class TextCorpus:
    """Tokenized plain text of a run."""

    prepared: PreparedText
    tokenizer: Tokenizer
    train: TextPart
    valid: TextPart
    test: TextPart | None

    @property
    def fingerprints(self) -> Mapping[str, str]:
        return self.prepared.fingerprints

    @property
    def cleaning_report(self) -> None:
        """None: plain text is not cleaned."""

    @property
    def notes(self) -> tuple[str, ...]:
        return self.prepared.notes

    @property
    def summary(self) -> str:
        train, valid = self.train.store, self.valid.store
        documents = "1 document" if len(train) == 1 else f"{len(train):,} documents"
        test = f", {self.test.store.tokens:,} for testing" if self.test is not None else ""
        return f"{train.tokens:,} tokens of {documents} for training, {valid.tokens:,} for validation{test}"

    @property
    def tokens_per_epoch(self) -> int:
        return self.train.store.tokens + len(self.train.store)

    @property
    def held_out(self) -> dict[str, TextPart]:
        """The held-out sets by name."""
        return {"valid": self.valid} | ({"test": self.test} if self.test is not None else {})

    def describe_rows(self, rows: Sequence[int]) -> str:
        """Name the documents of the given numbers by their lines."""
        lines = [int(self.train.store.origins[row]) for row in rows]
        return f"the documents at {format_list(list(dict.fromkeys(lines)))} of the training text"


def prepare_text_data(
    data: TextDataConfig, config: TokenizerConfig, folder: RunFiles, *, report: Callable[[str], None]
) -> TextCorpus:
    """Read and tokenize plain text; a new run trains its tokenizer.

    Raises DataError on unusable texts, and RunError if a corpus has changed since the run started.
    """
    cache = cache_dir()
    report("reading the text")
    prepared = prepare_text(data)
    check_unchanged(prepared.fingerprints, folder)
    train = prepared.train.texts
    tokenizer = load_or_create_tokenizer(folder, lambda: Tokenizer.train_on_texts(train, config), report=report)
    report("tokenizing")

    def tokenize(documents: DocumentRange) -> TextPart:
        return TextPart(documents, tokenize_documents(documents, tokenizer, cache))

    test = None if prepared.test is None else tokenize(prepared.test)
    return TextCorpus(prepared, tokenizer, tokenize(prepared.train), tokenize(prepared.valid), test)
