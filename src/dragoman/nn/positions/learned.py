"""A table of learnt vectors, one a place (Gehring et al., 2017)."""

from typing import final

from torch import Tensor, nn

from dragoman.errors import DataError
from dragoman.typing import Float, Int


@final
class LearnedPositions(nn.Module):
    """Has an end: a place beyond it is refused, with the remedy."""

    def __init__(self, *, length: int, size: int) -> None:
        super().__init__()
        self.maximum_length = length
        self.table = nn.Embedding(length, size)

    def forward(self, positions: Int[Tensor, "*places"]) -> Float[Tensor, "*places size"]:
        if positions.numel() and int(positions.max()) >= self.maximum_length:
            raise DataError(
                f"a sequence reaches position {int(positions.max())}, but the learned table of positions ends at "
                f"{self.maximum_length - 1}; shorten the input, or train with a larger model.positions.length"
            )
        return self.table(positions)
