r"""Linformer (Wang et al., 2020, eq. 7): keys and values are projected along the length to a fixed number of rows.

$\mathrm{head} = \mathrm{softmax}\bigl(Q\,(E K)^\top / \sqrt{d}\bigr)\,F V$ with learned
$E, F \in \mathbb{R}^{k \times n}$, shared by the heads of a layer: $O(nk)$ time and memory. Shorter sequences use the
first columns. Padding is set to zero before the projection.
"""

from typing import Literal, final

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from dragoman.array_types import Float
from dragoman.config import Config
from dragoman.errors import DataError
from dragoman.nn.attention import AttentionFunction, KeyMask
from dragoman.nn.attention_functions import AttentionOutput, Values, VisibleKeys
from dragoman.nn.attention_score_functions import MappedKeys, MappedQueries


class LinformerConfig(Config):
    """Keys and values projected to a fixed length (Wang et al., 2020)."""

    kind: Literal["linformer"] = "linformer"
    projected_length: PositiveInt = Field(default=128, description="number of projected keys")
    max_length: PositiveInt = Field(default=1024, description="number of positions; longer sequences are refused")


def project_length(
    x: Float[Tensor, "rows heads positions width"], mixture: Float[Tensor, "mixtures length"], mask: KeyMask | None
) -> Float[Tensor, "rows heads mixtures width"]:
    """Compute $E x$ along the positions, with the first columns of $E$ and zeros at masked positions."""
    if mask is not None:
        x = x.masked_fill(~mask.transpose(2, 3), 0.0)
    return mixture[:, : x.shape[2]] @ x


@final
class Linformer(nn.Module):
    """Attention to learned mixtures of positions, which no dense mask can express."""

    LOOKUP_PARAMETERS = ("key_projection", "value_projection")

    def __init__(self, *, projected_length: int, max_length: int) -> None:
        super().__init__()
        self.max_length: int | None = max_length
        self.key_projection = nn.Parameter(torch.empty(projected_length, max_length))
        self.value_projection = nn.Parameter(torch.empty(projected_length, max_length))
        for mixture in (self.key_projection, self.value_projection):
            nn.init.xavier_uniform_(mixture)

    def forward(
        self, attend: AttentionFunction, query: MappedQueries, key: MappedKeys, value: Values, mask: KeyMask | None
    ) -> AttentionOutput:
        length = key.shape[2]
        if length > self.key_projection.shape[1]:
            raise DataError(
                f"a sequence has {length} tokens, but the pattern linformer supports {self.max_length}; "
                "shorten the input, or train with a larger pattern.max_length"
            )
        assert query.shape[2] == length, "Linformer requires self-attention without a cache"
        assert mask is None or mask.shape[2] == 1, "Linformer masks padding only, the same for all queries"
        keys = project_length(key, self.key_projection, mask)
        values = project_length(value, self.value_projection, mask)
        return attend(query, keys, values, VisibleKeys())
