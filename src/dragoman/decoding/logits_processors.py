"""What is done to logits before a token is drawn: each a function of logits, which excludes by minus infinity.

The filters that look at the distribution never exclude its most probable token (typical sampling: its most typical
one), so that something is left to draw. Of tokens that are equal the lower one stays.
"""

import math

import torch
from torch import Tensor

from dragoman.decoding.log_softmax import largest
from dragoman.typing import Float, Int

Logits = Float[Tensor, "rows vocabulary"]
Said = Int[Tensor, "rows places"]


def with_temperature(logits: Logits, temperature: float) -> Logits:
    """$x_i / T$ (Ackley et al., 1985): below 1 sharpens the distribution, above 1 flattens it."""
    return logits / temperature


def top_k(logits: Logits, count: int) -> Logits:
    """The `count` most probable tokens (Fan et al., 2018)."""
    _, places = largest(logits[:, None], count)
    excluded = torch.ones_like(logits, dtype=torch.bool).scatter(1, places[:, 0], False)
    return logits.masked_fill(excluded, -math.inf)


def top_p(logits: Logits, mass: float) -> Logits:
    """The nucleus: the fewest tokens whose probabilities add up to `mass` (Holtzman et al., 2020, equation 2)."""
    return _first_in(logits.argsort(dim=-1, descending=True, stable=True), logits, mass)


def min_p(logits: Logits, share: float) -> Logits:
    """The tokens that are at least `share` times as probable as the most probable (Nguyen et al., 2024, section 3)."""
    least = logits.amax(dim=-1, keepdim=True) + math.log(share)
    return logits.masked_fill(logits < least, -math.inf)


def typical(logits: Logits, mass: float) -> Logits:
    r"""The fewest tokens that add up to `mass`, those first whose surprise is next to the expected one.

    They are in the order of $|H(p) + \log p_i|$, with the entropy $H$ (Meister et al., 2023, section 4).
    """
    log_probs = logits.log_softmax(dim=-1)
    possible = log_probs > -math.inf
    surprise = -log_probs.masked_fill(~possible, 0.0)
    entropy = (log_probs.exp() * surprise).sum(dim=-1, keepdim=True)
    distance = (surprise - entropy).abs().masked_fill(~possible, math.inf)
    return _first_in(distance.argsort(dim=-1, stable=True), logits, mass)


def penalise_repetition(logits: Logits, said: Said, penalty: float, *, pad: int) -> Logits:
    """The logits of tokens already said divided by `penalty` (Keskar et al., 2019, section 4.1).

    Where the paper divides every logit, which would make a negative one greater, those are multiplied, as everybody
    does. `said` is padded with `pad`, which is left as it is.
    """
    repeated = torch.zeros_like(logits, dtype=torch.bool).scatter(1, said, True)
    repeated[:, pad] = False
    return torch.where(repeated, torch.where(logits < 0, logits * penalty, logits / penalty), logits)


def forbid_repeated_ngrams(logits: Logits, said: Said, size: int) -> Logits:
    """Without the tokens that would complete `size` tokens in a row which were said before (Paulus et al., 2018, 2.5).

    What was said is padded before its first token.
    """
    if said.shape[1] < size:
        return logits
    ngrams = said.unfold(1, size, 1)
    latest = said[:, said.shape[1] - size + 1 :]
    repeats = (ngrams[..., :-1] == latest[:, None]).all(dim=-1)
    counts = torch.zeros_like(logits, dtype=torch.long).scatter_add(1, ngrams[..., -1], repeats.long())
    return logits.masked_fill(counts > 0, -math.inf)


def _first_in(order: Int[Tensor, "rows vocabulary"], logits: Logits, mass: float) -> Logits:
    """The fewest tokens at the head of an order whose probabilities add up to `mass`."""
    exact = logits if logits.device.type == "mps" else logits.double()  # Apple's devices have no double precision
    probabilities = exact.softmax(dim=-1).gather(1, order)
    before = probabilities.cumsum(dim=-1) - probabilities
    kept = torch.zeros_like(before, dtype=torch.bool).scatter(1, order, before < mass)
    return logits.masked_fill(~kept, -math.inf)
