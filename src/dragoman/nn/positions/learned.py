"""Learned position embeddings (Gehring et al., 2017)."""

from typing import final

import torch
from torch import Tensor, nn

from dragoman.array_types import Float, Int
from dragoman.errors import DataError


@final
class LearnedPositions(nn.Module):
    """Position embeddings up to `max_length`; longer sequences raise DataError.

    The table has `offset` rows before that of the first position, as in fairseq, BART and RoBERTa.
    """

    def __init__(self, *, max_length: int, size: int, offset: int = 0) -> None:
        super().__init__()
        self.max_length = max_length
        self.offset = offset
        self.table = nn.Embedding(offset + max_length, size)

    def forward(self, positions: Int[Tensor, "*positions"]) -> Float[Tensor, "*positions size"]:
        # A graph cannot depend on numbers in tensors; `max_length` tells its callers the limit.
        if not torch.compiler.is_exporting() and positions.numel() and int(positions.max()) >= self.max_length:
            raise DataError(
                f"a sequence reaches position {int(positions.max())}, but the learned position embeddings end at "
                f"{self.max_length - 1}; shorten the input, or train with a larger model.positions.max_length"
            )
        return self.table(positions + self.offset)
