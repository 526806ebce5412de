"""Search with one hypothesis per sentence: greedy search and sampling.

Greedy search takes the most probable token: a beam of one without the bookkeeping of beams. In sampling, each token is
read off the cumulative distribution at a uniform number, which depends only on the seed, the key of the output and the
position of the token, never on the other outputs of the batch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, Protocol, TypeVar, final, runtime_checkable

import numpy as np

from dragoman.array_types import Bool, Float, Int
from dragoman.decoding.config import AVERAGE_LOG_PROB, CutOff, DecodingConfig, LengthPenalty, SamplingConfig
from dragoman.decoding.hypothesis import Hypothesis, OutputStart, TokenAlternatives, TokenObserver, build_hypothesis
from dragoman.decoding.sampling import SamplingStep
from dragoman.decoding.search_base import NEG_INF, ForcedTokens, RowBatch, as_end_symbol, next_tokens, suppressed_tokens
from dragoman.models.protocols import Backend, M, M_contra, Memory, S
from dragoman.models.special_symbols import EOS, PAD

R = TypeVar("R", bound=Memory)
"""State with rows that can be selected and concatenated."""
NextTokens = tuple[Int[np.ndarray, " batch"], Float[np.ndarray, " batch"], R]
"""Next token of each output with its log-probability, and the next state."""


@runtime_checkable
class SamplingBackend(Protocol[M_contra, R]):
    """Model as sampling sees it."""

    def start(self, memory: M_contra, *, beam_size: int) -> R:
        """Return the state before the first step."""
        ...

    def sample(
        self, tokens: Int[np.ndarray, "batch 1"], memory: M_contra, state: R, *, step: SamplingStep
    ) -> NextTokens[R]:
        """Return the sampled tokens after `tokens`, with their log-probabilities before filtering.

        The log-probability is minus infinity where no token is possible. Raises RunError when logits are not finite.
        """
        ...


@dataclass
class _Output:
    """Tokens of an output so far, with their log-probabilities."""

    start: OutputStart
    is_complete: TokenObserver | None
    tokens: list[tuple[int, float]] = field(default_factory=list)
    alternatives: list[TokenAlternatives] = field(default_factory=list)
    """Most probable tokens of each step, where they are recorded."""


@final
@dataclass(frozen=True)
class _Active(RowBatch, Generic[M, R]):
    """Active sentences with their latest tokens, and their outputs so far."""

    ids: Int[np.ndarray, " kept"]
    lengths: Int[np.ndarray, " kept"]
    limits: Int[np.ndarray, " kept"]
    forced: ForcedTokens
    tokens: Int[np.ndarray, " kept"]
    memory: M
    state: R
    outputs: tuple[_Output, ...]


@final
class SingleOutputSearch(Generic[M, R]):
    """Search that extends one hypothesis per sentence; its methods are those of `BeamSearch`."""

    def __init__(
        self,
        model: Any,
        choose: Callable[[_Active[M, R]], NextTokens[R]],
        penalty: LengthPenalty,
        *,
        cut_off: CutOff = "last",
    ) -> None:
        """With a `cut_off` other than `last`, outputs at their length limit get no further step for an end symbol."""
        self._model = model
        self._choose = choose
        self._penalty = penalty
        self._cut_off: CutOff = cut_off
        self._active: _Active[M, R] | None = None
        self._next_id = 0

    def __len__(self) -> int:
        return 0 if self._active is None else len(self._active.ids)

    def add(self, memory: M, *, limits: Int[np.ndarray, " batch"], starts: Sequence[OutputStart]) -> list[int]:
        ids = np.arange(self._next_id, self._next_id + len(limits))
        self._next_id += len(limits)
        state = self._model.start(memory, beam_size=1)
        tokens = np.array([start.token for start in starts])
        outputs = tuple(_Output(start, None if start.observe is None else start.observe()) for start in starts)
        added = _Active(ids, np.zeros_like(ids), limits, ForcedTokens.of(starts), tokens, memory, state, outputs)
        self._active = added if self._active is None else self._active.concat(added)
        return ids.tolist()

    def step(self) -> dict[int, list[Hypothesis]]:
        active = self._active
        assert active is not None, "there is an active sentence"
        tokens, log_probs, state = self._choose(active)
        cut = ((active.limits <= active.lengths) & (tokens != EOS)) | (log_probs == NEG_INF)
        complete = cut | (tokens == EOS)
        columns = zip(active.outputs, tokens.tolist(), log_probs.tolist(), cut.tolist(), strict=True)
        for row, (output, token, log_prob, is_cut) in enumerate(columns):
            if not is_cut:
                output.tokens.append((token, log_prob))
                if token != EOS and output.is_complete is not None:
                    best = output.alternatives[-1] if output.alternatives else ()
                    complete[row] |= output.is_complete(token, log_prob, best)
        kept = active.limits, active.forced
        after = _Active(active.ids, active.lengths + 1, *kept, tokens, active.memory, state, active.outputs)
        if self._cut_off != "last":
            complete |= after.limits <= after.lengths
        return self._keep_active(after, complete)

    def remove(self, sentence_ids: Sequence[int]) -> None:
        if self._active is not None:
            self._keep_active(self._active, np.isin(self._active.ids, sentence_ids))

    def _keep_active(self, active: _Active[M, R], complete: Bool[np.ndarray, " kept"]) -> dict[int, list[Hypothesis]]:
        """Continue with the sentences that are not complete, and return the hypotheses of the others."""
        if not np.count_nonzero(complete):
            self._active = active
            return {}
        rows = (~complete).nonzero()[0]
        self._active = active.select(rows) if len(rows) else None
        columns = zip(active.ids.tolist(), active.outputs, active.limits.tolist(), complete.tolist(), strict=True)
        return {key: [self._build(output, limit)] for key, output, limit, is_over in columns if is_over}

    def _build(self, output: _Output, limit: int) -> Hypothesis:
        tokens = output.tokens
        is_cut = len(tokens) == limit and tokens[-1][0] != EOS
        adds_end = is_cut and self._cut_off == "ended"
        return build_hypothesis(tokens, self._penalty, adds_end=adds_end, alternatives=output.alternatives)


def greedy_search(model: Backend[M, S], *, config: DecodingConfig) -> SingleOutputSearch[M, S]:
    """Build a greedy search, without sentences."""

    def choose(active: _Active[M, S]) -> NextTokens[S]:
        latest, lengths = active.tokens[:, None], active.lengths
        log_probs, ids, state = next_tokens(
            model, latest, active.memory, active.state, k=1, lengths=lengths, forced=active.forced, config=config
        )
        return ids[:, 0, 0], log_probs[:, 0, 0], state

    return SingleOutputSearch(model, choose, config.penalty, cut_off=config.cut_off)


def sampling_search(model: SamplingBackend[M, R], *, config: SamplingConfig) -> SingleOutputSearch[M, R]:
    """Build a search that samples outputs; their score is the mean log-probability."""
    suppressed = suppressed_tokens(config)

    def choose(active: _Active[M, R]) -> NextTokens[R]:
        outputs = active.outputs
        alternatives = max(output.start.alternatives for output in outputs)
        step = SamplingStep(
            config,
            suppress_tokens=suppressed,
            too_short=active.lengths - active.forced.lengths < config.min_length,
            context=_pad_contexts(outputs, needed=config.needs_context),
            uniforms=[_uniform(output, default_seed=config.seed) for output in outputs],
            alternatives=alternatives,
            observe=partial(_record_alternatives, outputs) if alternatives else None,
        )
        tokens, log_probs, state = model.sample(active.tokens[:, None], active.memory, active.state, step=step)
        tokens = as_end_symbol(tokens, config.end_tokens)
        if rows := active.forced.rows(active.lengths):
            tokens, log_probs = tokens.copy(), log_probs.copy()
        for row, token in rows:
            tokens[row], log_probs[row] = token, 0.0
        return tokens, log_probs, state

    return SingleOutputSearch(model, choose, AVERAGE_LOG_PROB)


def _record_alternatives(
    outputs: Sequence[_Output], ids: Int[Any, "rows count"], log_probs: Float[Any, "rows count"]
) -> None:
    """Record the most probable tokens of a step with the outputs that ask for them."""
    for output, *best in zip(outputs, ids.tolist(), log_probs.tolist(), strict=True):
        if count := output.start.alternatives:
            output.alternatives.append(tuple(zip(*(row[:count] for row in best), strict=True)))


def _uniform(output: _Output, *, default_seed: int) -> float:
    """Return the random number of the next token."""
    start = output.start
    return uniform_number(default_seed if start.seed is None else start.seed, start.key, len(output.tokens))


def uniform_number(seed: int, keys: tuple[int, int], step: int) -> float:
    """Return a number in [0, 1) that depends on the arguments only (Philox generator, Salmon et al., 2011)."""
    first, second = keys
    key = np.array([seed, first], dtype=np.uint64)
    counter = np.array([step, second, 0, 0], dtype=np.uint64)
    return (int(np.random.Philox(key=key, counter=counter).random_raw()) >> 11) * 2.0**-53


def _pad_contexts(outputs: Sequence[_Output], *, needed: bool) -> Int[np.ndarray, "batch places"]:
    """Return the tokens before and in each output, padded before the first, or no tokens where none are needed."""
    rows = [[*one.start.context, *(token for token, _ in one.tokens)] if needed else [] for one in outputs]
    padded = np.full((len(rows), max(map(len, rows), default=0)), PAD, dtype=np.int64)
    for empty, row in zip(padded, rows, strict=True):
        empty[len(empty) - len(row) :] = row
    return padded
