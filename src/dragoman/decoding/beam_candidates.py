"""Candidates of one beam search step: the best one-token continuations of all hypotheses."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from dragoman.decoding.config import DecodingConfig
from dragoman.models.protocols import Backend, M, S, TopK
from dragoman.models.special_symbols import BOS, EOS, PAD, UNK
from dragoman.typing import Bool, Float, Int

NEG_INF = np.float32(-math.inf)


@dataclass(frozen=True)
class BeamCandidates:
    """Hypotheses by their last token, best first; impossible ones have a log-probability of minus infinity."""

    tokens: Int[np.ndarray, "batch width"]
    parents: Int[np.ndarray, "batch width"]
    token_log_probs: Float[np.ndarray, "batch width"]
    log_probs: Float[np.ndarray, "batch width"]

    def take(self, indices: Int[np.ndarray, "batch taken"]) -> Self:
        """Return the candidates at the given indices of each sentence."""
        flat = _flat_indices(indices, width=self.tokens.shape[1])
        return type(self)(
            self.tokens.take(flat), self.parents.take(flat), self.token_log_probs.take(flat), self.log_probs.take(flat)
        )

    def select(self, rows: Int[np.ndarray, " kept"]) -> Self:
        """Return the candidates of these sentences."""
        return type(self)(self.tokens[rows], self.parents[rows], self.token_log_probs[rows], self.log_probs[rows])

    def concat(self, other: Self) -> Self:
        """Append the sentences of the other."""
        return type(self)(
            np.concatenate([self.tokens, other.tokens]),
            np.concatenate([self.parents, other.parents]),
            np.concatenate([self.token_log_probs, other.token_log_probs]),
            np.concatenate([self.log_probs, other.log_probs]),
        )


def initial_candidates(start_tokens: Int[np.ndarray, " batch"], beam_size: int) -> BeamCandidates:
    """Return one hypothesis per sentence, its start token, and `beam_size - 1` impossible ones."""
    log_probs = np.full((len(start_tokens), beam_size), NEG_INF)
    log_probs[:, 0] = 0.0
    tokens = np.repeat(start_tokens[:, None], beam_size, axis=1)
    return BeamCandidates(tokens, np.zeros_like(tokens), np.zeros_like(log_probs), log_probs)


def start_tokens_or_bos(
    limits: Int[np.ndarray, " batch"], start_tokens: Int[np.ndarray, " batch"] | None
) -> Int[np.ndarray, " batch"]:
    """Return the start tokens, or the begin symbol for each sentence where none are given."""
    return np.full_like(limits, BOS) if start_tokens is None else start_tokens


def suppressed_tokens(length: int, *, min_length: int, allow_unk: bool) -> list[int]:
    """Return the symbols that may not follow a hypothesis of `length` tokens."""
    return [PAD, BOS] + [UNK] * (not allow_unk) + [EOS] * (length < min_length)


def next_tokens(
    model: Backend[M, S],
    tokens: Int[np.ndarray, "batch beam"],
    memory: M,
    state: S,
    *,
    k: int,
    lengths: Int[np.ndarray, " batch"],
    config: DecodingConfig,
) -> TopK[S]:
    """Return the `k` best next tokens of each hypothesis, without those that the configuration forbids.

    `lengths` are the token counts of the hypotheses of each sentence.
    """
    least = config.min_length
    longest = int(lengths.max()) if least else 0
    suppressed = suppressed_tokens(longest, min_length=least, allow_unk=config.allow_unk)
    if longest < least or lengths.min() >= least:
        return model.top_k(tokens, memory, state, k=k, suppress_tokens=suppressed)
    log_probs, ids, state = model.top_k(tokens, memory, state, k=k + 1, suppress_tokens=suppressed)
    too_short = (lengths < least)[:, None, None] & (ids == EOS)
    order = np.argsort(too_short, axis=-1, kind="stable")[..., :k]
    log_probs = np.where(too_short, NEG_INF, log_probs)
    return np.take_along_axis(log_probs, order, axis=-1), np.take_along_axis(ids, order, axis=-1), state


def best_candidates(
    token_log_probs: Float[np.ndarray, "batch beam best"],
    tokens: Int[np.ndarray, "batch beam best"],
    log_probs: Float[np.ndarray, "batch beam"],
    *,
    width: int,
) -> BeamCandidates:
    """Return the `width` best (parent, token) pairs of each sentence; ties break by lower token, then lower parent.

    `tokens` are the best continuations of each hypothesis (`width` of them suffice), `log_probs` those of the
    hypotheses.
    """
    batch, beam, each = tokens.shape
    losses = -(log_probs[..., None] + token_log_probs).reshape(batch, beam * each)
    order = _smallest_first(losses, tokens.reshape(batch, beam * each), width=width)
    flat = _flat_indices(order, width=beam * each)
    parents = (order // each).astype(tokens.dtype)
    return BeamCandidates(tokens.take(flat), parents, token_log_probs.take(flat), -losses.take(flat))


def _smallest_first(
    losses: Float[np.ndarray, "batch candidates"], tokens: Int[np.ndarray, "batch candidates"], *, width: int
) -> Int[np.ndarray, "batch width"]:
    """Return the indices of the `width` smallest losses; ties break by lower token, then lower index."""
    order = losses.argsort(axis=1)[:, : width + 1]
    sorted_ = losses.take(_flat_indices(order, width=losses.shape[1]))
    # Ties are rare, and a stable sort over two keys takes five times as long.
    equal = sorted_[:, 1:] == sorted_[:, :-1]
    order = order[:, :width]
    if np.count_nonzero(equal):  # a quarter of the time of any(), which matters for single sentences
        tied = equal.any(axis=1)
        order[tied] = np.lexsort((tokens[tied], losses[tied]), axis=1)[:, :width]
    return order


def _flat_indices(indices: Int[np.ndarray, "batch taken"], *, width: int) -> Int[np.ndarray, "batch taken"]:
    """Turn indices per row of an array of this width into indices of the flattened array, which are faster to take."""
    return indices if len(indices) == 1 else indices + np.arange(0, len(indices) * width, width)[:, None]


def unfinished_indices(candidates: BeamCandidates, *, beam_size: int) -> Int[np.ndarray, "batch beam"]:
    """Return the indices of the `beam_size` best candidates that do not end with the end symbol."""
    ends: Bool[np.ndarray, "batch width"] = candidates.tokens == EOS
    return ends.argsort(axis=1, kind="stable")[:, :beam_size]
