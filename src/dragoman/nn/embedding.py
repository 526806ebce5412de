r"""Token embeddings, $\sqrt{d}\,E_w + PE(p)$ (Vaswani et al., 2017, section 3.4), and the output projection."""

import math
from typing import final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.array_types import Float, Int
from dragoman.nn.dropout import Dropout
from dragoman.nn.positions.learned import LearnedPositions
from dragoman.nn.positions.sinusoidal import SinusoidalPositions
from dragoman.nn.positions.tree import DepthEmbedding

Vectors = Float[Tensor, "rows positions size"]


@final
class TokenEmbedding(nn.Module):
    """Embed tokens and positions; the weight may be tied to another embedding and the output projection.

    Positions are added, or with `project` concatenated and projected, $W [x; p]$. With `depth`, the depth of a token in
    a dependency tree is combined with its position first. Segments distinguish the texts of a row (Devlin et al., 2019,
    section 3).
    """

    def __init__(
        self,
        *,
        tokens: nn.Embedding,
        positions: SinusoidalPositions | LearnedPositions | None,
        dropout: float,
        scaled: bool = True,
        project: nn.Linear | None = None,
        depth: DepthEmbedding | None = None,
        segments: nn.Embedding | None = None,
        norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = positions
        self.scale = math.sqrt(tokens.embedding_dim) if scaled else 1.0
        self.project = project
        self.depth = depth
        self.segments = segments
        self.norm = norm
        self.dropout = Dropout(dropout)

    @property
    def max_length(self) -> int | None:
        """Maximum sequence length of the positions, or None if unlimited."""
        return None if self.positions is None else self.positions.max_length

    def forward(
        self,
        tokens: Int[Tensor, "rows positions"],
        position_ids: Int[Tensor, "#rows positions"] | None = None,
        segments: Int[Tensor, "rows positions"] | None = None,
        depths: Int[Tensor, "rows positions"] | None = None,
    ) -> Vectors:
        """Embed `tokens`; with `positions`, at `position_ids`; with `depth`, at `depths` in the dependency tree."""
        x = self.tokens(tokens) * self.scale
        if self.segments is not None:
            x = x + self.segments(torch.zeros_like(tokens) if segments is None else segments)
        if self.positions is not None:
            assert position_ids is not None, "positions require position ids"
            positions = self.positions(position_ids)
            if self.depth is not None:
                assert depths is not None, "tree positions require depths"
                positions = self.depth(positions, depths)
            x = x + positions if self.project is None else self.project(torch.cat([x, positions.expand_as(x)], dim=-1))
        if self.norm is not None:
            x = self.norm(x)
        return self.dropout(x)


@final
class Unembedding(nn.Module):
    r"""$W h + b$: one logit per vocabulary entry; $W$ may be the target embedding (Press and Wolf, 2017)."""

    def __init__(self, *, weight: Tensor, bias: bool) -> None:
        super().__init__()
        self.weight = weight
        self.bias = nn.Parameter(weight.new_zeros(weight.shape[0])) if bias else None

    def forward(self, hidden: Float[Tensor, "*positions size"]) -> Float[Tensor, "*positions vocabulary"]:
        return F.linear(hidden, self.weight, self.bias)


def lookup_parameters(model: nn.Module) -> set[int]:
    """Return the `id` of every parameter that is a lookup table, which optimizers treat like a vector.

    Besides embeddings, these are the parameters that a module names in `LOOKUP_PARAMETERS`.
    """
    found = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    named = [(module, name) for module in model.modules() for name in getattr(module, "LOOKUP_PARAMETERS", ())]
    return found | {id(getattr(module, name)) for module, name in named}
