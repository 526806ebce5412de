"""The recurrent encoder-decoder, with attention (Luong et al., 2015) or with the bottleneck (Sutskever et al., 2014).

Without attention, all that the decoder gets of a sentence is `RecurrentMemory.first`: as many numbers for a long one as
for a short one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self, final

import torch
from torch import Tensor, nn

from dragoman.nn.embedding import TokenEmbedding, Unembedding
from dragoman.nn.kv_cache import KeysValues
from dragoman.nn.masks import within
from dragoman.nn.recurrent.attention import SourceView
from dragoman.nn.recurrent.cells import Cells, each, joined
from dragoman.nn.recurrent.decoder import Bridge, RecurrentDecoder
from dragoman.nn.recurrent.encoder import RecurrentEncoder
from dragoman.shapes import BeamTokens, Lengths, SourceIds, StepLogits, TargetIds
from dragoman.typing import Float, Int


@dataclass(frozen=True)
class RecurrentMemory:
    """What the decoder gets of the source, one row a sentence."""

    seen: KeysValues | None
    """The encoder's states to look at, padded after their lengths; None without attention."""
    first: Cells
    """The decoder's states before its first step."""
    lengths: Lengths

    def keep(self, rows: Int[Tensor, " kept"]) -> Self:
        seen = None if self.seen is None else self.seen.take(rows)
        return type(self)(seen, each(self.first, lambda part: part[rows]), self.lengths[rows])

    def join(self, other: Self) -> Self:
        seen = None
        if self.seen is not None and other.seen is not None:
            width = int(torch.cat([self.lengths, other.lengths]).max())  # longer ones may have left
            mine, theirs = (one.pad(after=width - one.positions) for one in (self.seen, other.seen))
            seen = mine.stack(theirs)
        return type(self)(seen, joined(self.first, other.first), torch.cat([self.lengths, other.lengths]))

    def view(self) -> SourceView | None:
        """What there is to look at."""
        return None if self.seen is None else SourceView(self.seen, within(self.lengths, self.seen.positions))


@dataclass(frozen=True)
class RecurrentState:
    """Where each hypothesis is; as many numbers at every age."""

    cells: Cells
    """Each vector is of shape (batch, beam, size)."""
    fed: Float[Tensor, "batch beam size"] | None
    """The last output, where it is fed to the next step."""

    def select(self, parents: BeamTokens) -> Self:
        rows = torch.arange(parents.shape[0], device=parents.device)[:, None]
        return self._each(lambda part: part[rows, parents])

    def keep(self, rows: Int[Tensor, " kept"]) -> Self:
        return self._each(lambda part: part[rows])

    def join(self, other: Self) -> Self:
        fed = None if self.fed is None or other.fed is None else torch.cat([self.fed, other.fed])
        return type(self)(joined(self.cells, other.cells), fed)

    def _each(self, change: Callable[[Tensor], Tensor]) -> Self:
        return type(self)(each(self.cells, change), None if self.fed is None else change(self.fed))


@final
class Seq2SeqRecurrent(nn.Module):
    """Implements `models.interfaces.Seq2Seq`."""

    maximum_length: int | None = None
    """Sequences have no end: nothing counts places."""

    def __init__(
        self,
        *,
        source_embedding: TokenEmbedding,
        target_embedding: TokenEmbedding,
        encoder: RecurrentEncoder,
        bridges: list[Bridge],
        decoder: RecurrentDecoder,
        unembedding: Unembedding,
    ) -> None:
        super().__init__()
        self.source_embedding = source_embedding
        self.target_embedding = target_embedding
        self.encoder = encoder
        self.bridges: Sequence[Bridge] = nn.ModuleList(bridges)  # type: ignore[assignment]  # it is one, untyped
        self.decoder = decoder
        self.unembedding = unembedding

    @property
    def device(self) -> torch.device:
        return self.unembedding.weight.device

    def encode(self, source: SourceIds, lengths: Lengths) -> RecurrentMemory:
        encoded = self.encoder(_embedded(self.source_embedding, source), lengths)
        attention = self.decoder.attention
        seen = None if attention is None else attention.keys_values(encoded.states)
        return RecurrentMemory(seen, self._first(encoded.last), lengths)

    def hidden(
        self, source: SourceIds, source_lengths: Lengths, target: TargetIds
    ) -> Float[Tensor, "batch target size"]:
        memory = self.encode(source, source_lengths)
        return self.decoder(_embedded(self.target_embedding, target), memory.first, memory.view())

    def forward(
        self, source: SourceIds, source_lengths: Lengths, target: TargetIds
    ) -> Float[Tensor, "batch target vocabulary"]:
        """Logits of what follows each position of `target`, which begins with the begin symbol."""
        return self.unembed(self.hidden(source, source_lengths, target))

    def unembed(self, hidden: Float[Tensor, "*positions size"]) -> Float[Tensor, "*positions vocabulary"]:
        logits: Float[Tensor, "*positions vocabulary"] = self.unembedding(hidden)
        return logits

    def start(self, memory: RecurrentMemory, *, beam: int) -> RecurrentState:
        cells = each(memory.first, lambda part: part[:, None].expand(-1, beam, -1))
        return RecurrentState(cells, None if self.decoder.feed is None else torch.zeros_like(cells[-1][0]))

    def step(
        self, tokens: BeamTokens, memory: RecurrentMemory, state: RecurrentState
    ) -> tuple[StepLogits, RecurrentState]:
        embedded = _embedded(self.target_embedding, tokens).flatten(0, 1)
        output, cells = self.decoder.advance(
            self.decoder.from_embedding(embedded),
            each(state.cells, lambda part: part.flatten(0, 1)),
            fed=None if state.fed is None else state.fed.flatten(0, 1),
            view=memory.view(),
        )
        output = output.unflatten(0, tokens.shape)
        after = each(cells, lambda part: part.unflatten(0, tokens.shape))
        return self.unembed(output), RecurrentState(after, None if state.fed is None else output)

    def alignment(self, memory: RecurrentMemory, state: RecurrentState) -> Float[Tensor, "batch beam source"]:
        """The weights with which the step that led to a state looked at the source.

        For networks with attention, and states after their first step.
        """
        view, attention = memory.view(), self.decoder.attention
        assert view is not None and attention is not None, "a network without attention looks at nothing"  # noqa: PT018
        return attention.weights(state.cells[-1][0], view)

    def _first(self, last: tuple[tuple[Float[Tensor, "batch encoder_size"], ...], ...]) -> Cells:
        """Layers correspond from the top; the lowest of the encoder begins all those of the decoder that are left."""
        above = len(last) - len(self.bridges)
        return tuple(bridge(last[max(0, number + above)]) for number, bridge in enumerate(self.bridges))


def _embedded(embedding: TokenEmbedding, ids: Int[Tensor, "rows places"]) -> Float[Tensor, "rows places size"]:
    return embedding(ids, torch.arange(ids.shape[1], device=ids.device)[None])
