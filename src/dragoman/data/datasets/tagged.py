"""From sentences with a label for every word to ids and batches.

A sentence is read between BEGIN and END. Of a word it is the first token that is labelled; its other tokens, and the
symbols, have the label -1, which means: not counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple, Self, final

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor

from dragoman.config import Config
from dragoman.data.batching.epochs import Rows
from dragoman.data.batching.in_memory import pad_batch, to_ragged
from dragoman.data.batching.token_batches import LengthArray
from dragoman.data.datasets.labeled import Labels, wrap_in_bos_eos
from dragoman.data.datasets.parallel import RaggedArray
from dragoman.data.readers.tagged import TaggedCorpus, TaggedSentence, read_tagged
from dragoman.data.splits import SplitKeys, Splits, read_splits
from dragoman.data.tokenizers import PAD, UNK, LanguageTokenizer
from dragoman.typing import Int, Lengths

IGNORED_LABEL = -1


class TaggedDataConfig(Config):
    """The sentences of a run, with a label for every word."""

    train: TaggedCorpus
    """What is learnt from."""

    valid: TaggedCorpus | None = None
    """What training is watched and chosen by; without it a part of `train` is held out."""

    valid_size: int | None = Field(None, ge=1)
    """Different sentences of `train` that are held out where `valid` is not given; by default 5 %, at most 2,000."""

    test: TaggedCorpus | None = None
    """What is scored at the end."""

    remove_leaks: bool = True
    """Remove training sentences that are in the validation or test text; they are reported in any case."""

    max_length: int = Field(256, ge=3)
    """Tokens of a sentence, begin and end included, above which its end is left out."""

    @model_validator(mode="after")
    def _one_validation_set(self) -> Self:
        if self.valid is not None and self.valid_size is not None:
            raise ValueError("valid_size has no effect if valid is given; remove one of them")
        return self


def read_tagged_splits(data: TaggedDataConfig, *, seed: int) -> Splits[TaggedSentence]:
    """All sentences, in parts; `seed` draws what is held out. Raises DataError as `read_tagged` and `read_parts` do."""

    def sentence(example: TaggedSentence) -> str:
        return " ".join(example.words)

    return read_splits(data, read_tagged, SplitKeys(sentence, sentence), seed=seed)


class EncodedWords(NamedTuple):
    """The ids of a sentence, and for each word the place of its first."""

    ids: list[int]
    first_tokens: list[int]


def encode_words(side: LanguageTokenizer, words: Sequence[str]) -> EncodedWords:
    """The ids of the words with spaces between them; a word of which the tokenizer leaves nothing is UNKNOWN."""
    ends = list(accumulate((len(word) + 1 for word in words), initial=0))
    ids, spans = side.encode_with_offsets(" ".join(words))
    aligned = EncodedWords([], [])
    place = 0
    for word, begin in zip(words, ends, strict=False):
        while place < len(ids) and spans[place][1] <= begin:
            aligned.ids.append(ids[place])
            place += 1
        aligned.first_tokens.append(len(aligned.ids))
        if place < len(ids) and begin <= spans[place][0] < begin + len(word):
            aligned.ids.append(ids[place])
            place += 1
        else:
            aligned.ids.append(UNK)
    aligned.ids.extend(ids[place:])
    return aligned


@final
@dataclass(frozen=True)
class TaggedBatch:
    """Sentences with labelled words, side by side."""

    tokens: Int[Tensor, "batch places"]
    """BEGIN, the ids of a sentence and END, padded with PAD."""
    lengths: Lengths
    """Tokens of each sentence, symbols included."""
    labels: Int[Tensor, "batch places"]
    """The label of a word at its first token, elsewhere -1."""
    rows: Rows
    """The index of each sentence among the encoded ones."""

    def __len__(self) -> int:
        """Sentences."""
        return len(self.rows)

    @property
    def target_count(self) -> int:
        """Labels to be predicted: what a loss is the mean over."""
        return int((self.labels != IGNORED_LABEL).sum())

    def to(self, device: torch.device) -> Self:
        """The batch with its tensors on a device."""
        return type(self)(
            tokens=self.tokens.to(device, non_blocking=True),
            lengths=self.lengths.to(device, non_blocking=True),
            labels=self.labels.to(device, non_blocking=True),
            rows=self.rows,
        )


@final
@dataclass(frozen=True)
class TaggedDataset:
    """Sentences as ids, with the labels of their words."""

    tokens: RaggedArray
    labels: RaggedArray
    lines: tuple[int, ...]
    """Where each sentence stands in its corpus."""
    num_truncated: int
    """Sentences whose end was left out."""
    num_unknown: int
    """Words not counted because their label is none of those that are told apart."""

    @classmethod
    def build(
        cls, examples: Sequence[TaggedSentence], side: LanguageTokenizer, labels: Labels, *, max_length: int
    ) -> Self:
        """Encode; sentences in which no word counts are left out."""
        known = {name: index for index, name in enumerate(labels.names)}
        rows, tags, lines, cut = [], [], [], 0
        for example in examples:
            ids, firsts = encode_words(side, example.words)
            here = [IGNORED_LABEL] * len(ids)
            for first, label in zip(firsts, example.labels, strict=True):
                here[first] = known.get(label, IGNORED_LABEL)
            here = [IGNORED_LABEL, *here[: max_length - 2], IGNORED_LABEL]
            cut += len(ids) + 2 > max_length
            if any(label != IGNORED_LABEL for label in here):
                rows.append(wrap_in_bos_eos(ids, max_length=max_length))
                tags.append(here)
                lines.append(example.line)
        unknown = sum(label not in known for example in examples for label in example.labels)
        return cls(to_ragged(rows), to_ragged(tags), tuple(lines), cut, unknown)

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def lengths(self) -> LengthArray:
        """Tokens of each sentence, symbols included."""
        return self.tokens.lengths

    def collate(self, rows: Rows) -> TaggedBatch:
        """The sentences of `rows`, padded to the longest among them."""
        return TaggedBatch(
            tokens=torch.from_numpy(pad_batch(self.tokens, rows, padding=PAD)),
            lengths=torch.from_numpy(self.lengths[rows].astype(np.int64)),
            labels=torch.from_numpy(pad_batch(self.labels, rows, padding=IGNORED_LABEL)),
            rows=rows,
        )
