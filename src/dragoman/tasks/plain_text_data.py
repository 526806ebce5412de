"""Tokenized plain text, for language models and masked language models."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dragoman.data.datasets.text import (
    DocumentRange,
    DocumentStore,
    TextDataConfig,
    count_characters,
    prepare_text,
    tokenize_documents,
)
from dragoman.number_words import counted
from dragoman.tasks import task
from dragoman.tasks.config import LanguageModelingConfig, MaskedLMConfig
from dragoman.tasks.initial_weights import initial_text_tokenizer, origin_notes, read_initial_weights

MAX_COUNTED_TOKENS = 10_000_000
"""Tokens from which token frequencies are estimated; counting them takes less than a second."""


@final
@dataclass(frozen=True, kw_only=True)
class TextCorpus(task.TaskData):
    """Tokenized plain text of a run."""

    documents: Mapping[str, DocumentRange]
    """The sets as documents; `train`, `valid` and, if given, `test`."""
    stores: Mapping[str, DocumentStore]
    """The sets as token ids."""
    characters: Mapping[str, int]
    """Number of characters of each held-out set after normalization."""
    weights: Mapping[str, Tensor] | None = None
    """Initial weights from another run."""

    @property
    def held_out(self) -> dict[str, DocumentStore]:
        """The held-out sets by name."""
        return {name: store for name, store in self.stores.items() if name != "train"}

    def unigram_loss(self, name: str) -> float:
        """Return the cross-entropy of a set in nats a token under the token frequencies of the training text."""
        counts, expected = (self._count_tokens(one) for one in ("train", name))
        return float(-(expected / expected.sum()) @ np.log((counts + 1) / (counts + 1).sum()))

    def _count_tokens(self, name: str) -> NDArray[np.int64]:
        """Count each token in a set, or in the beginning of a large set."""
        tokens = self.stores[name].texts.values
        counted = tokens.slice(0, min(len(tokens), MAX_COUNTED_TOKENS))
        return np.bincount(counted, minlength=len(self.tokenizer.source))


def prepare_text_data(
    experiment: LanguageModelingConfig | MaskedLMConfig,
    data: TextDataConfig,
    folder: task.RunFiles,
    *,
    advice: task.CorpusAdvice,
    report: Callable[[str], None],
) -> TextCorpus:
    """Read and tokenize plain text; a new run trains its tokenizer, or has that of its initial run.

    Raises DataError on unusable texts, and RunError if a corpus has changed since the run started.
    """
    report("reading the text")
    prepared = prepare_text(data, report=report)
    task.check_unchanged(prepared.fingerprints, folder)
    texts = prepared.train.texts
    create = partial(initial_text_tokenizer, experiment, texts, folder.open)
    tokenizer = task.load_or_create_tokenizer(folder, create, report=report)
    start = experiment.init_from
    report("tokenizing")
    sets = {"train": prepared.train, "valid": prepared.valid, "test": prepared.test}
    documents = {name: part for name, part in sets.items() if part is not None}
    stores = {name: tokenize_documents(part, tokenizer, task.cache_dir()) for name, part in documents.items()}
    held_out = {name: part for name, part in documents.items() if name != "train"}
    characters = {name: count_characters(part, tokenizer, task.cache_dir()) for name, part in held_out.items()}
    train, test = stores["train"], stores.get("test")
    size = f"{train.tokens:,} tokens of {counted(len(train), 'documents')}"

    def describe_rows(rows: Sequence[int]) -> str:
        lines = dict.fromkeys(int(train.origins[row]) for row in rows)
        return f"the documents at {task.format_list(list(lines))} of the training text"

    return TextCorpus(
        tokenizer=tokenizer,
        fingerprints=prepared.fingerprints,
        notes=(*(advice.notes(train.tokens, "tokens") if start is None else ()), *prepared.notes, *origin_notes(start)),
        summary=task.describe_sizes(size, stores["valid"].tokens, None if test is None else test.tokens),
        tokens_per_epoch=train.tokens + len(train),
        describe_rows=describe_rows,
        documents=documents,
        stores=stores,
        characters=characters,
        weights=read_initial_weights(start, experiment.model, folder, task=experiment.task),
    )
