"""Dropout (Srivastava et al., 2014) whose masks are cheap to draw and belong to examples.

On a CPU, PyTorch draws one Bernoulli number per element from a serial generator, in the order of the batch. Here the
generator gives one number per call; the mask of an element follows from that number, from the key of its row and from
its position in the row. An example therefore loses the same elements in any batch, with any padding and on any worker.
Attention weights computed in chunks or blocks are an exception, because the number of calls depends on the batch. One
64-bit number serves four elements: each is kept if its 16 bits reach a threshold, so that the probability is rounded to
a multiple of 2^-16 below 1.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.array_types import Int, Shaped
from dragoman.nn.cpu_training_ops import CpuDropout, cpu_ops_for

_LEVELS: Final = 2**16
# Odd multipliers as signed integers: the golden ratio in 64 bits, and two of SplitMix64 (Steele, Lea and Flood, 2014).
_GOLDEN: Final = -7046029254386353131
_FIRST: Final = -4658895280553007687
_SECOND: Final = -7723592293110705685
RowKeys = Int[Tensor, " rows"]
_KEYS: Final[ContextVar[RowKeys | None]] = ContextVar("keys", default=None)


@contextmanager
def dropout_keys(keys: RowKeys) -> Iterator[None]:
    """Derive the masks of row `i` of a batch from `keys[i]` instead of `i` inside the context."""
    token = _KEYS.set(keys)
    try:
        yield
    finally:
        _KEYS.reset(token)


def dropout(x: Shaped[Tensor, "*shape"], probability: float) -> Shaped[Tensor, "*shape"]:
    """Zero each element with `probability` and scale the rest, so that the expectation is unchanged."""
    if probability == 0 or not x.numel():
        return x
    if x.device.type != "cpu":
        return F.dropout(x, probability)
    if x.ndim < 2:
        return dropout(x.reshape(1, -1), probability).view(x.shape)
    threshold = min(round(probability * _LEVELS), _LEVELS - 1) - _LEVELS // 2
    lines, columns = _words(x.shape)
    if core := cpu_ops_for(x):
        return CpuDropout.apply(x, lines, columns, _FIRST, threshold, 1 / (1 - probability), core)  # type: ignore[no-untyped-call]
    kept = _levels(lines, columns)[..., : x.shape[-1]] >= threshold
    return x * kept.to(x.dtype).mul_(1 / (1 - probability))


def _words(shape: torch.Size) -> tuple[Int[Tensor, "*lines"], Int[Tensor, " columns"]]:
    """Return a random word per row of the last axis, and one per four elements of that axis."""
    call = int(torch.empty((), dtype=torch.int64).random_())
    lines = _mixed(_row_keys(shape[0]) + call)
    for axis, size in enumerate(shape[1:-1]):
        lines = _mixed(lines[..., None] + torch.arange(size) * (axis + 1))
    return lines, _mixed(torch.arange(-(-shape[-1] // 4)) * _GOLDEN + call) | 1


def _levels(lines: Int[Tensor, "*lines"], columns: Int[Tensor, " columns"]) -> Int[Tensor, "*lines levels"]:
    """Return the four 16-bit parts of the words of all lines and columns."""
    words = lines[..., None] * columns
    words ^= words >> 32
    words *= _FIRST
    return words.view(torch.int16)


def _row_keys(rows: int) -> RowKeys:
    """Return a key per row; an example may have several consecutive rows."""
    keys = _KEYS.get()
    if keys is None:
        return torch.arange(rows) * _GOLDEN
    each, left = divmod(rows, len(keys))
    assert not left, f"{rows} rows are not a multiple of {len(keys)} examples"
    mixed = _mixed(keys * _GOLDEN)
    return mixed if each == 1 else (mixed[:, None] + torch.arange(each)).flatten()


def _mixed(numbers: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
    """Hash each number by the finalizer of SplitMix64."""
    numbers = (numbers ^ (numbers >> 30)) * _FIRST
    numbers = (numbers ^ (numbers >> 27)) * _SECOND
    return numbers ^ (numbers >> 31)


@final
class Dropout(nn.Module):
    """Dropout in training mode."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, x: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
        return dropout(x, self.probability) if self.training else x
