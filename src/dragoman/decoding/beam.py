"""Beam search.

At each step the `beam` best continuations of a sentence are looked at: those that end are set aside, never to move
again, and the best `beam` that do not end go on. A sentence is over

- when `beam` hypotheses have ended (hence a beam of one is greedy search),
- when no open hypothesis can enter the `best` ones any more, whatever it goes on with (this changes no result), or
- at its limit. What is open there is cut off, and returned behind the finished hypotheses if these are too few.

Sentences that are over leave the batch.
"""

import itertools
import math
from dataclasses import dataclass, replace
from typing import Generic, Self

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from dragoman.decoding.config import SearchSettings
from dragoman.decoding.continuations import (
    Continuations,
    begin,
    best_continuations,
    first_tokens,
    forbidden,
    going_on,
)
from dragoman.decoding.endings import Endings, Trail, cut_off, ended
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.penalties import attainable
from dragoman.models.interfaces import M, S, Stepper, Symbols
from dragoman.shapes import Lengths


@dataclass(frozen=True)
class _Sentences(Generic[M, S]):
    """The sentences still searched for: `rows` of all that there were."""

    rows: Int[Tensor, " kept"]
    limits: Int[Tensor, " kept"]
    memory: M
    state: S
    hypotheses: Continuations
    endings: Endings

    def keep(self, rows: Int[Tensor, " chosen"]) -> Self:
        """These sentences alone."""
        return type(self)(
            self.rows[rows],
            self.limits[rows],
            self.memory.keep(rows),
            self.state.keep(rows),
            self.hypotheses.keep(rows),
            self.endings.keep(rows),
        )


@torch.inference_mode()
def beam_search(
    model: Stepper[M, S],
    memory: M,
    *,
    limits: Lengths,
    settings: SearchSettings,
    symbols: Symbols,
    first: Int[Tensor, " batch"] | None = None,
) -> list[list[Hypothesis]]:
    """The `settings.best` best hypotheses for each sentence of the memory, best first.

    `limits` are the most tokens of an output of each sentence, the end symbol not counted. `first` are the tokens that
    the outputs go on from (the last ones of prompts), which are no part of them; the begin symbol without it. Raises
    RunError when logits are not numbers.
    """
    sentences = _start(
        model, memory, limits=limits, settings=settings, first=first_tokens(limits, first, symbols=symbols)
    )
    trail = Trail(len(limits))
    left: list[tuple[Tensor, Endings]] = []
    for age in itertools.count():
        sentences = _step(model, sentences, age, settings=settings, symbols=symbols)
        trail.append(sentences.rows, sentences.hypotheses)
        over = _over(sentences, age, settings=settings)
        if bool(over.any()):
            left.append((sentences.rows[over], sentences.endings.keep(over.nonzero()[:, 0])))
            if bool(over.all()):
                break
            sentences = sentences.keep((~over).nonzero()[:, 0])
        sentences = replace(sentences, state=sentences.state.select(sentences.hypotheses.parents))
    return [found[: settings.best] for found in trail.follow(_in_order(left))]


def _start(
    model: Stepper[M, S],
    memory: M,
    *,
    limits: Lengths,
    settings: SearchSettings,
    first: Int[Tensor, " batch"],
) -> _Sentences[M, S]:
    rows = torch.arange(len(limits), device=limits.device)
    state = model.start(memory, beam=settings.beam)
    hypotheses = begin(first, settings.beam)
    nowhere = torch.zeros_like(hypotheses.tokens, dtype=torch.bool)
    none = cut_off(hypotheses, 0, where=nowhere, normalisation=settings.normalisation)
    return _Sentences(rows, limits, memory, state, hypotheses, none)


def _step(
    model: Stepper[M, S], sentences: _Sentences[M, S], age: int, *, settings: SearchSettings, symbols: Symbols
) -> _Sentences[M, S]:
    """Every hypothesis of `age` tokens one symbol longer, and what ends or is cut off among the endings.

    The state is not yet that of the chosen parents, so that sentences can leave before it is rearranged.
    """
    logits, state = model.step(sentences.hypotheses.tokens, sentences.memory, sentences.state)
    never = forbidden(
        age, minimum_length=settings.minimum_length, allow_unknown=settings.allow_unknown, symbols=symbols
    )
    so_far = sentences.hypotheses.log_probs
    candidates = best_continuations(logits, so_far, width=2 * settings.beam, forbidden=never)
    longer = going_on(candidates, beam=settings.beam, end=symbols.end)
    stuck = (sentences.limits <= age) | (longer.log_probs[:, 0] == -math.inf)
    scoring = settings.normalisation
    finished = ended(candidates, age, beam=settings.beam, end=symbols.end, normalisation=scoring)
    endings = sentences.endings.merge(finished)
    if bool(stuck.any()):
        left_open = stuck[:, None] & ~finished.from_beams()
        endings = endings.merge(cut_off(sentences.hypotheses, age, where=left_open, normalisation=scoring))
    return replace(sentences, hypotheses=longer, state=state, endings=endings)


def _over(sentences: _Sentences[M, S], age: int, *, settings: SearchSettings) -> Bool[Tensor, " kept"]:
    """The sentences of which every place to be returned is decided; their hypotheses now have `age + 1` tokens."""
    endings, open_ = sentences.endings, sentences.hypotheses.log_probs.amax(dim=1)
    shortest = max(age + 1, settings.minimum_length) + 1
    best_to_come = attainable(
        open_,
        shortest=torch.full_like(sentences.limits, shortest),
        longest=sentences.limits + 1,
        normalisation=settings.normalisation,
    )
    enough = endings.finished[:, settings.best - 1]
    beaten = enough & (best_to_come <= endings.scores[:, settings.best - 1])
    stuck = (sentences.limits <= age) | (open_ == -math.inf)
    return endings.finished.all(dim=1) | beaten | stuck


def _in_order(left: list[tuple[Tensor, Endings]]) -> Endings:
    """The endings of all sentences in their first order."""
    rows = torch.cat([rows for rows, _ in left])
    endings = left[0][1]
    for _, later in left[1:]:
        endings = endings.join(later)
    return endings.keep(rows.argsort())
