"""Equations of one step of an LSTM or GRU cell.

The input part of the gates is a product of its own, `project_input`, so that one product serves all positions of a
sequence. Weights and gate order are those of PyTorch's `nn.LSTM` and `nn.GRU`.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Self, assert_never

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.array_types import Float

CellName = Literal["lstm", "gru"]
CellState = tuple[Float[Tensor, "rows size"], ...]
"""State of one layer: the hidden state, followed by the cell state of an LSTM."""
LayerStates = tuple[CellState, ...]
"""States of all layers, the lowest first."""


def num_states(cell: CellName) -> int:
    """Return the number of vectors that a cell passes from one position to the next."""
    return {"lstm": 2, "gru": 1}[cell]


def lstm_cell(
    cell: Float[Tensor, "rows size"], gates: Float[Tensor, "rows 4*size"]
) -> tuple[Float[Tensor, "rows size"], Float[Tensor, "rows size"]]:
    r"""$c_t = \sigma(f) \odot c_{t-1} + \sigma(i) \odot \tanh(g)$ and $h_t = \sigma(o) \odot \tanh(c_t)$.

    Hochreiter and Schmidhuber (1997), with the forget gate $f$ of Gers et al. (2000). `gates` are
    $[i; f; g; o] = W x_t + U h_{t-1} + b$. Returns $h_t$ and $c_t$.
    """
    i, f, g, o = gates.chunk(4, dim=1)
    new = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * new.tanh(), new


def gru_cell(
    hidden: Float[Tensor, "rows size"],
    from_input: Float[Tensor, "rows 3*size"],
    from_hidden: Float[Tensor, "rows 3*size"],
) -> Float[Tensor, "rows size"]:
    r"""$h_t = z \odot h_{t-1} + (1 - z) \odot n$ with the gates $[r; z] = \sigma(W x_t + U h_{t-1} + b)$ and
    $n = \tanh(W_n x_t + b_n + r \odot (U_n h_{t-1} + b_n'))$ (Cho et al., 2014, eq. 5 to 8).

    `from_input` and `from_hidden` are $W x_t + b$ and $U h_{t-1} + b'$ of $r$, $z$ and $n$. The paper resets $h_{t-1}$
    before its linear map; here the reset follows the map, as in PyTorch and cuDNN, so that one product computes all.
    """
    size = hidden.shape[1]
    r, z = (from_input[:, : 2 * size] + from_hidden[:, : 2 * size]).sigmoid().chunk(2, dim=1)
    n = torch.tanh(from_input[:, 2 * size :] + r * from_hidden[:, 2 * size :])
    return n + z * (hidden - n)


class CellWeights(NamedTuple):
    """Weights of one layer in one direction."""

    input: Float[Tensor, "gates input_size"]
    hidden: Float[Tensor, "gates size"]
    input_bias: Float[Tensor, " gates"]
    hidden_bias: Float[Tensor, " gates"]

    @classmethod
    def of(cls, layer: nn.RNNBase, *, reverse: bool = False) -> Self:
        """Return the weights of a PyTorch module of one layer."""
        suffix = "_l0_reverse" if reverse else "_l0"
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        return cls(*(getattr(layer, name + suffix) for name in names))


def project_input(
    cell: CellName, weights: CellWeights, x: Float[Tensor, "*positions input_size"]
) -> Float[Tensor, "*positions gates"]:
    """Return the input part of the gates, with the biases that do not depend on the hidden state."""
    match cell:
        case "lstm":
            bias = weights.input_bias + weights.hidden_bias
        case "gru":  # the reset gate multiplies `hidden_bias`
            bias = weights.input_bias
        case _:
            assert_never(cell)
    return F.linear(x, weights.input, bias)


def cell_step(
    cell: CellName, weights: CellWeights, gate_inputs: Float[Tensor, "rows gates"], state: CellState
) -> CellState:
    """Return the next state, from the input part of the gates."""
    match cell:
        case "lstm":
            hidden, memory = state
            return lstm_cell(memory, torch.addmm(gate_inputs, hidden, weights.hidden.t()))
        case "gru":
            (hidden,) = state
            return (gru_cell(hidden, gate_inputs, F.linear(hidden, weights.hidden, weights.hidden_bias)),)
        case _:
            assert_never(cell)


def build_rnn(cell: CellName, *, input_size: int, size: int, bidirectional: bool) -> nn.LSTM | nn.GRU:
    """Build PyTorch's module of one layer, which holds the weights and computes whole sequences."""
    kind = nn.LSTM if cell == "lstm" else nn.GRU
    return kind(input_size, size, batch_first=True, bidirectional=bidirectional)


def stack_states(cells: Sequence[CellState]) -> Float[Tensor, "layers parts rows size"]:
    """Stack the states of all layers, which are of one size."""
    return torch.stack([torch.stack(layer) for layer in cells])


def unstack_states(states: Float[Tensor, "layers parts rows size"]) -> LayerStates:
    """Return the states of each layer."""
    return tuple(tuple(layer.unbind()) for layer in states.unbind())
