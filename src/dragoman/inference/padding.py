"""Rows of ids as tensors."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from dragoman.models.special_symbols import Symbols
from dragoman.typing import Int


def rectangle(
    rows: Sequence[Sequence[int]], *, device: torch.device
) -> tuple[Int[Tensor, "batch places"], Int[Tensor, " batch"]]:
    """Ids padded after them, and their lengths."""
    ids = [torch.tensor(row, dtype=torch.long) for row in rows]
    padded = pad_sequence(ids, batch_first=True, padding_value=Symbols().pad)
    return padded.to(device), torch.tensor([len(row) for row in rows], device=device)
