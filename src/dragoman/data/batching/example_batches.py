"""Batches of examples of any kind: an endless shuffled stream for training, or one pass in order for validation.

Prompts with their continuations are examples of a decoder-only model, of which only the continuation is predicted.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar, final

import numpy as np
import torch
from numpy.typing import NDArray

from dragoman.array_types import Int, Lengths, Rows
from dragoman.data.batching.batch_streams import Epoch, EpochStream, RowBatch
from dragoman.data.batching.packing import PADDING_DOCUMENT, TextBatch
from dragoman.data.batching.token_budget_batches import LengthArray, plan_batches, plan_batches_in_order
from dragoman.data.datasets.memory_map import RaggedArray
from dragoman.data.datasets.parallel import TokenStore
from dragoman.data.tokenizers.vocabulary import BOS, EOS, PAD
from dragoman.errors import DataError

_Ids = NDArray[np.int64]
_B = TypeVar("_B")
_B_co = TypeVar("_B_co", covariant=True)


class ExampleDataset(Protocol[_B_co]):
    """Tokenized examples."""

    @property
    def lengths(self) -> LengthArray:
        """Number of tokens of each example, special tokens included."""
        ...

    def collate(self, rows: Rows) -> _B_co:
        """Return the examples of `rows`, padded to the longest of them."""
        ...


def to_ragged(sequences: Sequence[Sequence[int]]) -> RaggedArray:
    """Concatenate sequences of different lengths."""
    lengths = np.fromiter(map(len, sequences), dtype=np.int32, count=len(sequences))
    values = np.fromiter((value for sequence in sequences for value in sequence), dtype=np.int32)
    return RaggedArray(values, lengths)


def pad_batch(sequences: RaggedArray, rows: Rows, *, padding: int) -> _Ids:
    """Return the sequences of `rows`, padded to the longest of them."""
    padded = np.full((len(rows), int(sequences.lengths[rows].max())), padding, dtype=np.int64)
    sequences.fill(rows, padded)
    return padded


@dataclass(frozen=True)
class SequenceBatch(RowBatch):
    """Base class of batches of token sequences."""

    tokens: Int[torch.Tensor, "batch places"]
    """Tokens with BOS and EOS, padded with PAD."""
    lengths: Lengths
    """Number of tokens of each sequence, BOS and EOS included."""


@dataclass(frozen=True)
class RaggedExamples:
    """Base class of data sets whose examples are token sequences."""

    tokens: RaggedArray

    def __len__(self) -> int:
        """Return the number of token sequences."""
        return len(self.tokens)

    @property
    def lengths(self) -> LengthArray:
        """Number of tokens of each sequence, special tokens included."""
        return self.tokens.lengths

    def pad(self, rows: Rows) -> dict[str, Any]:
        """Return `tokens`, `lengths` and `rows` of a batch, padded to the longest of `rows`."""
        tokens = torch.from_numpy(pad_batch(self.tokens, rows, padding=PAD))
        return {"tokens": tokens, "lengths": torch.from_numpy(self.lengths[rows].astype(np.int64)), "rows": rows}


def example_stream(
    examples: ExampleDataset[_B] | Callable[[int], ExampleDataset[_B]], *, budget: int, seed: int
) -> EpochStream[_B]:
    """Return an endless stream of batches of at most `budget` padded tokens, shuffled by `seed` in each epoch.

    `examples` is one data set, or a function from the epoch (from 0) to its data set, as BPE dropout needs. Raises
    DataError if there is no example, or if one is longer than the budget.
    """

    def epoch(number: int) -> Epoch[_B]:
        own = examples(number) if callable(examples) else examples
        if len(own.lengths) and own.lengths.max() > budget:
            raise DataError(
                f"example {int(own.lengths.argmax())}: its {int(own.lengths.max()):,} tokens exceed the budget of "
                f"{budget:,} tokens per batch; raise training.batch_tokens, or lower the maximum length in data"
            )
        widths = own.lengths - 1  # the plan adds one for a special token
        batches = plan_batches(widths, widths, budget=budget, seed=seed, epoch=number)
        return [partial(own.collate, rows) for rows in batches]

    return EpochStream(epoch)


def examples_in_order(examples: ExampleDataset[_B], *, budget: int) -> Iterator[_B]:
    """Yield all examples once, shortest first, in batches of at most `budget` padded tokens or a single example."""
    widths = examples.lengths - 1
    for rows in plan_batches_in_order(widths, widths, budget=budget):
        yield examples.collate(rows)


@final
@dataclass(frozen=True)
class PromptLayout:
    """Places of BOS in a pair: before the prompt, or between prompt and continuation."""

    separator: bool = True
    begins_with_bos: bool = False


_SEPARATED = PromptLayout()


@final
@dataclass(frozen=True)
class PromptDataset:
    """Pairs of a store as prompts with continuations; implements `ExampleDataset`."""

    store: TokenStore
    layout: PromptLayout = _SEPARATED

    @property
    def lengths(self) -> LengthArray:
        """Number of tokens of each pair, BOS included."""
        symbols = int(self.layout.begins_with_bos) + int(self.layout.separator)
        return self.store.source.lengths + self.store.target.lengths + symbols

    def collate(self, rows: Rows) -> TextBatch:
        """Return source ids and target ids, with BOS as in the layout; target ids and EOS are predicted."""
        store, lengths = self.store, self.lengths[rows].astype(np.int64)
        starts = lengths - store.target.lengths[rows]
        first = int(self.layout.begins_with_bos)
        each, columns = np.arange(len(rows)), np.arange(int(lengths.max()))
        tokens = np.full((len(rows), len(columns)), PAD, dtype=np.int64)
        store.source.fill(rows, tokens[:, first:])
        tokens[:, :first] = BOS
        if self.layout.separator:
            tokens[each, starts - 1] = BOS
        targets = pad_batch(store.target, rows, padding=PAD)
        row, column = np.nonzero(np.arange(targets.shape[1]) < store.target.lengths[rows][:, None])
        tokens[row, starts[row] + column] = targets[row, column]
        labels = np.full_like(tokens, PAD)
        labels[:, :-1] = tokens[:, 1:]
        labels[each, lengths - 1] = EOS
        real = columns < lengths[:, None]
        return TextBatch(
            tokens=torch.from_numpy(tokens),
            labels=torch.from_numpy(labels),
            loss_mask=torch.from_numpy(real & (columns >= starts[:, None] - 1)),
            document_ids=torch.from_numpy(np.where(real, 0, PADDING_DOCUMENT)),
            rows=rows,
        )


def prompt_stream(
    store: TokenStore | Callable[[int], TokenStore], layout: PromptLayout = _SEPARATED, *, budget: int, seed: int
) -> EpochStream[TextBatch]:
    """Return an endless stream of pairs of similar length under a `budget` of padded tokens, shuffled by `seed`.

    `store` is one store, or a function from the epoch to its store, as BPE dropout needs. Raises DataError if a pair is
    longer than the budget, or if there is none.
    """
    examples = (lambda epoch: PromptDataset(store(epoch), layout)) if callable(store) else PromptDataset(store, layout)
    return example_stream(examples, budget=budget, seed=seed)


def prompts_in_order(store: TokenStore, layout: PromptLayout = _SEPARATED, *, budget: int) -> Iterator[TextBatch]:
    """Yield all pairs once, by length; `TextBatch.rows` holds their indices."""
    return examples_in_order(PromptDataset(store, layout), budget=budget)
