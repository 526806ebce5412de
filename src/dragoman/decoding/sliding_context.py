"""Outputs longer than the context of a model: the oldest tokens leave.

The model reads prompt and output token by token until it has read `context` tokens. Before the next token, the oldest
quarter is dropped and the rest, the next token included, is read again in parallel, at the first positions. So at least
three quarters of the context are always visible, and a token costs on average one step and three tokens read in
parallel. A prompt longer than the context is cut in the same way.
"""

from dataclasses import dataclass
from typing import Generic, Self, final

import torch
from torch import Tensor

from dragoman.models.protocols import M, PromptDecoder, S
from dragoman.typing import BeamTokens, Bool, Int, Lengths, SourceIds, StepLogits


@dataclass(frozen=True)
class SlidingMemory(Generic[M]):
    """Visible tokens of the prompts and the model's memory of them."""

    tokens: Int[Tensor, "batch places"]
    """Padded before the first token."""
    lengths: Lengths
    memory: M

    def select(self, rows: Int[Tensor, " kept"]) -> Self:
        return type(self)(self.tokens[rows], self.lengths[rows], self.memory.select(rows))

    def concat(self, other: Self) -> Self:
        tokens = _concat_right_aligned(self.tokens, other.tokens)
        return type(self)(tokens, torch.cat([self.lengths, other.lengths]), self.memory.concat(other.memory))


@dataclass(frozen=True)
class SlidingState(Generic[M, S]):
    """Tokens read, and the model's memory and state after them, `beam` rows per sentence."""

    tokens: Int[Tensor, "rows places"]
    """Padded before the first token."""
    read: Int[Tensor, " rows"]
    memory: M
    state: S
    beam: int

    def reorder(self, parents: BeamTokens) -> Self:
        batch, beam = parents.shape
        first = torch.arange(batch, device=parents.device)[:, None] * self.beam
        return self._take((first + parents).flatten(), beam)

    def select(self, rows: Int[Tensor, " kept"]) -> Self:
        beams = torch.arange(self.beam, device=rows.device)
        return self._take((rows[:, None] * self.beam + beams).flatten(), self.beam)

    def concat(self, other: Self) -> Self:
        assert self.beam == other.beam, "concatenated states have one beam size"
        return type(self)(
            _concat_right_aligned(self.tokens, other.tokens),
            torch.cat([self.read, other.read]),
            self.memory.concat(other.memory),
            self.state.concat(other.state),
            self.beam,
        )

    def _take(self, rows: Int[Tensor, " taken"], beam: int) -> Self:
        return type(self)(self.tokens[rows], self.read[rows], self.memory.select(rows), self.state.select(rows), beam)


def tokens_after_slide(context: int) -> int:
    """Return the tokens of a context that stay visible when the oldest quarter leaves."""
    return max(1, context - max(1, context // 4))


@final
class SlidingContext(Generic[M, S]):
    """Wrapper of a decoder-only model for outputs of any length; implements `Decoder`.

    While prompt and output fit into the context, results are those of the model.
    """

    def __init__(self, model: PromptDecoder[M, S], *, context: int) -> None:
        """`context` is the most tokens that the model attends to, the latest included."""
        self.model = model
        self.context = context
        self.kept = tokens_after_slide(context)

    def encode(self, prompt: SourceIds, lengths: Lengths) -> SlidingMemory[M]:
        """Read prompts of at least one token, padded at the end; of too long ones the last `kept` tokens."""
        shown = torch.where(lengths > self.context, self.kept, lengths)
        width = int(shown.max())
        places = torch.arange(width, device=prompt.device)
        after = (lengths - shown)[:, None] + places
        window = prompt.gather(1, after.clamp(max=prompt.shape[1] - 1))
        before = (lengths - width)[:, None] + places
        tokens = prompt.gather(1, before.clamp(min=0)).masked_fill(before < (lengths - shown)[:, None], 0)
        return SlidingMemory(tokens, shown, self.model.encode(window, shown))

    def start(self, memory: SlidingMemory[M], *, beam_size: int) -> SlidingState[M, S]:
        batch = len(memory.lengths)
        rows = torch.arange(batch, device=memory.lengths.device).repeat_interleave(beam_size)
        inner = memory.memory.select(rows) if beam_size > 1 else memory.memory
        state = self.model.start(inner, beam_size=1)
        return SlidingState(memory.tokens[rows, :-1], memory.lengths[rows] - 1, inner, state, beam_size)

    def step(
        self,
        tokens: BeamTokens,
        memory: SlidingMemory[M],  # noqa: ARG002  # the state holds the visible part
        state: SlidingState[M, S],
    ) -> tuple[StepLogits, SlidingState[M, S]]:
        latest = tokens.reshape(-1, 1)
        full = state.read >= self.context
        if bool(full.any()):
            state = self._slide(state, latest, full)
        logits, after = self.model.step(latest, state.memory, state.state)
        seen = torch.cat([state.tokens, latest], dim=1)[:, -self.context :]
        return logits.view(*tokens.shape, -1), SlidingState(seen, state.read + 1, state.memory, after, state.beam)

    def _slide(
        self, state: SlidingState[M, S], latest: Int[Tensor, "rows 1"], full: Bool[Tensor, " rows"]
    ) -> SlidingState[M, S]:
        """Read the full rows again, up to but without the latest token."""
        again, others = full.nonzero()[:, 0], (~full).nonzero()[:, 0]
        prompts = torch.cat([state.tokens, latest], dim=1)[again, -self.kept :]
        memory = self.model.encode(prompts, torch.full_like(again, self.kept))
        started = self.model.start(memory, beam_size=1)
        read = state.read.masked_fill(full, self.kept - 1)
        if len(others) == 0:
            return SlidingState(state.tokens, read, memory, started, state.beam)
        order = torch.cat([others, again]).argsort()
        memory = state.memory.select(others).concat(memory).select(order)
        started = state.state.select(others).concat(started).select(order)
        return SlidingState(state.tokens, read, memory, started, state.beam)


def _concat_right_aligned(
    tokens: Int[Tensor, "batch places"], others: Int[Tensor, "more others"]
) -> Int[Tensor, "all longer"]:
    """Concatenate rows of different widths, each with its last token at the end."""
    width = max(tokens.shape[1], others.shape[1])
    padded = [rows.new_zeros(len(rows), width) for rows in (tokens, others)]
    for empty, rows in zip(padded, (tokens, others), strict=True):
        empty[:, width - rows.shape[1] :] = rows
    return torch.cat(padded)
