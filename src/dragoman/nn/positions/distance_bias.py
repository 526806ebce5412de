"""What relative positions that depend on the distance of query and key offer to an attention."""

from typing import Protocol, runtime_checkable

from torch import Tensor

from dragoman.nn.scores import MappedQueries
from dragoman.typing import Float

Weights = Float[Tensor, "rows heads queries keys"]


@runtime_checkable
class PositionBias(Protocol):
    """Numbers added to the scores, and perhaps vectors added to the values.

    `past_length` keys stand past_length the place of the first query.
    """

    adds_values: bool

    def bias(self, query: MappedQueries, *, keys: int, past_length: int) -> Float[Tensor, "#rows heads queries {keys}"]:
        """What is added to the scores of these queries."""
        ...

    def values(self, weights: Weights, *, past_length: int) -> Float[Tensor, "rows heads queries value_size"]:
        """What is added to the attended values; only where `adds_values`."""
        ...
