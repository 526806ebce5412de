r"""Tokens to vectors, $\sqrt{d}\,E_w + PE(p)$ (Vaswani et al., 2017, section 3.4), and vectors back to logits."""

import math
from typing import final

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from dragoman.nn.dropout import Dropout
from dragoman.nn.positions.learned import LearnedPositions
from dragoman.nn.positions.sinusoidal import Sinusoids


@final
class TokenEmbedding(nn.Module):
    """Embeds tokens at their positions; the weight may be shared with another embedding and the unembedding."""

    def __init__(self, *, tokens: nn.Embedding, positions: Sinusoids | LearnedPositions, dropout: float) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = positions
        self.scale = math.sqrt(tokens.embedding_dim)
        self.dropout = Dropout(dropout)

    def forward(
        self, tokens: Int[Tensor, "rows places"], positions: Int[Tensor, "#rows places"]
    ) -> Float[Tensor, "rows places size"]:
        x = self.tokens(tokens) * self.scale + self.positions(positions)
        return self.dropout(x)


@final
class Unembedding(nn.Module):
    r"""$W h + b$: one logit a word; $W$ may be the target embedding (Press and Wolf, 2017)."""

    def __init__(self, *, weight: Tensor, bias: bool) -> None:
        super().__init__()
        self.weight = weight
        self.bias = nn.Parameter(weight.new_zeros(weight.shape[0])) if bias else None

    def forward(self, hidden: Float[Tensor, "*positions size"]) -> Float[Tensor, "*positions vocabulary"]:
        return F.linear(hidden, self.weight, self.bias)
