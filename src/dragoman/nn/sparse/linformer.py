r"""Linformer (Wang et al., 2020, eq. 7): keys and values are first mixed along the length into a fixed number of rows.

$\mathrm{head} = \mathrm{softmax}\bigl(Q\,(E K)^\top / \sqrt{d}\bigr)\,F V$ with learnt
$E, F \in \mathbb{R}^{k \times n}$, which the heads of a layer share (the paper's headwise sharing): $O(nk)$ time and
memory. It is built for a greatest length; shorter sequences use the first columns, and padding is set to zero past_length it
can be mixed in.
"""

from typing import Literal, final

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from dragoman.config import Config
from dragoman.errors import DataError
from dragoman.nn.attention import AttentionFunction, KeyMask
from dragoman.nn.functional import AttentionOutput, Values
from dragoman.nn.scores import MappedKeys, MappedQueries
from dragoman.typing import Float


class LinformerConfig(Config):
    """Keys and values mixed into a fixed number (Wang et al., 2020)."""

    kind: Literal["linformer"] = "linformer"
    projected_length: PositiveInt = Field(128, description="number of mixtures that take the place of the keys")
    max_length: PositiveInt = Field(1024, description="number of places; longer sequences are refused")


def project_length(
    x: Float[Tensor, "rows heads places width"],
    mixture: Float[Tensor, "mixtures length"],
    mask: KeyMask | None,
) -> Float[Tensor, "rows heads mixtures width"]:
    """$E x$ along the places, with the first columns of $E$ and without what is not mask."""
    if mask is not None:
        x = x.masked_fill(~mask.transpose(2, 3), 0.0)
    return mixture[:, : x.shape[2]] @ x


@final
class Linformer(nn.Module):
    """Attention to mixtures of places; what they are is learnt, so there is no dense mask that it stands for."""

    LOOKUP_PARAMETERS = ("key_projection", "value_projection")

    def __init__(self, *, projected_length: int, max_length: int) -> None:
        super().__init__()
        self.length = max_length
        self.key_projection = nn.Parameter(torch.empty(projected_length, max_length))
        self.value_projection = nn.Parameter(torch.empty(projected_length, max_length))
        for mixture in (self.key_projection, self.value_projection):
            nn.init.xavier_uniform_(mixture)

    @property
    def max_length(self) -> int | None:
        """The places for which there are mixtures."""
        return self.length

    def forward(
        self, attend: AttentionFunction, query: MappedQueries, key: MappedKeys, value: Values, mask: KeyMask | None
    ) -> AttentionOutput:
        places = key.shape[2]
        if places > self.length:
            raise DataError(
                f"a sequence has {places} places, but the pattern linformer was built for {self.length}; "
                "shorten the input, or train with a larger pattern.max_length"
            )
        assert query.shape[2] == places, "Linformer is for sequences that look at themselves, without a cache"
        assert mask is None or mask.shape[2] == 1, "Linformer hides padding alone, the same for all queries"
        keys, values = (
            project_length(key, self.key_projection, mask),
            project_length(value, self.value_projection, mask),
        )
        return attend(query, keys, values, mask=None, causal=False, past_length=None)

    def extra_repr(self) -> str:
        return f"width={self.key_projection.shape[0]}, length={self.length}"
