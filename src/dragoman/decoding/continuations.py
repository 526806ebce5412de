"""One step of a search: which hypotheses are the best when each is made one symbol longer."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dragoman.errors import RunError
from dragoman.models.interfaces import Symbols
from dragoman.shapes import Lengths, StepLogits

CACHED_ROWS = 64
"""Rows of logits that a CPU normalises at a time: what it writes on the way stays in its cache, twice as fast."""


@dataclass(frozen=True)
class Continuations:
    """Hypotheses by their last symbol, best first; impossible ones have a log-probability of minus infinity."""

    tokens: Int[Tensor, "batch width"]
    parents: Int[Tensor, "batch width"]
    token_log_probs: Float[Tensor, "batch width"]
    log_probs: Float[Tensor, "batch width"]

    def take(self, places: Int[Tensor, "batch taken"]) -> Self:
        """Those at the given places of each sentence."""
        return type(self)(
            self.tokens.gather(1, places),
            self.parents.gather(1, places),
            self.token_log_probs.gather(1, places),
            self.log_probs.gather(1, places),
        )

    def keep(self, rows: Int[Tensor, " kept"]) -> Self:
        """Those of these sentences alone."""
        return type(self)(self.tokens[rows], self.parents[rows], self.token_log_probs[rows], self.log_probs[rows])


def begin(first: Int[Tensor, " batch"], beam: int) -> Continuations:
    """One hypothesis for each sentence, which is its first token, and `beam - 1` impossible ones."""
    log_probs = torch.full((len(first), beam), -math.inf, device=first.device)
    log_probs[:, 0] = 0.0
    tokens = first[:, None].repeat(1, beam)
    return Continuations(tokens, torch.zeros_like(tokens), torch.zeros_like(log_probs), log_probs)


def first_tokens(limits: Lengths, first: Int[Tensor, " batch"] | None, *, symbols: Symbols) -> Int[Tensor, " batch"]:
    """What each output goes on from: the tokens given, or the begin symbol."""
    return torch.full_like(limits, symbols.begin) if first is None else first


def forbidden(age: int, *, minimum_length: int, allow_unknown: bool, symbols: Symbols) -> list[int]:
    """The symbols that may not follow hypotheses of `age` tokens."""
    never = [symbols.pad, symbols.begin]
    return never + [symbols.unknown] * (not allow_unknown) + [symbols.end] * (age < minimum_length)


def best_continuations(
    logits: StepLogits, so_far: Float[Tensor, "batch beam"], *, width: int, forbidden: Sequence[int] = ()
) -> Continuations:
    """The `width` best (parent, token) pairs of each sentence, best first; of equals the lower token, then parent.

    Forbidden tokens keep their share of the probability, so that a log-probability is the one forced decoding gives.
    Raises RunError when the logits are not numbers.
    """
    beam = logits.shape[1]
    normaliser = log_normaliser(logits)
    values, tokens = largest(logits, width + len(forbidden))
    token_log_probs = values.float() - normaliser[..., None]
    for symbol in forbidden:
        token_log_probs = token_log_probs.masked_fill(tokens == symbol, -math.inf)
    totals = (so_far[..., None] + token_log_probs).flatten(1)
    parents = torch.arange(beam, device=logits.device)[:, None].expand_as(tokens).flatten(1)
    tokens = tokens.flatten(1)
    by_token = (tokens * beam + parents).argsort(dim=1)
    by_total = totals.gather(1, by_token).argsort(dim=1, descending=True, stable=True)
    every = Continuations(tokens, parents, token_log_probs.flatten(1), totals)
    return every.take(by_token.gather(1, by_total[:, :width]))


def log_normaliser(logits: StepLogits) -> Float[Tensor, "batch beam"]:
    """log sum exp of the logits in 32 bits. Raises RunError when it is not finite."""
    rows = logits.flatten(0, 1)
    blocks = rows.split(CACHED_ROWS) if rows.device.type == "cpu" else (rows,)
    normaliser = torch.cat([block.float().logsumexp(dim=-1) for block in blocks]).view(logits.shape[:2])
    if not bool(normaliser.isfinite().all()):
        raise RunError(
            "the network's logits are not finite numbers: its weights are damaged, or overflow in this precision; "
            "check the model's training, or take an earlier checkpoint"
        )
    return normaliser


def largest(
    values: Float[Tensor, "batch beam vocabulary"], count: int
) -> tuple[Float[Tensor, "batch beam count"], Int[Tensor, "batch beam count"]]:
    """The `count` largest values with their places (all, when there are fewer), in no certain order.

    Of values equal to the least taken one, those at lower places are taken; `torch.topk` leaves that open.
    """
    vocabulary = values.shape[-1]
    if count >= vocabulary:
        return values, torch.arange(vocabulary, device=values.device).expand_as(values)
    one_more, places = values.topk(count + 1)
    top, places = one_more[..., :count], places[..., :count]
    tied = (top[..., -1] == one_more[..., -1]) & (top[..., -1] > -math.inf)
    if bool(tied.any()):
        exact = values[tied].argsort(dim=-1, descending=True, stable=True)[:, :count]
        top[tied], places[tied] = values[tied].gather(1, exact), exact
    return top, places


def going_on(candidates: Continuations, *, beam: int, end: int) -> Continuations:
    """The `beam` best that do not end."""
    ends: Bool[Tensor, "batch width"] = candidates.tokens == end
    return candidates.take(ends.byte().argsort(dim=1, stable=True)[:, :beam])
