r"""Recurrent decoder, with or without attention to the source.

With input feeding, the first layer reads the previous attentional state with the token, $[x_t; \tilde h_{t-1}]$ (Luong
et al., 2015, section 3.3), so positions are computed one after the other. Otherwise attention does not enter the
recurrence, and all positions are computed at once.
"""

from collections.abc import Sequence
from typing import Literal, final

import torch
from torch import Tensor, nn

from dragoman.array_types import Float
from dragoman.nn.dropout import Dropout
from dragoman.nn.recurrent.cells import (
    CellName,
    CellState,
    CellWeights,
    LayerStates,
    build_rnn,
    cell_step,
    num_states,
    project_input,
)
from dragoman.nn.recurrent.global_attention import AttentionMemory, SourceAttention

Output = Float[Tensor, "rows size"]
BridgeName = Literal["linear", "copy"]


@final
class DecoderInit(nn.Module):
    r"""Initial state of a decoder layer, from the final state of an encoder layer.

    linear: $h_0 = \tanh(W h + b)$ (Bahdanau et al., 2015, appendix A.2.2, there with the backward direction only). The
    cell state of an LSTM is unbounded: $c_0 = W' c + b'$. copy: $h_0 = h$, $c_0 = c$ (Sutskever et al., 2014).
    """

    def __init__(self, *, bridge: BridgeName, cell: CellName, encoder_size: int, size: int) -> None:
        super().__init__()
        self.bridge: BridgeName = bridge
        if bridge == "copy":
            return
        self.hidden = nn.Linear(encoder_size, size)
        self.rest = nn.ModuleList([nn.Linear(encoder_size, size) for _ in range(num_states(cell) - 1)])

    def forward(self, last: tuple[Float[Tensor, "rows encoder_size"], ...]) -> CellState:
        if self.bridge == "copy":
            return last
        rest = zip(self.rest, last[1:], strict=True)
        return self.hidden(last[0]).tanh(), *(linear(part) for linear, part in rest)


@final
class RecurrentLayer(nn.Module):
    """Unidirectional layer: `forward` computes all positions; `project_input` and `step` compute one."""

    def __init__(self, *, cell: CellName, input_size: int, size: int) -> None:
        super().__init__()
        self.cell: CellName = cell
        self.layer = build_rnn(cell, input_size=input_size, size=size, bidirectional=False)

    def forward(
        self, x: Float[Tensor, "rows target input_size"], state: CellState
    ) -> Float[Tensor, "rows target size"]:
        initial = tuple(part[None].contiguous() for part in state)
        outputs, _ = self.layer(x, initial if self.cell == "lstm" else initial[0])
        return outputs

    def project_input(self, x: Float[Tensor, "*positions input_size"]) -> Float[Tensor, "*positions gates"]:
        return project_input(self.cell, CellWeights.of(self.layer), x)

    def step(self, gate_inputs: Float[Tensor, "rows gates"], state: CellState) -> CellState:
        return cell_step(self.cell, CellWeights.of(self.layer), gate_inputs, state)


@final
class RecurrentDecoder(nn.Module):
    """Recurrent decoder; rows are hypotheses, and those of a sentence are adjacent and share its memory."""

    def __init__(
        self,
        *,
        layers: list[RecurrentLayer],
        attention: SourceAttention | None,
        use_input_feeding: bool,
        layer_dropout: float,
        output_dropout: float,
    ) -> None:
        super().__init__()
        gates, size = CellWeights.of(layers[0].layer).hidden.shape
        self.layers: Sequence[RecurrentLayer] = nn.ModuleList(layers)  # type: ignore[assignment]  # typed as a sequence
        self.attention = attention
        self.input_feeding = nn.Linear(size, gates, bias=False) if use_input_feeding else None
        self.layer_dropout = Dropout(layer_dropout)
        self.output_dropout = Dropout(output_dropout)

    def forward(
        self, embedded: Float[Tensor, "rows target embedding_size"], cells: LayerStates, memory: AttentionMemory | None
    ) -> Float[Tensor, "rows target size"]:
        """Return the outputs at all positions, from the initial states."""
        if self.input_feeding is not None:
            previous = torch.zeros_like(cells[-1][0])
            outputs = []
            for gate_inputs in self.project_input(embedded.transpose(0, 1)).unbind():
                previous, cells = self.step(gate_inputs, cells, previous_output=previous, memory=memory)
                outputs.append(previous)
            return torch.stack(outputs, dim=1)
        x = embedded
        for number, layer in enumerate(self.layers):
            x = layer(self.layer_dropout(x) if number else x, cells[number])
        if self.attention is not None:
            assert memory is not None, "attention requires encoder states"
            x = self.attention(x, memory)
        return self.output_dropout(x)

    def project_input(self, embedded: Float[Tensor, "*positions embedding_size"]) -> Float[Tensor, "*positions gates"]:
        """Return the input part of the gates of the first layer."""
        return self.layers[0].project_input(embedded)

    def step(
        self,
        gate_inputs: Float[Tensor, "rows gates"],
        cells: LayerStates,
        *,
        previous_output: Output | None,
        memory: AttentionMemory | None,
    ) -> tuple[Output, LayerStates]:
        """Return the output at the next position, from `project_input` of its token, and the next states.

        `previous_output` is for input feeding only; it is zero at the first position.
        """
        if self.input_feeding is not None:
            assert previous_output is not None, "input feeding requires the previous output"
            gate_inputs = torch.addmm(gate_inputs, previous_output, self.input_feeding.weight.t())
        states: list[CellState] = []
        for number, layer in enumerate(self.layers):
            if number:
                gate_inputs = layer.project_input(self.layer_dropout(states[-1][0]))
            states.append(layer.step(gate_inputs, cells[number]))
        output = states[-1][0]
        if self.attention is not None:
            assert memory is not None, "attention requires encoder states"
            sentences = memory.mask.shape[0]
            output = self.attention(output.unflatten(0, (sentences, -1)), memory).flatten(0, 1)
        return self.output_dropout(output), tuple(states)
