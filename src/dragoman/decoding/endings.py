"""The hypotheses that a search may return, while it still goes on, and their tokens once it is over."""

import math
from dataclasses import dataclass, fields
from typing import Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dragoman.decoding.config import Normalisation
from dragoman.decoding.continuations import Continuations
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.penalties import normalised


@dataclass(frozen=True)
class Endings:
    """Places for the hypotheses to return: finished ones before cut-off ones, better before worse, empty places last.

    A hypothesis is named by its `ages` (its tokens, the end symbol not counted) and its place among the `beams` open at
    that age; an empty place has a log-probability of minus infinity.
    """

    scores: Float[Tensor, "batch places"]
    log_probs: Float[Tensor, "batch places"]
    end_log_probs: Float[Tensor, "batch places"]
    ages: Int[Tensor, "batch places"]
    beams: Int[Tensor, "batch places"]
    finished: Bool[Tensor, "batch places"]

    def merge(self, other: Self) -> Self:
        """The best of both in as many places as these; an earlier hypothesis goes before an equal later one."""
        both = self._zip(other, dim=1)
        by_score = both.scores.argsort(dim=1, descending=True, stable=True)
        by_kind = both.finished.gather(1, by_score).byte().argsort(dim=1, descending=True, stable=True)
        order = by_score.gather(1, by_kind[:, : self.scores.shape[1]])
        return type(self)(*(part.gather(1, order) for part in both._parts()))

    def from_beams(self) -> Bool[Tensor, "batch beam"]:
        """Of as many beams as places: those that a finished hypothesis here comes from."""
        beams = torch.arange(self.beams.shape[1], device=self.beams.device)
        return ((self.beams[..., None] == beams) & self.finished[..., None]).any(dim=1)

    def keep(self, rows: Int[Tensor, " kept"]) -> Self:
        """Those of these sentences alone."""
        return type(self)(*(part[rows] for part in self._parts()))

    def join(self, other: Self) -> Self:
        """These sentences and the others after them."""
        return self._zip(other, dim=0)

    def _zip(self, other: Self, *, dim: int) -> Self:
        pairs = zip(self._parts(), other._parts(), strict=True)
        return type(self)(*(torch.cat(pair, dim=dim) for pair in pairs))

    def _parts(self) -> list[Tensor]:
        return [getattr(self, field.name) for field in fields(self)]


def ended(candidates: Continuations, age: int, *, beam: int, end: int, normalisation: Normalisation) -> Endings:
    """Those of the `beam` best continuations of hypotheses of `age` tokens which are the end symbol."""
    best = candidates.take(torch.arange(beam, device=candidates.tokens.device).expand(len(candidates.tokens), beam))
    log_probs = best.log_probs.masked_fill(best.tokens != end, -math.inf)
    return _endings(log_probs, best.token_log_probs, age, best.parents, normalisation=normalisation, finished=True)


def cut_off(
    hypotheses: Continuations, age: int, *, where: Bool[Tensor, "batch beam"], normalisation: Normalisation
) -> Endings:
    """The hypotheses of `age` tokens which may not go on."""
    log_probs = hypotheses.log_probs.masked_fill(~where, -math.inf)
    beams = torch.arange(log_probs.shape[1], device=log_probs.device).expand_as(log_probs)
    return _endings(log_probs, torch.zeros_like(log_probs), age, beams, normalisation=normalisation, finished=False)


def _endings(
    log_probs: Float[Tensor, "batch places"],
    end_log_probs: Float[Tensor, "batch places"],
    age: int,
    beams: Int[Tensor, "batch places"],
    *,
    normalisation: Normalisation,
    finished: bool,
) -> Endings:
    ages = torch.full_like(beams, age)
    scores = normalised(log_probs, ages + int(finished), normalisation)
    real = log_probs > -math.inf
    return Endings(scores, log_probs, end_log_probs, ages, beams, real & finished)


class Trail:
    """The open hypotheses of every step, to read tokens from once the search is over. Rows are all sentences."""

    def __init__(self, sentences: int) -> None:
        self._sentences = sentences
        self._tokens: list[Int[Tensor, "batch beam"]] = []
        self._parents: list[Int[Tensor, "batch beam"]] = []
        self._log_probs: list[Float[Tensor, "batch beam"]] = []

    def append(self, rows: Int[Tensor, " kept"], hypotheses: Continuations) -> None:
        """Note what the hypotheses of the sentences still in the batch, which are these rows, went on with."""
        self._tokens.append(self._spread(rows, hypotheses.tokens))
        self._parents.append(self._spread(rows, hypotheses.parents))
        self._log_probs.append(self._spread(rows, hypotheses.token_log_probs))

    def _spread(self, rows: Int[Tensor, " kept"], values: Tensor) -> Tensor:
        if len(rows) == self._sentences:
            return values
        return values.new_zeros(self._sentences, values.shape[1]).index_copy(0, rows, values)

    def follow(self, endings: Endings) -> list[list[Hypothesis]]:
        """The hypotheses behind endings, one row for each sentence; empty places are left out."""
        places = endings.beams
        tokens, log_probs = [], []
        for age in reversed(range(int(endings.ages.max()))):
            tokens.append(self._tokens[age].gather(1, places))
            log_probs.append(self._log_probs[age].gather(1, places))
            places = torch.where(endings.ages > age, self._parents[age].gather(1, places), places)
        return _hypotheses(endings, _in_order(tokens, endings.ages), _in_order(log_probs, endings.log_probs))


def _in_order(newest_first: list[Tensor], like: Tensor) -> Tensor:
    return torch.stack([*newest_first[::-1]], dim=-1) if newest_first else like.new_zeros(*like.shape, 0)


def _hypotheses(
    endings: Endings, tokens: Int[Tensor, "batch places ages"], log_probs: Float[Tensor, "batch places ages"]
) -> list[list[Hypothesis]]:
    ids, token_log_probs = tokens.tolist(), log_probs.tolist()
    columns = [part.tolist() for part in (endings.scores, endings.log_probs, endings.end_log_probs)]
    scores, totals, ends = columns
    ages, finished = endings.ages.tolist(), endings.finished.tolist()

    def hypothesis(row: int, place: int) -> Hypothesis:
        age = ages[row][place]
        end = (ends[row][place],) if finished[row][place] else ()
        return Hypothesis(
            tokens=tuple(ids[row][place][:age]),
            log_prob=totals[row][place],
            score=scores[row][place],
            token_log_probs=(*token_log_probs[row][place][:age], *end),
            finished=finished[row][place],
        )

    return [
        [hypothesis(row, place) for place, total in enumerate(totals[row]) if total > -math.inf]
        for row in range(len(totals))
    ]
