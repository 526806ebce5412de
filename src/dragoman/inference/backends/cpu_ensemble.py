"""Several networks in the compiled core that answer as one, as `models.ensemble` has it; PyTorch is not asked."""

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Self, final

import numpy as np

from dragoman.data.readers.conllu import Heads
from dragoman.decoding.config import Normalisation
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.inference.backends.array_scoring import GivesLogits, normalisers, score
from dragoman.inference.backends.protocol import Ids
from dragoman.models.ensemble_state import Memories, States
from dragoman.models.search_protocols import Best, not_finite
from dragoman.typing import Float, Int

AT_ONCE = 16
"""Sentences whose logits are looked at together: what is written on the way stays in a cache."""
Candidates = tuple[Int[np.ndarray, "_"], ...]


@final
@dataclass(frozen=True)
class Read:
    """What the networks keep of the same sources, and the only tokens that each may be translated with."""

    memories: Memories
    candidates: Candidates | None

    def keep(self, rows: Int[np.ndarray, " kept"]) -> Self:
        kept = None if self.candidates is None else tuple(self.candidates[row] for row in rows)
        return type(self)(self.memories.keep(rows), kept)

    def join(self, other: Self) -> Self:
        both = None if self.candidates is None or other.candidates is None else self.candidates + other.candidates
        return type(self)(self.memories.join(other.memories), both)


@final
class CompiledTogether:
    """Implements `runtime.network.Translating`; what it gives for logits are log-probabilities."""

    device = "cpu"
    structural = False
    joins_freely = True

    def __init__(self, networks: Sequence[GivesLogits]) -> None:
        """They know the same symbols."""
        self.networks = tuple(networks)
        known = [network.maximum_length for network in networks if network.maximum_length is not None]
        self.maximum_length: int | None = min(known, default=None)

    def in_use(self) -> AbstractContextManager[None]:
        return nullcontext()

    def encode(
        self,
        sources: Sequence[Ids],
        trees: Sequence[Heads] = (),
        candidates: Sequence[Int[np.ndarray, "_"]] | None = None,
    ) -> Read:
        memories = Memories(tuple(network.encode(sources, trees) for network in self.networks))
        return Read(memories, None if candidates is None else tuple(candidates))

    def start(self, memory: Read, *, beam: int) -> States:
        parts = zip(self.networks, memory.memories.parts, strict=True)
        return States(tuple(network.start(part, beam=beam) for network, part in parts))

    def step(
        self, tokens: Int[np.ndarray, "batch beam"], memory: Read, state: States
    ) -> tuple[Float[np.ndarray, "batch beam vocabulary"], States]:
        """The log-probabilities of all tokens, and the state that comes next."""
        logits, after = self._logits(tokens, memory, state)
        return mean_probability(logits), after

    def best(
        self,
        tokens: Int[np.ndarray, "batch beam"],
        memory: Read,
        state: States,
        *,
        width: int,
        forbidden: Sequence[int] = (),
    ) -> Best[States]:
        logits, after = self._logits(tokens, memory, state)
        found = []
        for begin in range(0, len(tokens), AT_ONCE):
            some = slice(begin, begin + AT_ONCE)
            candidates = None if memory.candidates is None else memory.candidates[some]
            log_probs = _log_probs([one[some] for one in logits], candidates)
            log_probs[..., list(forbidden)] = -math.inf
            found.append(largest(log_probs, min(width, log_probs.shape[-1])))
        best, ids = (np.concatenate(column) for column in zip(*found, strict=True))
        return best, ids, after

    def score(
        self,
        sources: Sequence[Ids],
        outputs: Sequence[Ids],
        *,
        normalisation: Normalisation,
        trees: Sequence[Heads] = (),
    ) -> list[Hypothesis]:
        return score(self, sources, outputs, normalisation=normalisation, trees=trees)

    def _logits(
        self, tokens: Int[np.ndarray, "batch beam"], memory: Read, state: States
    ) -> tuple[list[Float[np.ndarray, "batch beam vocabulary"]], States]:
        """Those of each network."""
        parts = zip(self.networks, memory.memories.parts, state.parts, strict=True)
        logits, after = zip(*(network.step(tokens, its, own) for network, its, own in parts), strict=True)
        return list(logits), States(after)


def mean_probability(
    logits: Sequence[Float[np.ndarray, "*rows vocabulary"]],
) -> Float[np.ndarray, "*rows vocabulary"]:
    """The logarithm of the mean of the distributions that these are the logits of."""
    log_probs = [one - normalisers(one)[..., None] for one in logits]
    most: np.ndarray = np.maximum.reduce(log_probs)
    return most + np.log(sum(np.exp(one - most) for one in log_probs) / np.float32(len(logits)))


def largest(
    numbers: Float[np.ndarray, "*rows places"], count: int
) -> tuple[Float[np.ndarray, "*rows count"], Int[np.ndarray, "*rows count"]]:
    """The `count` largest numbers of each row and their places, largest first, of equals the one that comes first."""
    places = np.argpartition(numbers, -count, axis=-1)[..., -count:]
    found = np.take_along_axis(numbers, places, axis=-1)
    if (np.count_nonzero(numbers >= found.min(axis=-1, keepdims=True), axis=-1) > count).any():
        # Of equals at the border the partition takes any.
        places = np.argsort(-numbers, axis=-1, kind="stable")[..., :count]
        found = np.take_along_axis(numbers, places, axis=-1)
    order = np.lexsort((places, -found), axis=-1)
    return np.take_along_axis(found, order, axis=-1), np.take_along_axis(places, order, axis=-1)


def _log_probs(
    logits: Sequence[Float[np.ndarray, "batch beam vocabulary"]], candidates: Candidates | None
) -> Float[np.ndarray, "batch beam vocabulary"]:
    """What all find of some sentences. Raises RunError where something is no number."""
    with np.errstate(invalid="ignore"):
        log_probs = mean_probability(logits)
    if np.isnan(log_probs).any():
        raise not_finite()
    return log_probs if candidates is None else _shared_among(log_probs, candidates)


def _shared_among(
    log_probs: Float[np.ndarray, "batch beam vocabulary"], candidates: Candidates
) -> Float[np.ndarray, "batch beam vocabulary"]:
    """Those of each sentence's candidates alone, whose probabilities sum to one."""
    shared = np.full_like(log_probs, -math.inf)
    for row, known, own in zip(shared, log_probs, candidates, strict=True):
        row[:, own] = known[:, own] - normalisers(known[:, own])[..., None]
    return shared
