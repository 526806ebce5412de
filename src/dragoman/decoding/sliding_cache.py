"""Outputs longer than a network can look back: the oldest tokens go.

The network reads prompt and output token by token until it has read `context` tokens. Before the next one the oldest
quarter of them is left, and the rest, the next token included, is read anew in parallel: it then stands at the first
places, as the beginning of a text would. So at least three quarters of the context are always looked at, and on average
a token costs one step and three tokens read in parallel. A prompt longer than the context is cut in the same way.
"""

from dataclasses import dataclass
from typing import Generic, Self, final

import torch
from torch import Tensor

from dragoman.models.protocols import M, Prompted, S
from dragoman.shapes import BeamTokens, Lengths, SourceIds, StepLogits
from dragoman.typing import Bool, Int


@dataclass(frozen=True)
class SlidingMemory(Generic[M]):
    """What is looked at of the prompts, which may be less than all, and the network's memory of it."""

    tokens: Int[Tensor, "batch places"]
    """Padded before the first token."""
    lengths: Lengths
    memory: M

    def keep(self, rows: Int[Tensor, " kept"]) -> Self:
        return type(self)(self.tokens[rows], self.lengths[rows], self.memory.keep(rows))

    def join(self, other: Self) -> Self:
        tokens = _stack(self.tokens, other.tokens)
        return type(self)(tokens, torch.cat([self.lengths, other.lengths]), self.memory.join(other.memory))


@dataclass(frozen=True)
class SlidingState(Generic[M, S]):
    """For every hypothesis a row, `beam` a sentence: the tokens read, and the network's memory and state after them."""

    tokens: Int[Tensor, "rows places"]
    """Padded before the first token."""
    read: Int[Tensor, " rows"]
    memory: M
    state: S
    beam: int

    def select(self, parents: BeamTokens) -> Self:
        batch, beam = parents.shape
        first = torch.arange(batch, device=parents.device)[:, None] * self.beam
        return self._take((first + parents).flatten(), beam)

    def keep(self, rows: Int[Tensor, " kept"]) -> Self:
        beams = torch.arange(self.beam, device=rows.device)
        return self._take((rows[:, None] * self.beam + beams).flatten(), self.beam)

    def join(self, other: Self) -> Self:
        assert self.beam == other.beam, "the beams of joined states are of one width"
        return type(self)(
            _stack(self.tokens, other.tokens),
            torch.cat([self.read, other.read]),
            self.memory.join(other.memory),
            self.state.join(other.state),
            self.beam,
        )

    def _take(self, rows: Int[Tensor, " taken"], beam: int) -> Self:
        return type(self)(self.tokens[rows], self.read[rows], self.memory.keep(rows), self.state.keep(rows), beam)


def kept_of(context: int) -> int:
    """The tokens of a context that are looked at when the oldest have just gone."""
    return max(1, context - max(1, context // 4))


@final
class Sliding(Generic[M, S]):
    """A network that predicts the next token, for outputs of any length; a `Stepper` around one.

    As long as prompt and output fit into the context, it does what the network does.
    """

    def __init__(self, model: Prompted[M, S], *, context: int) -> None:
        """`context` is the most tokens that the network looks at, the latest included."""
        self.model = model
        self.context = context
        self.kept = kept_of(context)

    def encode(self, prompt: SourceIds, lengths: Lengths) -> SlidingMemory[M]:
        """Read prompts of at least one token, padded after them; of too long ones the last `kept` tokens."""
        shown = torch.where(lengths > self.context, self.kept, lengths)
        width = int(shown.max())
        places = torch.arange(width, device=prompt.device)
        after = (lengths - shown)[:, None] + places
        window = prompt.gather(1, after.clamp(max=prompt.shape[1] - 1))
        before = (lengths - width)[:, None] + places
        tokens = prompt.gather(1, before.clamp(min=0)).masked_fill(before < (lengths - shown)[:, None], 0)
        return SlidingMemory(tokens, shown, self.model.encode(window, shown))

    def start(self, memory: SlidingMemory[M], *, beam: int) -> SlidingState[M, S]:
        batch = len(memory.lengths)
        rows = torch.arange(batch, device=memory.lengths.device).repeat_interleave(beam)
        inner = memory.memory.keep(rows) if beam > 1 else memory.memory
        state = self.model.start(inner, beam=1)
        return SlidingState(memory.tokens[rows, :-1], memory.lengths[rows] - 1, inner, state, beam)

    def step(
        self,
        tokens: BeamTokens,
        memory: SlidingMemory[M],  # noqa: ARG002  # the state holds what is left of it
        state: SlidingState[M, S],
    ) -> tuple[StepLogits, SlidingState[M, S]]:
        latest = tokens.reshape(-1, 1)
        full = state.read >= self.context
        if bool(full.any()):
            state = self._slid(state, latest, full)
        logits, after = self.model.step(latest, state.memory, state.state)
        seen = torch.cat([state.tokens, latest], dim=1)[:, -self.context :]
        return logits.view(*tokens.shape, -1), SlidingState(seen, state.read + 1, state.memory, after, state.beam)

    def _slid(
        self, state: SlidingState[M, S], latest: Int[Tensor, "rows 1"], full: Bool[Tensor, " rows"]
    ) -> SlidingState[M, S]:
        """The state with the rows that are full read anew, up to but without the latest token."""
        anew, others = full.nonzero()[:, 0], (~full).nonzero()[:, 0]
        prompts = torch.cat([state.tokens, latest], dim=1)[anew, -self.kept :]
        memory = self.model.encode(prompts, torch.full_like(anew, self.kept))
        begun = self.model.start(memory, beam=1)
        read = state.read.masked_fill(full, self.kept - 1)
        if len(others) == 0:
            return SlidingState(state.tokens, read, memory, begun, state.beam)
        order = torch.cat([others, anew]).argsort()
        memory = state.memory.keep(others).join(memory).keep(order)
        begun = state.state.keep(others).join(begun).keep(order)
        return SlidingState(state.tokens, read, memory, begun, state.beam)


def _stack(tokens: Int[Tensor, "batch places"], others: Int[Tensor, "more others"]) -> Int[Tensor, "all longer"]:
    """The rows of the others after these, each still with its last token at the end."""
    width = max(tokens.shape[1], others.shape[1])
    padded = [rows.new_zeros(len(rows), width) for rows in (tokens, others)]
    for empty, rows in zip(padded, (tokens, others), strict=True):
        empty[:, width - rows.shape[1] :] = rows
    return torch.cat(padded)
