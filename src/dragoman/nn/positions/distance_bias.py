"""Protocol of relative positions that depend on the distance of query and key."""

from typing import Protocol, runtime_checkable

from torch import Tensor

from dragoman.nn.scores import MappedQueries
from dragoman.typing import Float

Weights = Float[Tensor, "rows heads queries keys"]


@runtime_checkable
class PositionBias(Protocol):
    """Bias on the attention scores and, optionally, vectors added to the values.

    `past_length` keys precede the first query.
    """

    adds_values: bool

    def bias(self, query: MappedQueries, *, keys: int, past_length: int) -> Float[Tensor, "#rows heads queries {keys}"]:
        """Bias added to the scores of these queries."""
        ...

    def values(self, weights: Weights, *, past_length: int) -> Float[Tensor, "rows heads queries value_size"]:
        """Vectors added to the attention output; only if `adds_values`."""
        ...
