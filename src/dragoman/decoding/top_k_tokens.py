"""Best next tokens of each hypothesis that the configuration allows."""

import math

import numpy as np

from dragoman.array_types import Int
from dragoman.decoding.config import DecodingConfig
from dragoman.models.protocols import Backend, M, S, TopK
from dragoman.models.special_symbols import BOS, EOS, PAD, UNK

NEG_INF = np.float32(-math.inf)


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
    """Return the `k` best next tokens of each hypothesis; `lengths` are the token counts of the hypotheses."""
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
