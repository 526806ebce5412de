"""What relative positions that depend on the distance of query and key offer to an attention."""

from typing import Protocol, runtime_checkable

from torch import Tensor

from dragoman.nn.scores import MappedQueries
from dragoman.typing import Float

Weights = Float[Tensor, "rows heads queries keys"]


@runtime_checkable
class DistanceBias(Protocol):
    """Numbers added to the scores, and perhaps vectors added to the values.

    `before` keys stand before the place of the first query.
    """

    adds_values: bool

    def bias(self, query: MappedQueries, *, keys: int, before: int) -> Float[Tensor, "#rows heads queries {keys}"]:
        """What is added to the scores of these queries."""
        ...

    def values(self, weights: Weights, *, before: int) -> Float[Tensor, "rows heads queries value_size"]:
        """What is added to the attended values; only where `adds_values`."""
        ...
