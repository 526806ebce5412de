"""A network of PyTorch as a search asks it: logits are made and read where they are, and only the best come back."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Self, final

import numpy as np
import torch
from torch import Tensor

from dragoman.decoding.log_softmax import largest, log_sum_exp
from dragoman.models.protocols import M, S, Stepper
from dragoman.models.search_protocols import Best, not_finite
from dragoman.shapes import StepLogits
from dragoman.typing import Bool, Float, Int


@final
@dataclass(frozen=True)
class HeldMemory(Generic[M]):
    """A network's memory on its device, for a search that counts rows in numpy."""

    memory: M
    device: torch.device
    allowed: Bool[Tensor, "batch vocabulary"] | None = None
    """The candidates of each sentence; None where all tokens are."""

    @torch.inference_mode()
    def keep(self, rows: Int[np.ndarray, " kept"]) -> Self:
        kept = _on(self.device, rows)
        return type(self)(self.memory.keep(kept), self.device, None if self.allowed is None else self.allowed[kept])

    @torch.inference_mode()
    def join(self, other: Self) -> Self:
        both = None
        if self.allowed is not None:
            assert other.allowed is not None, "all sentences have candidates, or none has"
            both = torch.cat([self.allowed, other.allowed])
        return type(self)(self.memory.join(other.memory), self.device, both)


@final
@dataclass(frozen=True)
class HeldState(Generic[S]):
    """A network's state on its device, likewise."""

    state: S
    device: torch.device

    @torch.inference_mode()
    def select(self, parents: Int[np.ndarray, "batch beam"]) -> Self:
        return type(self)(self.state.select(_on(self.device, parents)), self.device)

    @torch.inference_mode()
    def keep(self, rows: Int[np.ndarray, " kept"]) -> Self:
        return type(self)(self.state.keep(_on(self.device, rows)), self.device)

    @torch.inference_mode()
    def join(self, other: Self) -> Self:
        return type(self)(self.state.join(other.state), self.device)


@final
class Stepping(Generic[M, S]):
    """Implements `models.searched.Searched` by the steps of a `Stepper`."""

    def __init__(self, model: Stepper[M, S]) -> None:
        self.model = model

    @staticmethod
    def hold(memory: M, *, allowed: Bool[Tensor, "batch vocabulary"] | None = None) -> HeldMemory[M]:
        """What the network remembers, as `start` and `best` want it, and which tokens alone may be written."""
        return HeldMemory(memory, memory.lengths.device, allowed)

    @torch.inference_mode()
    def start(self, memory: HeldMemory[M], *, beam: int) -> HeldState[S]:
        return HeldState(self.model.start(memory.memory, beam=beam), memory.device)

    @torch.inference_mode()
    def best(
        self,
        tokens: Int[np.ndarray, "batch beam"],
        memory: HeldMemory[M],
        state: HeldState[S],
        *,
        width: int,
        forbidden: Sequence[int] = (),
    ) -> Best[HeldState[S]]:
        logits, after = self.model.step(_on(memory.device, tokens), memory.memory, state.state)
        if memory.allowed is not None:
            logits = logits.masked_fill(~memory.allowed[:, None], -math.inf)
        log_probs, best = best_of(logits, width=width, forbidden=forbidden)
        return log_probs, best, HeldState(after, state.device)


def best_of(
    logits: StepLogits, *, width: int, forbidden: Sequence[int] = ()
) -> tuple[Float[np.ndarray, "batch beam width"], Int[np.ndarray, "batch beam width"]]:
    """The log-probabilities and ids of the `width` best tokens, as `Searched.best` gives them."""
    normaliser = log_sum_exp(logits)
    values, ids = _most_probable(logits, forbidden) if width == 1 else largest(logits, width + len(forbidden))
    # What is not finite becomes NaN, so that the device need not be asked about it apart.
    found = values.float() - (normaliser + 0 * normaliser)[..., None]
    log_probs, tokens = found.cpu().numpy(), ids.cpu().numpy()
    if np.isnan(log_probs).any():
        raise not_finite()
    for symbol in forbidden:
        log_probs = np.where(tokens == symbol, np.float32(-math.inf), log_probs)
    order = np.lexsort((tokens, -log_probs), axis=-1)[..., :width]
    return np.take_along_axis(log_probs, order, axis=-1), np.take_along_axis(tokens, order, axis=-1)


def _most_probable(
    logits: StepLogits, forbidden: Sequence[int]
) -> tuple[Float[Tensor, "batch beam 1"], Int[Tensor, "batch beam 1"]]:
    """The best token alone, the lowest among equals: what a greedy search wants, several times as fast as more."""
    never = torch.tensor(forbidden, dtype=torch.long, device=logits.device)
    ids = logits.index_fill(-1, never, -math.inf).argmax(dim=-1, keepdim=True)
    return logits.gather(-1, ids), ids


def _on(device: torch.device, numbers: Int[np.ndarray, "*places"]) -> Int[Tensor, "*places"]:
    return torch.from_numpy(np.ascontiguousarray(numbers)).to(device, torch.long)
