"""Search steps of a PyTorch model: logits stay on its device, and only the best tokens come back."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Self, final

import numpy as np
import torch
from torch import Tensor

from dragoman.decoding.logits_processors import exact_top_k, log_sum_exp
from dragoman.models.protocols import Decoder, M, S, TopK, non_finite_logits_error
from dragoman.typing import Bool, Float, Int, StepLogits


@final
@dataclass(frozen=True)
class DeviceMemory(Generic[M]):
    """Memory of a model on its device, with rows addressed by numpy arrays."""

    memory: M
    device: torch.device
    allowed: Bool[Tensor, "batch vocabulary"] | None = None
    """Shortlist of each sentence; None allows all tokens."""

    @torch.inference_mode()
    def select(self, rows: Int[np.ndarray, " kept"]) -> Self:
        kept = _to_device(self.device, rows)
        return type(self)(self.memory.select(kept), self.device, None if self.allowed is None else self.allowed[kept])

    @torch.inference_mode()
    def concat(self, other: Self) -> Self:
        both = None
        if self.allowed is not None:
            assert other.allowed is not None, "all sentences have a shortlist, or none has"
            both = torch.cat([self.allowed, other.allowed])
        return type(self)(self.memory.concat(other.memory), self.device, both)


@final
@dataclass(frozen=True)
class DeviceState(Generic[S]):
    """State of a model on its device, with rows addressed by numpy arrays."""

    state: S
    device: torch.device

    @torch.inference_mode()
    def reorder(self, parents: Int[np.ndarray, "batch beam"]) -> Self:
        return type(self)(self.state.reorder(_to_device(self.device, parents)), self.device)

    @torch.inference_mode()
    def select(self, rows: Int[np.ndarray, " kept"]) -> Self:
        return type(self)(self.state.select(_to_device(self.device, rows)), self.device)

    @torch.inference_mode()
    def concat(self, other: Self) -> Self:
        return type(self)(self.state.concat(other.state), self.device)


@final
class TorchStepper(Generic[M, S]):
    """Search interface of a PyTorch decoder; implements `Backend`."""

    def __init__(self, model: Decoder[M, S]) -> None:
        self.model = model

    @staticmethod
    def wrap_memory(memory: Any, *, allowed: Bool[Tensor, "batch vocabulary"] | None = None) -> DeviceMemory[Any]:
        """Wrap the memory of a model for `start` and `top_k`; `allowed` restricts the tokens of each sentence."""
        return DeviceMemory(memory, memory.lengths.device, allowed)

    @torch.inference_mode()
    def start(self, memory: DeviceMemory[M], *, beam_size: int) -> DeviceState[S]:
        return DeviceState(self.model.start(memory.memory, beam_size=beam_size), memory.device)

    @torch.inference_mode()
    def top_k(
        self,
        tokens: Int[np.ndarray, "batch beam"],
        memory: DeviceMemory[M],
        state: DeviceState[S],
        *,
        k: int,
        suppress_tokens: Sequence[int] = (),
    ) -> TopK[DeviceState[S]]:
        logits, after = self.model.step(_to_device(memory.device, tokens), memory.memory, state.state)
        if memory.allowed is not None:
            logits = logits.masked_fill(~memory.allowed[:, None], -math.inf)
        log_probs, best = top_k_tokens(logits, k=k, suppress_tokens=suppress_tokens)
        return log_probs, best, DeviceState(after, state.device)


def top_k_tokens(
    logits: StepLogits, *, k: int, suppress_tokens: Sequence[int] = ()
) -> tuple[Float[np.ndarray, "batch beam k"], Int[np.ndarray, "batch beam k"]]:
    """Return log-probabilities and ids of the `k` best tokens, as `Backend.top_k` does."""
    normalizer = log_sum_exp(logits)
    if k == 1:
        values, ids = _most_probable(logits, suppress_tokens)
    else:
        values, ids = exact_top_k(logits, k + len(suppress_tokens))
    # Non-finite values become NaN, so that the device need not be synchronized for a separate check.
    found = values.float() - (normalizer + 0 * normalizer)[..., None]
    log_probs, tokens = found.cpu().numpy(), ids.cpu().numpy()
    if np.isnan(log_probs).any():
        raise non_finite_logits_error()
    for symbol in suppress_tokens:
        log_probs = np.where(tokens == symbol, np.float32(-math.inf), log_probs)
    order = np.lexsort((tokens, -log_probs), axis=-1)[..., :k]
    return np.take_along_axis(log_probs, order, axis=-1), np.take_along_axis(tokens, order, axis=-1)


def _most_probable(
    logits: StepLogits, suppress_tokens: Sequence[int]
) -> tuple[Float[Tensor, "batch beam 1"], Int[Tensor, "batch beam 1"]]:
    """Return the best token, the lowest of ties: for greedy search, several times as fast as top-k."""
    suppressed = torch.tensor(suppress_tokens, dtype=torch.long, device=logits.device)
    ids = logits.index_fill(-1, suppressed, -math.inf).argmax(dim=-1, keepdim=True)
    return logits.gather(-1, ids), ids


def _to_device(device: torch.device, numbers: Int[np.ndarray, "*places"]) -> Int[Tensor, "*places"]:
    return torch.from_numpy(np.ascontiguousarray(numbers)).to(device, torch.long)
