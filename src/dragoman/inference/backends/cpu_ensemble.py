"""Ensemble of models in the CPU library: averages their token probabilities as `models.ensemble` does."""

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from dragoman.array_types import Float, Int
from dragoman.data.readers.conllu import Heads
from dragoman.decoding.config import LengthPenalty
from dragoman.decoding.greedy_search import NextTokens
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.numpy_logits_operations import NumpyOperations, log_normalizers, top_k_sorted
from dragoman.decoding.sampling import SamplingStep, sample_next
from dragoman.decoding.search_state_rows import RowBatch
from dragoman.inference.backends.cpu_backend import score_by_steps
from dragoman.inference.backends.protocol import Shortlists, TokenIds
from dragoman.models.protocols import EnsembleParts, TopK, non_finite_logits_error
from dragoman.models.special_symbols import BOS

SENTENCES_PER_BLOCK = 16
"""Sentences whose logits are averaged together: intermediate results stay in a cache."""


@final
@dataclass(frozen=True)
class CpuEnsembleMemory(RowBatch):
    """Memories of all members, and the shortlist of each sentence."""

    members: EnsembleParts
    shortlists: tuple[Int[np.ndarray, "_"], ...] | None


@final
class CpuEnsemble:
    """Ensemble of `CpuBackend`s with one vocabulary; implements `InferenceBackend`, log-probabilities as logits."""

    device = "cpu"
    needs_source_features = False
    continuous_batching = True

    def __init__(self, models: Sequence[Any]) -> None:
        self.models = tuple(models)
        known = [model.max_length for model in models if model.max_length is not None]
        self.max_length: int | None = min(known, default=None)

    def inference_mode(self) -> AbstractContextManager[None]:
        return nullcontext()

    def encode(
        self, sources: Sequence[TokenIds], source_features: Sequence[Heads] = (), shortlists: Shortlists | None = None
    ) -> CpuEnsembleMemory:
        members = EnsembleParts(tuple(model.encode(sources, source_features) for model in self.models))
        return CpuEnsembleMemory(members, None if shortlists is None else tuple(shortlists))

    def start(self, memory: CpuEnsembleMemory, *, beam_size: int) -> EnsembleParts:
        pairs = zip(self.models, memory.members.parts, strict=True)
        return EnsembleParts(tuple(model.start(part, beam_size=beam_size) for model, part in pairs))

    def step(
        self, tokens: Int[np.ndarray, "batch beam"], memory: CpuEnsembleMemory, state: EnsembleParts
    ) -> tuple[Float[np.ndarray, "batch beam vocabulary"], EnsembleParts]:
        """Return the log-probabilities of all tokens and the next state."""
        logits, after = self._logits(tokens, memory, state)
        return mean_probability(logits), after

    def top_k(
        self,
        tokens: Int[np.ndarray, "batch beam"],
        memory: CpuEnsembleMemory,
        state: EnsembleParts,
        *,
        k: int,
        suppress_tokens: Sequence[int] = (),
    ) -> TopK[EnsembleParts]:
        logits, after = self._logits(tokens, memory, state)
        found = []
        for begin in range(0, len(tokens), SENTENCES_PER_BLOCK):
            block = slice(begin, begin + SENTENCES_PER_BLOCK)
            shortlists = None if memory.shortlists is None else memory.shortlists[block]
            log_probs = _log_probs([one[block] for one in logits], shortlists)
            log_probs[..., list(suppress_tokens)] = -math.inf
            found.append(top_k_sorted(log_probs, min(k, log_probs.shape[-1])))
        best, ids = (np.concatenate(column) for column in zip(*found, strict=True))
        return best, ids, after

    def sample(
        self, tokens: Int[np.ndarray, "batch 1"], memory: CpuEnsembleMemory, state: EnsembleParts, *, step: SamplingStep
    ) -> NextTokens[EnsembleParts]:
        log_probs, after = self.step(tokens, memory, state)
        return *sample_next(log_probs[:, 0], step, NumpyOperations), after

    def score(
        self,
        sources: Sequence[TokenIds],
        targets: Sequence[TokenIds],
        *,
        penalty: LengthPenalty,
        source_features: Sequence[Heads] = (),
    ) -> list[Hypothesis]:
        return score_by_steps(self, self.encode(sources, source_features), [[BOS]] * len(sources), targets, penalty)

    def _logits(
        self, tokens: Int[np.ndarray, "batch beam"], memory: CpuEnsembleMemory, state: EnsembleParts
    ) -> tuple[list[Float[np.ndarray, "batch beam vocabulary"]], EnsembleParts]:
        """Return the logits of each model."""
        parts = zip(self.models, memory.members.parts, state.parts, strict=True)
        logits, after = zip(*(model.step(tokens, its, own) for model, its, own in parts), strict=True)
        return list(logits), EnsembleParts(after)


def mean_probability(
    logits: Sequence[Float[np.ndarray, "*rows vocabulary"]],
) -> Float[np.ndarray, "*rows vocabulary"]:
    """Return the logarithm of the mean of the distributions with these logits."""
    log_probs = [one - log_normalizers(one)[..., None] for one in logits]
    most: np.ndarray = np.maximum.reduce(log_probs)
    return most + np.log(sum(np.exp(one - most) for one in log_probs) / np.float32(len(logits)))


def _log_probs(
    logits: Sequence[Float[np.ndarray, "batch beam vocabulary"]], shortlists: Shortlists | None
) -> Float[np.ndarray, "batch beam vocabulary"]:
    """Return the log-probabilities of the ensemble. Raises RunError where logits are not finite."""
    with np.errstate(invalid="ignore"):
        log_probs = mean_probability(logits)
    if np.isnan(log_probs).any():
        raise non_finite_logits_error()
    return log_probs if shortlists is None else _renormalize(log_probs, shortlists)


def _renormalize(
    log_probs: Float[np.ndarray, "batch beam vocabulary"], shortlists: Shortlists
) -> Float[np.ndarray, "batch beam vocabulary"]:
    """Restrict each sentence to its shortlist, whose probabilities then sum to one."""
    restricted = np.full_like(log_probs, -math.inf)
    for row, known, tokens in zip(restricted, log_probs, shortlists, strict=True):
        row[:, tokens] = known[:, tokens] - log_normalizers(known[:, tokens])[..., None]
    return restricted
