"""Which sentences go through the network together."""

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from dragoman.models.interfaces import Symbols


def batches_by_length(lengths: Sequence[int], *, budget: int) -> list[list[int]]:
    """The rows in batches of like length, longest first, so that what does not fit in memory is known at once.

    A batch is at most `budget` in number of rows times greatest length; a row that is longer by itself is alone.
    """
    batches: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if not batches or (len(batches[-1]) + 1) * lengths[batches[-1][0]] > budget:
            batches.append([])
        batches[-1].append(row)
    return batches


def rectangle(
    rows: Sequence[Sequence[int]], *, device: torch.device
) -> tuple[Int[Tensor, "batch places"], Int[Tensor, " batch"]]:
    """Ids padded after them, and their lengths."""
    ids = [torch.tensor(row, dtype=torch.long) for row in rows]
    padded = pad_sequence(ids, batch_first=True, padding_value=Symbols().pad)
    return padded.to(device), torch.tensor([len(row) for row in rows], device=device)
