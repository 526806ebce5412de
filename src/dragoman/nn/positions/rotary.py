r"""Rotary positions (Su et al., 2021): queries and keys turn with their place.

Of a head of size $d$, the numbers $i$ and $i + d/2$ are a point of a plane that turns by $p \cdot b^{-2i/d}$ at place
$p$, so that the inner product of a query and a key depends on their distance alone. The paper pairs neighbours instead;
halves are the layout of GPT-NeoX and Llama, and the same network with its rows in another order.
"""

from typing import final

import torch
from torch import Tensor, nn

from dragoman.nn.cpu_ops import Turned, core_for
from dragoman.typing import Float, Int

PerHead = Float[Tensor, "rows heads places head_size"]


def rotate(x: PerHead, places: Int[Tensor, "#rows places"], *, base: float) -> PerHead:
    """`x` turned by its places."""
    half = x.shape[-1] // 2
    rates = base ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    angles = places[:, None, :, None] * rates
    cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    if core := core_for(x):
        return Turned.apply(x, cosine[:, 0], sine[:, 0], core)  # type: ignore[no-untyped-call]
    left, right = x[..., :half], x[..., half:]
    return torch.cat([left * cosine - right * sine, right * cosine + left * sine], dim=-1)


@final
class Rotary(nn.Module):
    """`rotate` as a module without parameters; places may go on without end."""

    def __init__(self, *, base: float) -> None:
        super().__init__()
        self.base = base

    def forward(self, x: PerHead, places: Int[Tensor, "#rows places"]) -> PerHead:
        return rotate(x, places, base=self.base)
