"""Running text in windows of one length: documents one after the other, none of them seeing another.

The packed text is BEGIN, the ids of a document, END, then the next document. Each place of it but the last predicts the
one after it. The places are cut into windows, each of which is a row of a batch. Nothing is predicted across the end of
a document; so every id and every END of a text is expected exactly once in a pass, wherever the cuts are, and nothing
is skipped. What is lost at a cut is only what lies before it: the first places of a window know little.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dragoman.data.batching.epochs import Epoch, EpochStream, Rows
from dragoman.data.datasets.parallel import RaggedArray
from dragoman.data.tokenizers.vocabulary import BOS, EOS, PAD
from dragoman.errors import ConfigError, DataError
from dragoman.typing import Bool, Int, Lengths

Tokens = Int[Tensor, "batch places"]
Windows = NDArray[np.int64]
"""One a row: the first place of the packed text in it, and the first place behind it."""

PADDING_DOCUMENT = -1
"""The document of a place that is padding."""


@final
@dataclass(frozen=True)
class TextBatch:
    """Texts side by side, in which some places have a token to predict."""

    tokens: Tokens
    """What the network reads, padded after with PAD."""
    labels: Tokens
    """What it must predict at each place; it means nothing where the place does not count."""
    loss_mask: Bool[Tensor, "batch places"]
    """The places whose predictions make the loss."""
    document_ids: Tokens
    """Which document of its row each token is part of, from 0; -1 on padding."""
    rows: Rows
    """Where each row comes from: its first place in the packed text, or its index in its store."""

    def __len__(self) -> int:
        """Rows."""
        return len(self.rows)

    @property
    def target_count(self) -> int:
        """The number of places that count: what a loss is the mean over."""
        return int(self.loss_mask.sum())

    @property
    def lengths(self) -> Lengths:
        """Tokens of each row, padding aside."""
        return (self.document_ids != PADDING_DOCUMENT).sum(dim=1)

    @property
    def has_multiple_documents(self) -> bool:
        """Whether any row holds more than one document; if none does, a causal mask keeps everything apart."""
        return bool((self.document_ids > 0).any())

    def to(self, device: torch.device) -> Self:
        """The batch with its tensors on a device."""
        return type(self)(
            tokens=self.tokens.to(device, non_blocking=True),
            labels=self.labels.to(device, non_blocking=True),
            loss_mask=self.loss_mask.to(device, non_blocking=True),
            document_ids=self.document_ids.to(device, non_blocking=True),
            rows=self.rows,
        )


@final
class PackedText:
    """Documents one after the other, as BEGIN, ids, END each; the ids stay where they are, on the disk."""

    def __init__(self, texts: RaggedArray) -> None:
        """Raises DataError where the texts hold no id."""
        if not len(texts.values):
            raise DataError("there is no text to make windows of; check the corpus")
        self._values = texts.values
        self._lengths = texts.lengths.astype(np.int64)
        ends = np.cumsum(self._lengths)
        self._firsts = ends - self._lengths
        self._begins = self._firsts + 2 * np.arange(len(ends))

    def __len__(self) -> int:
        """Places of the packed text."""
        return len(self._values) + 2 * len(self._lengths)

    def documents_at(self, places: Rows) -> Rows:
        """The index of the document that each place is part of."""
        found: Rows = np.searchsorted(self._begins, places, side="right") - 1
        return found

    def windows(self, context_length: int, *, offset: int = 0) -> Windows:
        """All places that predict the next one, cut after `offset` of them and then after every `context`.

        The first window is shorter where `offset` is, and so may be the last.
        """
        last = len(self) - 1
        cuts = np.concatenate([[0], np.arange(offset or context_length, last, context_length), [last]])
        return np.stack([cuts[:-1], cuts[1:]], axis=1)

    def batch(self, windows: Windows, *, width: int) -> TextBatch:
        """Windows of at most `width` places as the rows of a batch."""
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
        """The tokens at these places, and the indices of their documents."""
        documents = self.documents_at(places)
        offsets = places - self._begins[documents]
        values = self._values.take(np.clip(self._firsts[documents] + offsets - 1, 0, len(self._values) - 1))
        tokens = values.astype(np.int64)
        tokens[offsets == 0] = BOS
        tokens[offsets == self._lengths[documents] + 1] = EOS
        return tokens, documents


def window_stream(texts: RaggedArray, *, context_length: int, budget: int, seed: int) -> EpochStream[TextBatch]:
    """Windows of `context` tokens for ever, as many in a batch as the `budget` of tokens holds.

    Every epoch cuts the text at other places, shifted by an offset drawn from (seed, epoch), and shuffles the windows.
    Raises ConfigError where not even one window is within the budget, DataError where there is no text.
    """
    packed, rows = PackedText(texts), _rows_per_batch(context_length, budget)

    def epoch_of(epoch: int) -> Epoch[TextBatch]:
        generator = np.random.default_rng([seed, epoch])
        windows = packed.windows(context_length, offset=int(generator.integers(context_length)))
        return _epoch(packed, generator.permutation(windows), rows=rows, width=context_length)

    return EpochStream(epoch_of)


def windows_in_order(texts: RaggedArray, *, context_length: int, budget: int) -> Iterator[TextBatch]:
    """All windows once, in the order of the text, without chance: for validation."""
    packed = PackedText(texts)
    windows = packed.windows(context_length)
    return iter(_epoch(packed, windows, rows=_rows_per_batch(context_length, budget), width=context_length))


def _epoch(packed: PackedText, windows: Windows, *, rows: int, width: int) -> Epoch[TextBatch]:
    plan = [windows[start : start + rows] for start in range(0, len(windows), rows)]
    return Epoch(plan, lambda _, chosen: packed.batch(chosen, width=width))


def _rows_per_batch(context: int, budget: int) -> int:
    if context < 2:
        raise ValueError(f"context = {context}: a window of less than 2 tokens may have nothing to predict")
    if budget < context:
        raise ConfigError(
            f"training.batch_tokens = {budget:,} holds no window of data.context_length = {context:,} tokens; raise the one "
            "or lower the other"
        )
    return budget // context
