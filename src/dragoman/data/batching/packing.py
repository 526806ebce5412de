"""Packing of running text into windows of one length; no document attends to another.

The packed text is BOS, the ids of a document, EOS, then the next document. Each position but the last predicts the next
token. The positions are cut into windows, each of which is a row of a batch. No prediction crosses the end of a
document, so a pass predicts every id and every EOS exactly once, wherever the cuts are. The first positions of a window
have little context.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray

from dragoman.array_types import Bool, Lengths, Rows, Tokens
from dragoman.data.batching.batch_streams import Epoch, EpochStream, RowBatch
from dragoman.data.datasets.memory_map import RaggedArray
from dragoman.data.tokenizers.vocabulary import BOS, EOS, PAD
from dragoman.errors import ConfigError, DataError

Windows = NDArray[np.int64]
"""One window per row: first position in the packed text, and the position after the last."""

PADDING_DOCUMENT = -1
"""Document number of padding."""


@final
@dataclass(frozen=True)
class TextBatch(RowBatch):
    """Padded texts with the positions to predict; `rows` holds first positions of windows, or indices of texts."""

    tokens: Tokens
    """Input of the model, padded with PAD on the right."""
    labels: Tokens
    """Expected output at each position; undefined where `loss_mask` is false."""
    loss_mask: Bool[torch.Tensor, "batch places"]
    """Positions that enter the loss."""
    document_ids: Tokens
    """Number of the document of each token within its row, from 0; -1 for padding."""

    @property
    def target_count(self) -> int:
        """Number of positions over which the loss is averaged."""
        return int(self.loss_mask.sum())

    @property
    def lengths(self) -> Lengths:
        """Number of tokens of each row, without padding."""
        return (self.document_ids != PADDING_DOCUMENT).sum(dim=1)

    @property
    def has_multiple_documents(self) -> bool:
        """Return whether a row holds more than one document; otherwise a causal mask suffices."""
        return bool((self.document_ids > 0).any())


@final
class PackedText:
    """Concatenated documents, each as BOS, ids, EOS; the ids stay on disk."""

    def __init__(self, texts: RaggedArray) -> None:
        """Raises DataError if the texts hold no id."""
        if not len(texts.values):
            raise DataError("there is no text to make windows of; check the corpus")
        self._values = texts.values
        self._lengths = texts.lengths.astype(np.int64)
        ends = np.cumsum(self._lengths)
        self._first_values = ends - self._lengths
        self._starts = self._first_values + 2 * np.arange(len(ends))

    def __len__(self) -> int:
        """Return the number of positions of the packed text."""
        return len(self._values) + 2 * len(self._lengths)

    def documents_at(self, places: Rows) -> Rows:
        """Return the index of the document at each position."""
        found: Rows = np.searchsorted(self._starts, places, side="right") - 1
        return found

    def windows(self, context_length: int, *, offset: int = 0) -> Windows:
        """Cut all predicting positions after `offset` of them and then after every `context_length`.

        The first and the last window may be shorter.
        """
        last = len(self) - 1
        cuts = np.concatenate([[0], np.arange(offset or context_length, last, context_length), [last]])
        return np.stack([cuts[:-1], cuts[1:]], axis=1)

    def batch(self, windows: Windows, *, width: int) -> TextBatch:
        """Return windows of at most `width` positions as a batch."""
        starts, ends = windows[:, :1], windows[:, 1:]
        places = starts + np.arange(width + 1)
        tokens, documents = self._read(np.minimum(places, len(self) - 1))
        real = places[:, :-1] < ends
        return TextBatch(
            tokens=torch.from_numpy(np.where(real, tokens[:, :-1], PAD)),
            labels=torch.from_numpy(np.where(real, tokens[:, 1:], PAD)),
            loss_mask=torch.from_numpy(real & (documents[:, :-1] == documents[:, 1:])),
            document_ids=torch.from_numpy(np.where(real, documents[:, :-1] - documents[:, :1], PADDING_DOCUMENT)),
            rows=windows[:, 0],
        )

    def _read(self, places: Rows) -> tuple[Rows, Rows]:
        """Return the tokens at positions and the indices of their documents."""
        documents = self.documents_at(places)
        offsets = places - self._starts[documents]
        values = self._values.take(np.clip(self._first_values[documents] + offsets - 1, 0, len(self._values) - 1))
        tokens = values.astype(np.int64)
        tokens[offsets == 0] = BOS
        tokens[offsets == self._lengths[documents] + 1] = EOS
        return tokens, documents


def window_stream(texts: RaggedArray, *, context_length: int, budget: int, seed: int) -> EpochStream[TextBatch]:
    """Return an endless stream of windows of `context_length` tokens, as many per batch as `budget` tokens allow.

    Every epoch shifts the cuts by an offset drawn from (seed, epoch) and shuffles the windows. Raises ConfigError if a
    window exceeds the budget, DataError if there is no text.
    """
    packed, rows = PackedText(texts), _rows_per_batch(context_length, budget)

    def epoch_of(epoch: int) -> Epoch[TextBatch]:
        generator = np.random.default_rng([seed, epoch])
        windows = packed.windows(context_length, offset=int(generator.integers(context_length)))
        return _epoch(packed, generator.permutation(windows), rows=rows, width=context_length)

    return EpochStream(epoch_of)


def windows_in_order(texts: RaggedArray, *, context_length: int, budget: int) -> Iterator[TextBatch]:
    """Yield all windows once, in the order of the text, for validation."""
    packed = PackedText(texts)
    windows = packed.windows(context_length)
    rows = _rows_per_batch(context_length, budget)
    return (build() for build in _epoch(packed, windows, rows=rows, width=context_length))


def _epoch(packed: PackedText, windows: Windows, *, rows: int, width: int) -> Epoch[TextBatch]:
    starts = range(0, len(windows), rows)
    return [partial(packed.batch, windows[start : start + rows], width=width) for start in starts]


def _rows_per_batch(context_length: int, budget: int) -> int:
    if context_length < 2:
        raise ValueError(f"context_length = {context_length}: a window of less than 2 tokens may predict nothing")
    check_budget(budget, context_length, unit="window")
    return budget // context_length


def check_budget(budget: int, context_length: int, *, unit: str) -> None:
    """Raise ConfigError if a batch holds no `unit` of the maximum length."""
    if budget < context_length:
        raise ConfigError(
            f"training.batch_tokens = {budget:,} holds no {unit} of data.context_length = {context_length:,} tokens; "
            "raise the one or lower the other"
        )
