r"""Linformer (Wang et al., 2020, eq. 7): keys and values are first mixed along the length into a fixed number of rows.

$\mathrm{head} = \mathrm{softmax}\bigl(Q\,(E K)^\top / \sqrt{d}\bigr)\,F V$ with learnt
$E, F \in \mathbb{R}^{k \times n}$, which the heads of a layer share (the paper's headwise sharing): $O(nk)$ time and
memory. It is built for a greatest length; shorter sequences use the first columns, and padding is set to zero before it
can be mixed in.
"""

from typing import Literal, final

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from dragoman.config import Config
from dragoman.errors import DataError
from dragoman.nn.attention import Look, Reachable
from dragoman.nn.functional import Attended, Values
from dragoman.nn.scores import MappedKeys, MappedQueries
from dragoman.typing import Float


class LinformerConfig(Config):
    """Keys and values mixed into a fixed number (Wang et al., 2020)."""

    kind: Literal["linformer"] = "linformer"
    width: PositiveInt = Field(128, description="number of mixtures that take the place of the keys")
    length: PositiveInt = Field(1024, description="number of places; longer sequences are refused")


def mixed(
    x: Float[Tensor, "rows heads places width"],
    mixture: Float[Tensor, "mixtures length"],
    allowed: Reachable | None,
) -> Float[Tensor, "rows heads mixtures width"]:
    """$E x$ along the places, with the first columns of $E$ and without what is not allowed."""
    if allowed is not None:
        x = x.masked_fill(~allowed.transpose(2, 3), 0.0)
    return mixture[:, : x.shape[2]] @ x


@final
class Linformer(nn.Module):
    """Attention to mixtures of places; what they are is learnt, so there is no dense mask that it stands for."""

    TABLES = ("of_keys", "of_values")

    def __init__(self, *, width: int, length: int) -> None:
        super().__init__()
        self.length = length
        self.of_keys = nn.Parameter(torch.empty(width, length))
        self.of_values = nn.Parameter(torch.empty(width, length))
        for mixture in (self.of_keys, self.of_values):
            nn.init.xavier_uniform_(mixture)

    @property
    def maximum_length(self) -> int | None:
        """The places for which there are mixtures."""
        return self.length

    def forward(
        self, look: Look, query: MappedQueries, key: MappedKeys, value: Values, allowed: Reachable | None
    ) -> Attended:
        places = key.shape[2]
        if places > self.length:
            raise DataError(
                f"a sequence has {places} places, but the pattern linformer was built for {self.length}; "
                "shorten the input, or train with a larger pattern.length"
            )
        assert query.shape[2] == places, "Linformer is for sequences that look at themselves, without a cache"
        assert allowed is None or allowed.shape[2] == 1, "Linformer hides padding alone, the same for all queries"
        keys, values = mixed(key, self.of_keys, allowed), mixed(value, self.of_values, allowed)
        return look(query, keys, values, allowed=None, causal=False, before=None)

    def extra_repr(self) -> str:
        return f"width={self.of_keys.shape[0]}, length={self.length}"
