r"""Feed-forward network, $W_2\,f(W_1 x)$ (Vaswani et al., 2017, eq. 2), plain or gated (Shazeer, 2020)."""

from typing import Literal, assert_never, final

import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.array_types import Float
from dragoman.nn.dropout import Dropout

ActivationName = Literal["relu", "gelu", "gelu_tanh", "silu"]


def activation_function(x: Float[Tensor, "*shape"], name: ActivationName) -> Float[Tensor, "*shape"]:
    """ReLU, GELU (Hendrycks and Gimpel, 2016), its approximation by tanh, or SiLU (Elfwing et al., 2018)."""
    match name:
        case "relu":
            return F.relu(x)
        case "gelu":
            return F.gelu(x)
        case "gelu_tanh":
            return F.gelu(x, approximate="tanh")
        case "silu":
            return F.silu(x)
        case _:
            assert_never(name)


@final
class FeedForward(nn.Module):
    r"""$W_2\,f(W_1 x)$, or gated $W_2\,(f(W_1 x) \odot W_3 x)$: GeGLU with GELU, SwiGLU with SiLU."""

    def __init__(
        self, *, d_model: int, d_ff: int, activation: ActivationName, gated: bool, bias: bool, dropout: float
    ) -> None:
        super().__init__()
        self.activation: ActivationName = activation
        self.inner = nn.Linear(d_model, d_ff, bias=bias)
        self.gate = nn.Linear(d_model, d_ff, bias=bias) if gated else None
        self.outer = nn.Linear(d_ff, d_model, bias=bias)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "rows positions size"]) -> Float[Tensor, "rows positions size"]:
        hidden = activation_function(self.inner(x), self.activation)
        if self.gate is not None:
            hidden = hidden * self.gate(x)
        return self.outer(self.dropout(hidden))
