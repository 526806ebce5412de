"""Bidirectional recurrent encoder (Schuster and Paliwal, 1997; Bahdanau et al., 2015, section 3.2).

PyTorch computes packed sequences. Property tests check that the equations of the cells, step by step, give the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from dragoman.array_types import Float, Lengths
from dragoman.nn.dropout import Dropout
from dragoman.nn.recurrent.cells import CellName, CellState, LayerStates, build_rnn

EncoderInputs = Float[Tensor, "batch source input_size"]
EncoderStates = Float[Tensor, "batch source size"]


@dataclass(frozen=True)
class EncoderOutput:
    """Encoder states of a batch."""

    states: Float[Tensor, "batch source size"]
    """States of the top layer, zero at padding."""
    last: LayerStates
    """Final state of each layer: forward at the last token, backward at the first, concatenated."""


@final
class BidirectionalLayer(nn.Module):
    """Forward and backward states, concatenated; both start at zero."""

    def __init__(self, *, cell: CellName, input_size: int, size: int) -> None:
        super().__init__()
        self.cell: CellName = cell
        self.layer = build_rnn(cell, input_size=input_size, size=size // 2, bidirectional=True)

    def forward(self, x: EncoderInputs, lengths: Lengths) -> tuple[EncoderStates, CellState]:
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        outputs, last = self.layer(packed)
        states, _ = pad_packed_sequence(outputs, batch_first=True, total_length=x.shape[1])
        parts = last if isinstance(last, tuple) else (last,)
        return states, tuple(torch.cat([part[0], part[1]], dim=1) for part in parts)


@final
class RecurrentEncoder(nn.Module):
    """Stack of bidirectional layers."""

    def __init__(self, *, layers: list[BidirectionalLayer], dropout: float) -> None:
        super().__init__()
        self.layers: Sequence[BidirectionalLayer] = nn.ModuleList(layers)  # type: ignore[assignment]  # typed as a sequence
        self.dropout = Dropout(dropout)

    def forward(self, x: EncoderInputs, lengths: Lengths) -> EncoderOutput:
        lasts = []
        for number, layer in enumerate(self.layers):
            x, last = layer(self.dropout(x) if number else x, lengths)
            lasts.append(last)
        return EncoderOutput(x, tuple(lasts))
