"""An encoder that reads its sentences both ways (Schuster and Paliwal, 1997; Bahdanau et al., 2015, section 3.2).

PyTorch's own loop over packed sequences is the fast road; `read_by_steps` is its slow twin, which takes the equations
of the cells place by place and agrees with it by law.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from dragoman.nn.dropout import Dropout
from dragoman.nn.recurrent.cells import (
    CellName,
    CellState,
    CellWeights,
    LayerStates,
    build_rnn,
    cell_step,
    project_input,
)
from dragoman.typing import Float, Lengths

Inputs = Float[Tensor, "batch source input_size"]
States = Float[Tensor, "batch source size"]


@dataclass(frozen=True)
class EncoderOutput:
    """What an encoder made of its sentences."""

    states: Float[Tensor, "batch source size"]
    """The states of the uppermost layer at every place, zeros in the padding."""
    last: LayerStates
    """Where each layer ended: forwards at the last word, backwards at the first, side by side."""


@final
class BidirectionalLayer(nn.Module):
    """Half of each state has read the sentence from its beginning, half from its end; both begin at zeros."""

    def __init__(self, *, cell: CellName, input_size: int, size: int) -> None:
        super().__init__()
        self.cell: CellName = cell
        self.layer = build_rnn(cell, input_size=input_size, size=size // 2, both_ways=True)

    def forward(self, x: Inputs, lengths: Lengths) -> tuple[States, CellState]:
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        outputs, last = self.layer(packed)
        states, _ = pad_packed_sequence(outputs, batch_first=True, total_length=x.shape[1])
        parts = last if isinstance(last, tuple) else (last,)
        return states, tuple(torch.cat([part[0], part[1]], dim=1) for part in parts)


def bidirectional_reference(layer: BidirectionalLayer, x: Inputs, lengths: Lengths) -> tuple[States, CellState]:
    """What the layer returns, one place after the other."""
    forwards, at_end = _read(layer, x, lengths, backwards=False)
    backwards, at_beginning = _read(layer, x, lengths, backwards=True)
    states = torch.cat([forwards, backwards], dim=2)
    return states, tuple(torch.cat(both, dim=1) for both in zip(at_end, at_beginning, strict=True))


def _read(layer: BidirectionalLayer, x: Inputs, lengths: Lengths, *, backwards: bool) -> tuple[Tensor, CellState]:
    """In one direction; padding leaves a state as it was."""
    weights = CellWeights.of(layer.layer, backwards=backwards)
    zeros = x.new_zeros(x.shape[0], weights.hidden.shape[1])
    state: CellState = (zeros, zeros) if layer.cell == "lstm" else (zeros,)
    taken = project_input(layer.cell, weights, x)
    columns = [zeros] * x.shape[1]
    for place in reversed(range(x.shape[1])) if backwards else range(x.shape[1]):
        real = (place < lengths)[:, None]
        new = cell_step(layer.cell, weights, taken[:, place], state)
        state = tuple(part.where(real, old) for part, old in zip(new, state, strict=True))
        columns[place] = state[0].where(real, zeros)
    return torch.stack(columns, dim=1), state


@final
class RecurrentEncoder(nn.Module):
    """Bidirectional layers, each above the states of the one below."""

    def __init__(self, *, layers: list[BidirectionalLayer], dropout: float) -> None:
        super().__init__()
        self.layers: Sequence[BidirectionalLayer] = nn.ModuleList(layers)  # type: ignore[assignment]  # it is one, untyped
        self.dropout = Dropout(dropout)

    def forward(self, x: Inputs, lengths: Lengths) -> EncoderOutput:
        lasts = []
        for number, layer in enumerate(self.layers):
            x, last = layer(self.dropout(x) if number else x, lengths)
            lasts.append(last)
        return EncoderOutput(x, tuple(lasts))
