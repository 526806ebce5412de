"""Greedy search: always the most probable token."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Self, final

import numpy as np

from dragoman.decoding.beam_candidates import NEG_INF, next_tokens, start_tokens_or_bos
from dragoman.decoding.config import DecodingConfig
from dragoman.decoding.hypothesis import Hypothesis, build_hypothesis
from dragoman.models.protocols import Backend, M, S
from dragoman.models.special_symbols import EOS
from dragoman.typing import Bool, Int


@final
@dataclass(frozen=True)
class _Sentences(Generic[M, S]):
    """Active sentences with their latest tokens."""

    ids: Int[np.ndarray, " kept"]
    lengths: Int[np.ndarray, " kept"]
    limits: Int[np.ndarray, " kept"]
    tokens: Int[np.ndarray, " kept"]
    memory: M
    state: S

    def select(self, rows: Int[np.ndarray, " chosen"]) -> Self:
        return type(self)(
            self.ids[rows],
            self.lengths[rows],
            self.limits[rows],
            self.tokens[rows],
            self.memory.select(rows),
            self.state.select(rows),
        )

    def concat(self, other: Self) -> Self:
        return type(self)(
            np.concatenate([self.ids, other.ids]),
            np.concatenate([self.lengths, other.lengths]),
            np.concatenate([self.limits, other.limits]),
            np.concatenate([self.tokens, other.tokens]),
            self.memory.concat(other.memory),
            self.state.concat(other.state),
        )


@final
class GreedySearch(Generic[M, S]):
    """Beam search with a beam of one, without the bookkeeping of beams; implements `Search`."""

    def __init__(self, model: Backend[M, S], *, config: DecodingConfig) -> None:
        self._model = model
        self._config = config
        self._active: _Sentences[M, S] | None = None
        self._outputs: dict[int, list[tuple[int, float]]] = {}
        self._next_id = 0

    def __len__(self) -> int:
        return len(self._outputs)

    def add(
        self, memory: M, *, limits: Int[np.ndarray, " batch"], start_tokens: Int[np.ndarray, " batch"] | None = None
    ) -> list[int]:
        ids = np.arange(self._next_id, self._next_id + len(limits))
        self._next_id += len(limits)
        tokens = start_tokens_or_bos(limits, start_tokens)
        state = self._model.start(memory, beam_size=1)
        added = _Sentences(ids, np.zeros_like(ids), limits, tokens, memory, state)
        self._active = added if self._active is None else self._active.concat(added)
        added_ids: list[int] = ids.tolist()
        self._outputs |= {sentence_id: [] for sentence_id in added_ids}
        return added_ids

    def step(self) -> dict[int, list[Hypothesis]]:
        active = self._active
        assert active is not None, "there is an active sentence"
        log_probs, ids, state = next_tokens(
            self._model,
            active.tokens[:, None],
            active.memory,
            active.state,
            k=1,
            lengths=active.lengths,
            config=self._config,
        )
        tokens, log_probs = ids[:, 0, 0], log_probs[:, 0, 0]
        ends = tokens == EOS
        cut = ((active.limits <= active.lengths) & ~ends) | (log_probs == NEG_INF)
        columns = zip(*(column.tolist() for column in (active.ids, tokens, log_probs, cut)), strict=True)
        for sentence_id, token, log_prob, is_cut in columns:
            if not is_cut:
                self._outputs[sentence_id].append((token, log_prob))
        after = _Sentences(active.ids, active.lengths + 1, active.limits, tokens, active.memory, state)
        return self._keep_active(after, cut | ends)

    def remove(self, sentence_ids: Sequence[int]) -> None:
        if self._active is not None:
            self._keep_active(self._active, np.isin(self._active.ids, sentence_ids))

    def _keep_active(
        self, sentences: _Sentences[M, S], complete: Bool[np.ndarray, " kept"]
    ) -> dict[int, list[Hypothesis]]:
        """Continue with the sentences that are not complete, and return the hypotheses of the others."""
        if not np.count_nonzero(complete):
            self._active = sentences
            return {}
        rows = (~complete).nonzero()[0]
        self._active = sentences.select(rows) if len(rows) else None
        return {
            sentence_id: [build_hypothesis(self._outputs.pop(sentence_id), self._config.penalty)]
            for sentence_id in sentences.ids[complete].tolist()
        }
