"""Sentences with one label per word as ids and batches.

A sentence is read between BOS and EOS. The first token of a word has the label of the word; all other tokens have the
label -1, which the loss ignores.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple, Self, final

import torch
from pydantic import Field
from torch import Tensor

from dragoman.array_types import Int, Rows
from dragoman.data.batching.example_batches import RaggedExamples, SequenceBatch, pad_batch, to_ragged
from dragoman.data.datasets.labeled import Labels, wrap_in_bos_eos
from dragoman.data.datasets.memory_map import RaggedArray
from dragoman.data.readers.tagged import TaggedCorpus, TaggedSentence, read_tagged
from dragoman.data.splits import SplitConfig, Splits, read_splits
from dragoman.data.tokenizers import UNK, LanguageTokenizer

IGNORED_LABEL = -1


class TaggedDataConfig(SplitConfig[TaggedCorpus]):
    """Sentences of a run with one label per word."""

    max_length: int = Field(default=256, ge=3)
    """Maximum number of tokens of a sentence, BOS and EOS included; longer sentences are truncated."""


def read_tagged_splits(data: TaggedDataConfig, *, seed: int) -> Splits[TaggedSentence]:
    """Read all sentences; `seed` draws the held-out part. Raises DataError as `read_tagged` and `read_splits` do."""

    def sentence(example: TaggedSentence) -> str:
        return " ".join(example.words)

    return read_splits(data, read_tagged, group=sentence, content=sentence, seed=seed)


class EncodedWords(NamedTuple):
    """Ids of a sentence, and the position of the first id of each word."""

    ids: list[int]
    first_tokens: list[int]


def encode_words(side: LanguageTokenizer, words: Sequence[str]) -> EncodedWords:
    """Return the ids of the words with spaces between them; a word without tokens becomes UNK."""
    starts = list(accumulate((len(word) + 1 for word in words), initial=0))
    ids, spans = side.encode_with_offsets(" ".join(words))
    aligned = EncodedWords([], [])
    place = 0
    for word, start in zip(words, starts, strict=False):
        while place < len(ids) and spans[place][1] <= start:
            aligned.ids.append(ids[place])
            place += 1
        aligned.first_tokens.append(len(aligned.ids))
        if place < len(ids) and start <= spans[place][0] < start + len(word):
            aligned.ids.append(ids[place])
            place += 1
        else:
            aligned.ids.append(UNK)
    aligned.ids.extend(ids[place:])
    return aligned


@final
@dataclass(frozen=True)
class TaggedBatch(SequenceBatch):
    """Padded sentences with labeled words."""

    labels: Int[Tensor, "batch places"]
    """Label of each word at its first token, elsewhere -1."""

    @property
    def target_count(self) -> int:
        """Number of labels over which the loss is averaged."""
        return int((self.labels != IGNORED_LABEL).sum())


@final
@dataclass(frozen=True)
class TaggedDataset(RaggedExamples):
    """Sentences as ids, with the labels of their words."""

    labels: RaggedArray
    lines: tuple[int, ...]
    """First line of each sentence in its corpus."""
    num_truncated: int
    num_unknown: int
    """Words ignored because their label is unknown."""

    @classmethod
    def build(
        cls, examples: Sequence[TaggedSentence], side: LanguageTokenizer, labels: Labels, *, max_length: int
    ) -> Self:
        """Encode the sentences; those without a known label are left out."""
        rows, tags, lines, num_truncated = [], [], [], 0
        for example in examples:
            ids, first_tokens = encode_words(side, example.words)
            own = [IGNORED_LABEL] * len(ids)
            for first, label in zip(first_tokens, example.labels, strict=True):
                own[first] = labels.ids.get(label, IGNORED_LABEL)
            own = [IGNORED_LABEL, *own[: max_length - 2], IGNORED_LABEL]
            num_truncated += len(ids) + 2 > max_length
            if any(label != IGNORED_LABEL for label in own):
                rows.append(wrap_in_bos_eos(ids, max_length=max_length))
                tags.append(own)
                lines.append(example.line)
        num_unknown = sum(label not in labels.ids for example in examples for label in example.labels)
        return cls(to_ragged(rows), to_ragged(tags), tuple(lines), num_truncated, num_unknown)

    def collate(self, rows: Rows) -> TaggedBatch:
        """Return the sentences of `rows`, padded to the longest of them."""
        labels = torch.from_numpy(pad_batch(self.labels, rows, padding=IGNORED_LABEL))
        return TaggedBatch(labels=labels, **self.pad(rows))
