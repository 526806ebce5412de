"""Functions of logits: normalization, exact top-k, and the filters of sampling.

A filter excludes tokens by a logit of minus infinity. Filters that look at the distribution never exclude its most
probable token (typical sampling: its most typical one). Ties keep the lower token.
"""

import math

import torch
from torch import Tensor

from dragoman.models.protocols import non_finite_logits_error
from dragoman.typing import Float, Int, StepLogits

Logits = Float[Tensor, "rows vocabulary"]
Context = Int[Tensor, "rows places"]

CACHED_ROWS = 64
"""Rows of logits that a CPU normalizes at a time: intermediate results stay in its cache, which is twice as fast."""


def log_normalizer(logits: StepLogits) -> Float[Tensor, "batch beam"]:
    """Return the log-sum-exp of the logits in 32 bits. Raises RunError when it is not finite."""
    normalizer = log_sum_exp(logits)
    if not bool(normalizer.isfinite().all()):
        raise non_finite_logits_error()
    return normalizer


def log_sum_exp(logits: StepLogits) -> Float[Tensor, "batch beam"]:
    """Return the log-sum-exp of the logits in 32 bits, unchecked."""
    rows = logits.flatten(0, 1)
    blocks = rows.split(CACHED_ROWS) if rows.device.type == "cpu" else (rows,)
    return torch.cat([block.float().logsumexp(dim=-1) for block in blocks]).view(logits.shape[:2])


def exact_top_k(
    values: Float[Tensor, "batch beam vocabulary"], count: int
) -> tuple[Float[Tensor, "batch beam count"], Int[Tensor, "batch beam count"]]:
    """Return the `count` largest values with their indices (all, when there are fewer), in no certain order.

    Ties at the border keep the lower indices; `torch.topk` leaves that open.
    """
    vocabulary = values.shape[-1]
    if count >= vocabulary:
        return values, torch.arange(vocabulary, device=values.device).expand_as(values)
    one_more, indices = values.topk(count + 1)
    top, indices = one_more[..., :count], indices[..., :count]
    tied = (top[..., -1] == one_more[..., -1]) & (top[..., -1] > -math.inf)
    if bool(tied.any()):
        exact = values[tied].argsort(dim=-1, descending=True, stable=True)[:, :count]
        top[tied], indices[tied] = values[tied].gather(1, exact), exact
    return top, indices


def apply_temperature(logits: Logits, temperature: float) -> Logits:
    """$x_i / T$ (Ackley et al., 1985): below 1 sharpens the distribution, above 1 flattens it."""
    return logits / temperature


def filter_top_k(logits: Logits, count: int) -> Logits:
    """Keep the `count` most probable tokens (Fan et al., 2018)."""
    _, indices = exact_top_k(logits[:, None], count)
    excluded = torch.ones_like(logits, dtype=torch.bool).scatter(1, indices[:, 0], False)
    return logits.masked_fill(excluded, -math.inf)


def filter_top_p(logits: Logits, mass: float) -> Logits:
    """Keep the nucleus: the fewest tokens whose probabilities sum to `mass` (Holtzman et al., 2020, equation 2)."""
    return _keep_mass(logits.argsort(dim=-1, descending=True, stable=True), logits, mass)


def filter_min_p(logits: Logits, share: float) -> Logits:
    """Keep tokens at least `share` times as probable as the most probable (Nguyen et al., 2024, section 3)."""
    least = logits.amax(dim=-1, keepdim=True) + math.log(share)
    return logits.masked_fill(logits < least, -math.inf)


def filter_typical_p(logits: Logits, mass: float) -> Logits:
    r"""Keep the fewest tokens that sum to `mass`, in order of $|H(p) + \log p_i|$ with the entropy $H$.

    Locally typical sampling (Meister et al., 2023, section 4).
    """
    log_probs = logits.log_softmax(dim=-1)
    possible = log_probs > -math.inf
    surprise = -log_probs.masked_fill(~possible, 0.0)
    entropy = (log_probs.exp() * surprise).sum(dim=-1, keepdim=True)
    distance = (surprise - entropy).abs().masked_fill(~possible, math.inf)
    return _keep_mass(distance.argsort(dim=-1, stable=True), logits, mass)


def apply_repetition_penalty(logits: Logits, context: Context, penalty: float, *, pad: int) -> Logits:
    """Divide the logits of tokens in `context` by `penalty` (Keskar et al., 2019, section 4.1).

    The paper divides every logit, which would raise a negative one; as usual, negative logits are multiplied instead.
    `context` is padded with `pad`, whose logit stays unchanged.
    """
    repeated = torch.zeros_like(logits, dtype=torch.bool).scatter(1, context, True)
    repeated[:, pad] = False
    return torch.where(repeated, torch.where(logits < 0, logits * penalty, logits / penalty), logits)


def block_repeated_ngrams(logits: Logits, context: Context, size: int) -> Logits:
    """Exclude tokens that would repeat an n-gram of `size` tokens of the context (Paulus et al., 2018, 2.5).

    The context is padded before its first token.
    """
    if context.shape[1] < size:
        return logits
    ngrams = context.unfold(1, size, 1)
    latest = context[:, context.shape[1] - size + 1 :]
    repeats = (ngrams[..., :-1] == latest[:, None]).all(dim=-1)
    counts = torch.zeros_like(logits, dtype=torch.long).scatter_add(1, ngrams[..., -1], repeats.long())
    return logits.masked_fill(counts > 0, -math.inf)


def _keep_mass(order: Int[Tensor, "rows vocabulary"], logits: Logits, mass: float) -> Logits:
    """Keep the fewest tokens at the head of an order whose probabilities sum to `mass`."""
    exact = logits if logits.device.type == "mps" else logits.double()  # Apple's devices have no double precision
    probabilities = exact.softmax(dim=-1).gather(1, order)
    before = probabilities.cumsum(dim=-1) - probabilities
    kept = torch.zeros_like(before, dtype=torch.bool).scatter(1, order, before < mass)
    return logits.masked_fill(~kept, -math.inf)
