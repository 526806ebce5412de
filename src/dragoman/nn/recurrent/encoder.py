"""Recurrent encoder, of one direction or both (Schuster and Paliwal, 1997; Bahdanau et al., 2015, section 3.2).

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
    """Final state of each layer: forward at the last token, and backward at the first, concatenated."""


@final
class RecurrentEncoderLayer(nn.Module):
    """Forward states, or forward and backward states concatenated; both start at zero."""

    def __init__(self, *, cell: CellName, input_size: int, size: int, bidirectional: bool) -> None:
        super().__init__()
        self.cell: CellName = cell
        self.layer = build_rnn(
            cell, input_size=input_size, size=size // 2 if bidirectional else size, bidirectional=bidirectional
        )

    def forward(self, x: EncoderInputs, lengths: Lengths) -> tuple[EncoderStates, CellState]:
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        outputs, last = self.layer(packed)
        states, _ = pad_packed_sequence(outputs, batch_first=True, total_length=x.shape[1])
        parts = last if isinstance(last, tuple) else (last,)
        return states, tuple(torch.cat(part.unbind(), dim=1) for part in parts)


@final
class RecurrentEncoder(nn.Module):
    """Stack of layers."""

    def __init__(self, *, layers: list[RecurrentEncoderLayer], dropout: float) -> None:
        super().__init__()
        self.layers: Sequence[RecurrentEncoderLayer] = nn.ModuleList(layers)  # type: ignore[assignment]  # typed as a sequence
        self.dropout = Dropout(dropout)

    def forward(self, x: EncoderInputs, lengths: Lengths) -> EncoderOutput:
        lasts = []
        for number, layer in enumerate(self.layers):
            x, last = layer(self.dropout(x) if number else x, lengths)
            lasts.append(last)
        return EncoderOutput(x, tuple(lasts))
