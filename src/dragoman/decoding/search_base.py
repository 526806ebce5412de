"""Base of all searches: one row per sentence in each field of their states, and the best next tokens of a step."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from dragoman.array_types import Int
from dragoman.decoding.config import DecodingConfig, SamplingConfig
from dragoman.decoding.hypothesis import OutputStart
from dragoman.models.protocols import Backend, LastTokens, M, S, TopK
from dragoman.models.special_symbols import BOS, EOS, PAD, UNK

NEG_INF = np.float32(-math.inf)
_WHOLE = 2**30
"""Number of tokens that is larger than any vocabulary, which backends return whole."""


class RowBatch:
    """Rows of sentences: arrays, tuples, None, or parts that have `select` and `concat` themselves."""

    def select(self, rows: Int[np.ndarray, " kept"]) -> Self:
        """Return these rows."""
        return type(self)(*(_select(part, rows) for part in vars(self).values()))

    def concat(self, other: Self) -> Self:
        """Append the rows of the other."""
        return type(self)(*map(_concat, vars(self).values(), vars(other).values()))


def _select(part: Any, rows: Int[np.ndarray, " kept"]) -> Any:
    if part is None or isinstance(part, np.ndarray):
        return None if part is None else part[rows]
    return tuple(part[row] for row in rows.tolist()) if isinstance(part, tuple) else part.select(rows)


def _concat(part: Any, other: Any) -> Any:
    if part is None or isinstance(part, np.ndarray):
        return None if part is None else np.concatenate([part, other])
    return part + other if isinstance(part, tuple) else part.concat(other)


def suppressed_tokens(
    config: DecodingConfig | SamplingConfig, *, is_short: bool = False, end_tokens: Sequence[int] = ()
) -> list[int]:
    """Return the tokens that may not follow a hypothesis, which may not end if it `is_short`."""
    always = [PAD, BOS] + [UNK] * (not config.allow_unk) + [*config.suppress_tokens]
    return always + [EOS, *end_tokens] * is_short


def as_end_symbol(tokens: Int[np.ndarray, "..."], end_tokens: Sequence[int]) -> Int[np.ndarray, "..."]:
    """Return the tokens with the end symbol in place of other tokens that end an output."""
    return np.where(np.isin(tokens, end_tokens), EOS, tokens) if end_tokens else tokens


@dataclass(frozen=True)
class ForcedTokens(RowBatch):
    """Tokens that outputs begin with."""

    tokens: tuple[tuple[int, ...], ...]
    lengths: Int[np.ndarray, " batch"]

    @classmethod
    def of(cls, starts: Sequence[OutputStart]) -> Self:
        """Return the forced tokens of outputs."""
        return cls(tuple(start.forced for start in starts), np.array([len(start.forced) for start in starts]))

    def rows(self, lengths: Int[np.ndarray, " batch"]) -> list[tuple[int, int]]:
        """Return each row whose next token is forced, and the token; `lengths` are those of the outputs."""
        forced = lengths < self.lengths
        if not np.count_nonzero(forced):
            return []
        return [(row, self.tokens[row][lengths[row]]) for row in forced.nonzero()[0].tolist()]


def next_tokens(
    model: Backend[M, S],
    tokens: LastTokens,
    memory: M,
    state: S,
    *,
    k: int,
    lengths: Int[np.ndarray, " batch"],
    forced: ForcedTokens,
    config: DecodingConfig,
    extra_tokens: Sequence[int] = (),
) -> TopK[S]:
    """Return the `k` best next tokens of each hypothesis; `lengths` are the token counts of the hypotheses.

    A forced token is the only possible one, with log-probability 0. Several of them may be the end symbol, with the
    log-probabilities of different `config.end_tokens`, as in transformers. Behind the best tokens come `extra_tokens`,
    which a `min_length` with `renormalize` does not allow.
    """
    own = lengths - forced.lengths
    log_probs, ids, after = _free_tokens(
        model, tokens, memory, state, k=k, lengths=own, config=config, extra_tokens=extra_tokens
    )
    ids = as_end_symbol(ids, config.end_tokens)
    rows = forced.rows(lengths)
    if rows:
        log_probs, ids = log_probs.copy(), ids.copy()
    for row, token in rows:
        log_probs[row] = NEG_INF
        log_probs[row, :, 0], ids[row, :, 0] = 0.0, token
    return log_probs, ids, after


def _free_tokens(
    model: Backend[M, S],
    tokens: LastTokens,
    memory: M,
    state: S,
    *,
    k: int,
    lengths: Int[np.ndarray, " batch"],
    config: DecodingConfig,
    extra_tokens: Sequence[int],
) -> TopK[S]:
    least = config.min_length
    if config.renormalize and least and int(lengths.min()) < least:
        assert not extra_tokens, "renormalized probabilities are those of all tokens"
        return _renormalized_tokens(model, tokens, memory, state, k=k, lengths=lengths, config=config)
    longest = int(lengths.max()) if least else 0
    ends = config.end_tokens
    suppressed = suppressed_tokens(config, is_short=longest < least, end_tokens=ends)
    if longest < least or lengths.min() >= least:
        return model.top_k(tokens, memory, state, k=k, suppress_tokens=suppressed, extra_tokens=extra_tokens)
    log_probs, ids, state = model.top_k(
        tokens, memory, state, k=k + 1 + len(ends), suppress_tokens=suppressed, extra_tokens=extra_tokens
    )
    best = ids.shape[-1] - len(extra_tokens)
    too_short = (lengths < least)[:, None, None] & (as_end_symbol(ids, ends) == EOS)
    order = np.argsort(too_short[..., :best], axis=-1, kind="stable")[..., :k]
    others = np.broadcast_to(np.arange(best, ids.shape[-1]), (*order.shape[:-1], len(extra_tokens)))
    order = np.concatenate([order, others], axis=-1)
    log_probs = np.where(too_short, NEG_INF, log_probs)
    return np.take_along_axis(log_probs, order, axis=-1), np.take_along_axis(ids, order, axis=-1), state


def _renormalized_tokens(
    model: Backend[M, S],
    tokens: LastTokens,
    memory: M,
    state: S,
    *,
    k: int,
    lengths: Int[np.ndarray, " batch"],
    config: DecodingConfig,
) -> TopK[S]:
    """Return the best next tokens; those of short hypotheses divide the probability of the end symbol among them."""
    log_probs, ids, state = model.top_k(tokens, memory, state, k=_WHOLE)
    is_short = (lengths < config.min_length)[:, None, None]
    ends = (as_end_symbol(ids, config.end_tokens) == EOS) & is_short
    others = np.where(ends, NEG_INF, log_probs).astype(np.float64)
    total = np.exp(others).sum(axis=-1, keepdims=True)
    normalizer = np.log(np.where(is_short & (total > 0), total, 1.0))
    suppressed = suppressed_tokens(config)
    forbidden = ends | np.isin(ids, suppressed)
    shared = np.where(forbidden, NEG_INF, others - normalizer)
    order = np.argsort(forbidden, axis=-1, kind="stable")[..., :k]
    best = np.take_along_axis(shared, order, axis=-1).astype(np.float32)
    return best, np.take_along_axis(ids, order, axis=-1), state
