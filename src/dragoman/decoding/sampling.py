"""Sampling of the next token from logits: the filters, their order, and the draw.

A filter excludes tokens by a logit of minus infinity. Filters that look at the distribution never exclude its most
probable token (typical sampling: its most typical one). Ties keep the lower token. All functions work on NumPy arrays
and on PyTorch tensors, by the operations `ops`: `NumpyOperations` or `TorchOperations`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

import numpy as np

from dragoman.array_types import Bool, Float, Int
from dragoman.decoding.config import SamplingConfig
from dragoman.models.special_symbols import EOS, PAD

RowLogits = Float[Any, "rows vocabulary"]
TokenContext = Int[Any, "rows places"]


@dataclass(frozen=True)
class SamplingStep:
    """Choices of one sampling step, one row per output."""

    config: SamplingConfig
    suppress_tokens: Sequence[int]
    """Tokens that no output may have."""
    too_short: Bool[np.ndarray, " rows"]
    """Whether the output may not end yet."""
    context: Int[np.ndarray, "rows places"]
    """Tokens before and in each output, padded before the first; none where no filter needs them."""
    uniforms: Sequence[float]
    """One random number in [0, 1) per row, which temperature 0 ignores."""
    alternatives: int = 0
    """Most probable tokens that are observed."""
    observe: Callable[[Int[Any, "rows count"], Float[Any, "rows count"]], None] | None = None
    """Receives the most probable tokens of each row, and their log-probabilities before filtering."""


def sample_next(logits: RowLogits, step: SamplingStep, ops: Any) -> tuple[Int[Any, " rows"], Float[Any, " rows"]]:
    """Return the next token of each row and its log-probability before filtering; minus infinity if none is possible.

    Raises RunError when logits are not finite.
    """
    logits = ops.float32(logits)
    normalizer = ops.log_normalizer(logits)
    tokens = np.tile([*step.suppress_tokens, EOS, *step.config.end_tokens], (len(logits), 1))
    forbidden = np.ones(tokens.shape, dtype=np.bool_)
    forbidden[:, len(step.suppress_tokens) :] = step.too_short[:, None]
    possible = ops.fill(logits, ops.mask(logits, ops.array(tokens, logits), ops.array(forbidden, logits)), -math.inf)
    possible = filter_logits(possible, ops.array(step.context, logits), config=step.config, ops=ops)
    chosen = possible.argmax(-1) if step.config.temperature == 0 else invert_cdf(possible, step.uniforms, ops)
    log_probs = ops.take(logits, chosen[:, None]) - normalizer[:, None]
    if step.observe is not None:
        best = ops.top_k_indices(logits, min(step.alternatives, logits.shape[1]))
        step.observe(best, ops.take(logits, best) - normalizer[:, None])
    return chosen, ops.fill(log_probs, ops.maximum(possible) == -math.inf, -math.inf)[:, 0]


def filter_logits(logits: RowLogits, context: TokenContext, *, config: SamplingConfig, ops: Any) -> RowLogits:
    """Return the logits of the distribution that tokens are sampled from."""
    if config.repetition_penalty != 1:
        logits = apply_repetition_penalty(logits, context, config.repetition_penalty, ops)
    if config.no_repeat_ngram_size is not None:
        logits = block_repeated_ngrams(logits, context, config.no_repeat_ngram_size, ops)
    if config.temperature not in (0, 1):
        logits = apply_temperature(logits, config.temperature)
    if config.top_k is not None:
        logits = filter_top_k(logits, config.top_k, ops)
    if config.top_p is not None:
        logits = filter_top_p(logits, config.top_p, ops)
    if config.min_p is not None:
        logits = filter_min_p(logits, config.min_p, ops)
    if config.typical_p is not None:
        logits = filter_typical_p(logits, config.typical_p, ops)
    return logits


def invert_cdf(logits: RowLogits, uniforms: Sequence[float], ops: Any) -> Int[Any, " rows"]:
    """Return for each row the token at which the cumulative distribution first exceeds the number in [0, 1)."""
    cumulative = ops.cumulative_softmax(logits)
    numbers = ops.array(np.asarray(uniforms, dtype=np.float64), cumulative)[:, None] * cumulative[:, -1:]
    tokens = (cumulative <= numbers).sum(-1)
    return ops.array(tokens.clip(0, logits.shape[1] - 1), logits)


def apply_temperature(logits: RowLogits, temperature: float) -> RowLogits:
    """$x_i / T$ (Ackley et al., 1985): below 1 sharpens the distribution, above 1 flattens it."""
    return logits / temperature


def filter_top_k(logits: RowLogits, count: int, ops: Any) -> RowLogits:
    """Keep the `count` most probable tokens (Fan et al., 2018)."""
    indices = ops.top_k_indices(logits, count)
    return ops.fill(logits, ~ops.mask(logits, indices, indices >= 0), -math.inf)


def filter_top_p(logits: RowLogits, mass: float, ops: Any) -> RowLogits:
    """Keep the nucleus: the fewest tokens whose probabilities sum to `mass` (Holtzman et al., 2020, equation 2)."""
    return _keep_mass(ops.argsort(-logits), logits, mass, ops)


def filter_min_p(logits: RowLogits, share: float, ops: Any) -> RowLogits:
    """Keep tokens at least `share` times as probable as the most probable (Nguyen et al., 2024, section 3)."""
    return ops.fill(logits, logits < ops.maximum(logits) + math.log(share), -math.inf)


def filter_typical_p(logits: RowLogits, mass: float, ops: Any) -> RowLogits:
    r"""Keep the fewest tokens that sum to `mass`, in order of $|H(p) + \log p_i|$ with the entropy $H$.

    Locally typical sampling (Meister et al., 2023, section 4).
    """
    log_probs = ops.log_softmax(logits)
    possible = log_probs > -math.inf
    surprise = -ops.fill(log_probs, ~possible, 0.0)
    entropy = (ops.exp(log_probs) * surprise).sum(-1)[:, None]
    distance = ops.fill(abs(surprise - entropy), ~possible, math.inf)
    return _keep_mass(ops.argsort(distance), logits, mass, ops)


def apply_repetition_penalty(logits: RowLogits, context: TokenContext, penalty: float, ops: Any) -> RowLogits:
    """Divide the logits of tokens in `context` by `penalty` (Keskar et al., 2019, section 4.1).

    The paper divides every logit, which would raise a negative one; as usual, negative logits are multiplied instead.
    The logit of padding stays unchanged.
    """
    repeated = ops.mask(logits, context, context != PAD)
    return ops.where(repeated, ops.where(logits < 0, logits * penalty, logits / penalty), logits)


def block_repeated_ngrams(logits: RowLogits, context: TokenContext, size: int, ops: Any) -> RowLogits:
    """Exclude tokens that would repeat an n-gram of `size` tokens of the context (Paulus et al., 2018, 2.5).

    The context is padded before its first token.
    """
    count = context.shape[1] - size + 1
    if count < 1:
        return logits
    last = context[:, size - 1 :]
    equal = (context[:, place : place + count] == context[:, [count + place]] for place in range(size - 1))
    return ops.fill(logits, ops.mask(logits, last, reduce(and_, equal, last == last)), -math.inf)


def _keep_mass(order: Int[Any, "rows vocabulary"], logits: RowLogits, mass: float, ops: Any) -> RowLogits:
    """Keep the fewest tokens at the head of an order whose probabilities sum to `mass`."""
    probabilities = ops.take(ops.softmax(logits), order)
    before = probabilities.cumsum(-1) - probabilities
    return ops.fill(logits, ~ops.mask(logits, order, before < mass), -math.inf)
