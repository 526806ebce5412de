"""Ensemble of models in the CPU library: averages their token probabilities as `models.ensemble` does."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from dragoman.array_types import Float, Int
from dragoman.data.readers.conllu import Heads
from dragoman.decoding.numpy_logits_operations import log_normalizers, top_k_sorted
from dragoman.decoding.search_state_rows import RowBatch
from dragoman.inference.backends.cpu_backend import CpuModel
from dragoman.inference.backends.protocol import Sources, TokenIds
from dragoman.models.protocols import EnsembleParts, LastTokens, TopK, non_finite_logits_error

Shortlists = tuple[Int[np.ndarray, "_"], ...]
SENTENCES_PER_BLOCK = 16
"""Sentences whose logits are averaged together: intermediate results stay in a cache."""


@final
@dataclass(frozen=True)
class CpuEnsembleMemory(RowBatch):
    """Memories of all members, and the shortlist of each sentence."""

    members: EnsembleParts
    shortlists: Shortlists | None


@final
class CpuEnsemble(CpuModel):
    """Ensemble of `CpuBackend`s with one vocabulary; implements `InferenceBackend`, log-probabilities as logits."""

    def __init__(self, models: Sequence[Any]) -> None:
        self.models = tuple(models)
        known = [model.max_length for model in models if model.max_length is not None]
        self.max_length: int | None = min(known, default=None)

    def encode(self, sources: Sources, source_features: Sequence[Heads] = ()) -> CpuEnsembleMemory:
        members = EnsembleParts(tuple(model.encode(sources, source_features) for model in self.models))
        return CpuEnsembleMemory(
            members, None if self.shortlist is None else tuple(map(self.shortlist.tokens_for, sources))
        )

    def start(self, memory: CpuEnsembleMemory, *, beam_size: int) -> EnsembleParts:
        pairs = zip(self.models, memory.members.parts, strict=True)
        return EnsembleParts(tuple(model.start(part, beam_size=beam_size) for model, part in pairs))

    def step(
        self, tokens: LastTokens, memory: CpuEnsembleMemory, state: EnsembleParts
    ) -> tuple[Float[np.ndarray, "batch beam vocabulary"], EnsembleParts]:
        logits, after = self._logits(tokens, memory, state)
        return mean_probability(logits), after

    def top_k(
        self,
        tokens: LastTokens,
        memory: CpuEnsembleMemory,
        state: EnsembleParts,
        *,
        k: int,
        suppress_tokens: TokenIds = (),
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

    def _logits(
        self, tokens: LastTokens, memory: CpuEnsembleMemory, state: EnsembleParts
    ) -> tuple[list[Float[np.ndarray, "batch beam vocabulary"]], EnsembleParts]:
        """Return the logits of each model."""
        parts = zip(self.models, memory.members.parts, state.parts, strict=True)
        logits, after = zip(*(model.step(tokens, its, own) for model, its, own in parts), strict=True)
        return list(logits), EnsembleParts(after)


def mean_probability(logits: Sequence[Float[np.ndarray, "*rows vocabulary"]]) -> Float[np.ndarray, "*rows vocabulary"]:
    """Return the logarithm of the mean of the distributions with these logits."""
    log_probs = [one - log_normalizers(one)[..., None] for one in logits]
    most: np.ndarray = np.maximum.reduce(log_probs)
    return most + np.log(sum(np.exp(one - most) for one in log_probs) / np.float32(len(logits)))


def _log_probs(
    logits: Sequence[Float[np.ndarray, "batch beam vocabulary"]], shortlists: Shortlists | None
) -> Float[np.ndarray, "batch beam vocabulary"]:
    """Return the log-probabilities of the ensemble; those of the shortlist of a sentence, if any, sum to one.

    Raises RunError where logits are not finite.
    """
    with np.errstate(invalid="ignore"):
        log_probs = mean_probability(logits)
    if np.isnan(log_probs).any():
        raise non_finite_logits_error()
    if shortlists is None:
        return log_probs
    restricted = np.full_like(log_probs, -math.inf)
    for row, known, tokens in zip(restricted, log_probs, shortlists, strict=True):
        row[:, tokens] = known[:, tokens] - log_normalizers(known[:, tokens])[..., None]
    return restricted
