"""One step of a recurrent network, as the equations say it.

What a cell takes from its input is a product of its own, `from_input`, so that those of all the places of a sequence
are one. The weights are those of PyTorch's `nn.LSTM` and `nn.GRU`: the gates side by side, in PyTorch's order.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple, Self, assert_never

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.typing import Float

CellName = Literal["lstm", "gru"]
CellState = tuple[Float[Tensor, "rows size"], ...]
"""Of one layer: the hidden state, and beside it the cell of an LSTM."""
LayerStates = tuple[tuple[Float[Tensor, "*rows size"], ...], ...]
"""Of all layers, the lowest first."""


def num_gates(cell: CellName) -> int:
    """How many maps of the input and the hidden state a cell has, each of its own size."""
    match cell:
        case "lstm":
            return 4
        case "gru":
            return 3
        case _:
            assert_never(cell)


def num_states(cell: CellName) -> int:
    """How many vectors a cell hands from one place to the next."""
    match cell:
        case "lstm":
            return 2
        case "gru":
            return 1
        case _:
            assert_never(cell)


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
    before it is mapped; here, as in PyTorch and cuDNN, what it was mapped to, which makes the three maps one product.
    """
    size = hidden.shape[1]
    r, z = (from_input[:, : 2 * size] + from_hidden[:, : 2 * size]).sigmoid().chunk(2, dim=1)
    n = torch.tanh(from_input[:, 2 * size :] + r * from_hidden[:, 2 * size :])
    return n + z * (hidden - n)


class CellWeights(NamedTuple):
    """The weights of one layer in one direction."""

    input: Float[Tensor, "gates input_size"]
    hidden: Float[Tensor, "gates size"]
    input_bias: Float[Tensor, " gates"]
    hidden_bias: Float[Tensor, " gates"]

    @classmethod
    def of(cls, layer: nn.RNNBase, *, backwards: bool = False) -> Self:
        """Those of a PyTorch module of one layer."""
        suffix = "_l0_reverse" if backwards else "_l0"
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        return cls(*(getattr(layer, name + suffix) for name in names))


def project_input(
    cell: CellName, weights: CellWeights, x: Float[Tensor, "*places input_size"]
) -> Float[Tensor, "*places gates"]:
    """What the gates take from the inputs of any places, with all biases that can be added now."""
    match cell:
        case "lstm":
            bias = weights.input_bias + weights.hidden_bias
        case "gru":  # what `hidden_bias` adds to n is reset
            bias = weights.input_bias
        case _:
            assert_never(cell)
    return F.linear(x, weights.input, bias)


def cell_step(cell: CellName, weights: CellWeights, taken: Float[Tensor, "rows gates"], state: CellState) -> CellState:
    """The state after a place from which the gates have `taken` this."""
    match cell:
        case "lstm":
            hidden, kept = state
            return lstm_cell(kept, torch.addmm(taken, hidden, weights.hidden.t()))
        case "gru":
            (hidden,) = state
            return (gru_cell(hidden, taken, F.linear(hidden, weights.hidden, weights.hidden_bias)),)
        case _:
            assert_never(cell)


def build_rnn(cell: CellName, *, input_size: int, size: int, both_ways: bool) -> nn.LSTM | nn.GRU:
    """PyTorch's module for one layer: it holds the weights, and is the fast road over whole sequences."""
    match cell:
        case "lstm":
            return nn.LSTM(input_size, size, batch_first=True, bidirectional=both_ways)
        case "gru":
            return nn.GRU(input_size, size, batch_first=True, bidirectional=both_ways)
        case _:
            assert_never(cell)


def map_states(
    cells: LayerStates, change: Callable[[Tensor], Tensor]
) -> tuple[tuple[Float[Tensor, "*changed_rows size"], ...], ...]:
    """The states with the rows of every part changed alike."""
    return tuple(tuple(change(part) for part in layer) for layer in cells)


def concat_states(
    cells: LayerStates, others: tuple[tuple[Float[Tensor, "*other_rows size"], ...], ...]
) -> tuple[tuple[Float[Tensor, "*all_rows size"], ...], ...]:
    """The rows of the others after these."""
    pairs = zip(cells, others, strict=True)
    return tuple(tuple(torch.cat(both) for both in zip(mine, theirs, strict=True)) for mine, theirs in pairs)
