r"""Simpler simple recurrent unit (SSRU; Kim et al., 2019, section 3.1), in place of the decoder's self-attention.

$\tilde x_t = W x_t$, $f_t = \sigma(W_f x_t + b_f)$, $c_t = f_t \odot c_{t-1} + (1 - f_t) \odot \tilde x_t$ and
$h_t = \mathrm{ReLU}(c_t)$, with $c_0 = 0$. Only the cell $c$ passes from position to position: its size does not grow,
and no matrix multiplies it, so that two products serve all positions of a sequence.

$c_t$ is a weighted mean of $\tilde x_1, \dots, \tilde x_t$ and of the initial cell. The weight of position $s$,
$(1 - f_s) \prod_{r=s+1}^{t} f_r$, says how much of it the cell still holds.
"""

from dataclasses import dataclass
from typing import Any, Self, final

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from dragoman.array_types import Float, Int

Cells = Float[Tensor, "rows positions size"]


@dataclass(frozen=True)
class SSRUState:
    """Cell after the last position, one row per hypothesis; implements `LayerState`."""

    cell: Float[Tensor, "rows size"]
    length: int = 0
    """Number of cached positions: none."""

    def select(self, rows: Int[Tensor, " taken"]) -> Self:
        """Select rows in the given order; a row may occur more than once."""
        return type(self)(self.cell.index_select(0, rows))

    def pad(self, *, before: int = 0, after: int = 0) -> Self:  # noqa: ARG002
        """Return the same state: it has no positions to pad."""
        return self

    def concat(self, other: Self) -> Self:
        """Concatenate the rows of two states, whose hypotheses may differ in length."""
        return type(self)(torch.cat([self.cell, other.cell]))


@final
class SSRU(nn.Module):
    """SSRU over the positions of a sequence."""

    def __init__(self, *, size: int) -> None:
        super().__init__()
        self.input = nn.Linear(size, size, bias=False)
        self.forget_gate = nn.Linear(size, size)

    def start(self, rows: int) -> SSRUState:
        """Return the state before the first position."""
        weight = self.input.weight
        return SSRUState(weight.new_zeros(rows, weight.shape[0]))

    def gates(self, x: Cells) -> Cells:
        """Return the forget gates, at least in float32, in which sums over many positions stay exact enough."""
        gates = self.forget_gate(x)
        return gates.to(torch.promote_types(gates.dtype, torch.float32)).sigmoid()

    def forward(self, x: Cells, past: SSRUState | None = None) -> tuple[Cells, SSRUState]:
        """Return the outputs at all positions after `past`, and the state after them."""
        forget = self.gates(x)
        initial = forget.new_zeros(forget[:, 0].shape) if past is None else past.cell.to(forget.dtype)
        cells = scan_cells(self.input(x).to(forget.dtype), forget, initial)
        return cells.relu(), SSRUState(cells[:, -1])


def scan_cells(inputs: Cells, forget: Cells, initial: Float[Tensor, "rows size"]) -> Cells:
    r"""Return $c_t = f_t \odot c_{t-1} + (1 - f_t) \odot \tilde x_t$ at all positions.

    The loop over positions has one fused operation each, forward and backward: a thousandth of the arithmetic of the
    products around it. Every cell lies between the ones before it and its input, so that nothing overflows, and all
    positions in parallel give the same bits as one after the other.
    """
    cells: Cells = _Scan.apply(inputs, forget, initial)  # type: ignore[no-untyped-call]
    return cells


@final
class _Scan(torch.autograd.Function):
    """Cells at all positions, with gradients in one pass from the last position to the first."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, forget: Tensor, initial: Tensor) -> Tensor:
        cells, cell = torch.empty_like(inputs, memory_format=torch.contiguous_format), initial
        for x, gate, new in zip(inputs.unbind(1), forget.unbind(1), cells.unbind(1), strict=True):
            cell = torch.lerp(x, cell, gate, out=new)
        ctx.save_for_backward(inputs, forget, initial, cells)
        return cells

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        inputs, forget, initial, cells = ctx.saved_tensors
        total = gradient.clone(memory_format=torch.contiguous_format)  # gradient of each cell, later positions included
        positions, gates = total.unbind(1), forget.unbind(1)
        for position in range(len(positions) - 1, 0, -1):
            positions[position - 1].addcmul_(gates[position], positions[position])
        before = torch.cat([initial[:, None], cells[:, :-1]], dim=1)
        return (1 - forget) * total, (before - inputs) * total, gates[0] * positions[0]
