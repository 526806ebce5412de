r"""A decoder that writes from left to right, with or without a look back at the source.

With input feeding, the first layer reads the attentional state of the place before beside the word,
$[x_t; \tilde h_{t-1}]$ (Luong et al., 2015, section 3.3), and places can only follow one another. Without it nothing
that is attended to enters the recurrence, and all places are taken at once.
"""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn

from dragoman.nn.dropout import Dropout
from dragoman.nn.recurrent.attention import AttentionMemory, SourceAttention
from dragoman.nn.recurrent.cells import (
    CellName,
    CellState,
    CellWeights,
    LayerStates,
    build_rnn,
    cell_step,
    num_gates,
    num_states,
    project_input,
)
from dragoman.typing import Float

Output = Float[Tensor, "rows size"]


@final
class DecoderInit(nn.Module):
    r"""The state in which a decoder's layer begins, from the one in which an encoder's layer ended.

    $h_0 = \tanh(W h + b)$ (Bahdanau et al., 2015, appendix A.2.2, there of the backward direction alone), and for the
    cell of an LSTM, which has no bounds, $c_0 = W' c + b'$.
    """

    def __init__(self, *, cell: CellName, encoder_size: int, size: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(encoder_size, size)
        self.rest = nn.ModuleList([nn.Linear(encoder_size, size) for _ in range(num_states(cell) - 1)])

    def forward(self, last: tuple[Float[Tensor, "rows encoder_size"], ...]) -> CellState:
        rest = zip(self.rest, last[1:], strict=True)
        return self.hidden(last[0]).tanh(), *(linear(part) for linear, part in rest)


@final
class RecurrentLayer(nn.Module):
    """One layer from left to right: all places at once by `forward`, or one by `from_input` and `advance`."""

    def __init__(self, *, cell: CellName, input_size: int, size: int) -> None:
        super().__init__()
        self.cell: CellName = cell
        self.layer = build_rnn(cell, input_size=input_size, size=size, both_ways=False)

    def forward(
        self, x: Float[Tensor, "rows target input_size"], state: CellState
    ) -> Float[Tensor, "rows target size"]:
        first = tuple(part[None].contiguous() for part in state)
        outputs, _ = self.layer(x, first if self.cell == "lstm" else first[0])
        return outputs

    def project_input(self, x: Float[Tensor, "*places input_size"]) -> Float[Tensor, "*places gates"]:
        return project_input(self.cell, CellWeights.of(self.layer), x)

    def step(self, taken: Float[Tensor, "rows gates"], state: CellState) -> CellState:
        return cell_step(self.cell, CellWeights.of(self.layer), taken, state)


@final
class RecurrentDecoder(nn.Module):
    """Rows are hypotheses; the rows of a sentence follow one another and share its view of the source."""

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
        size = layers[0].layer.hidden_size
        gates = num_gates(layers[0].cell) * size
        self.layers: Sequence[RecurrentLayer] = nn.ModuleList(layers)  # type: ignore[assignment]  # it is one, untyped
        self.attention = attention
        self.input_feeding = nn.Linear(size, gates, bias=False) if use_input_feeding else None
        self.layer_dropout = Dropout(layer_dropout)
        self.output_dropout = Dropout(output_dropout)

    def forward(
        self, embedded: Float[Tensor, "rows target embedding_size"], cells: LayerStates, view: AttentionMemory | None
    ) -> Float[Tensor, "rows target size"]:
        """The outputs at all places, from the states before the first."""
        return (
            self._at_once(embedded, cells, view) if self.input_feeding is None else self._in_turn(embedded, cells, view)
        )

    def project_input(self, embedded: Float[Tensor, "*places embedding_size"]) -> Float[Tensor, "*places gates"]:
        """What the first layer takes from the words themselves; of all places at once where they are known."""
        return self.layers[0].project_input(embedded)

    def step(
        self,
        taken: Float[Tensor, "rows gates"],
        cells: LayerStates,
        *,
        fed: Output | None,
        view: AttentionMemory | None,
    ) -> tuple[Output, LayerStates]:
        """The output at the next place, from what is taken from its word, and the states after it.

        `fed` is the output of the place before, zeros at the first; only input feeding reads it.
        """
        if self.input_feeding is not None:
            assert fed is not None, "input feeding needs the output before"
            taken = torch.addmm(taken, fed, self.input_feeding.weight.t())
        states: list[CellState] = []
        for number, layer in enumerate(self.layers):
            if number:
                taken = layer.project_input(self.layer_dropout(states[-1][0]))
            states.append(layer.step(taken, cells[number]))
        output = states[-1][0]
        if self.attention is not None:
            assert view is not None, "attention needs a view of the source"
            sentences = view.mask.shape[0]
            output = self.attention(output.unflatten(0, (sentences, -1)), view).flatten(0, 1)
        return self.output_dropout(output), tuple(states)

    def _in_turn(
        self, embedded: Float[Tensor, "rows target embedding_size"], cells: LayerStates, view: AttentionMemory | None
    ) -> Float[Tensor, "rows target size"]:
        fed = torch.zeros_like(cells[-1][0])
        outputs = []
        for taken in self.project_input(embedded.transpose(0, 1)).unbind():
            fed, cells = self.step(taken, cells, fed=fed, view=view)
            outputs.append(fed)
        return torch.stack(outputs, dim=1)

    def _at_once(
        self, embedded: Float[Tensor, "rows target embedding_size"], cells: LayerStates, view: AttentionMemory | None
    ) -> Float[Tensor, "rows target size"]:
        x = embedded
        for number, layer in enumerate(self.layers):
            x = layer(self.layer_dropout(x) if number else x, cells[number])
        if self.attention is not None:
            assert view is not None, "attention needs a view of the source"
            x = self.attention(x, view)
        return self.output_dropout(x)
