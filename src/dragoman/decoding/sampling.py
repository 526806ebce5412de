"""Drawing outputs by chance.

Chance is one number from 0 up to 1 for each token, for which the token is read off the cumulative distribution. The
number for token `n` of an output depends on the seed, on the output's own numbers and on `n` alone, never on what else
is in the batch.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Self

import numpy as np
import torch
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor

from dragoman.config import Config
from dragoman.decoding import logits_processors
from dragoman.decoding.beam_candidates import forbidden
from dragoman.decoding.config import Average
from dragoman.decoding.greedy_state import hypothesis_of
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.log_softmax import log_normaliser
from dragoman.decoding.logits_processors import Logits, Said
from dragoman.models.protocols import M, S, Stepper
from dragoman.models.special_symbols import Symbols
from dragoman.shapes import Lengths
from dragoman.typing import Float, Int

LEAST_TEMPERATURE = 1e-4
"""Below this, but for 0, logits divided by the temperature are no numbers any more."""


class SamplingSettings(Config):
    """How outputs are drawn; what changes the distribution is applied in this order."""

    repetition_penalty: float = Field(default=1.0, gt=0, description="divides logits of tokens already said; 1: none")
    no_repeat_ngram: PositiveInt | None = Field(default=None, description="so many tokens in a row never stand twice")
    temperature: float = Field(default=1.0, ge=0, description="divides logits; 0 takes the most probable token")
    top_k: PositiveInt | None = Field(default=None, description="draw from the so many most probable tokens")
    top_p: float | None = Field(default=None, gt=0, lt=1, description="draw from the fewest that have this probability")
    min_p: float | None = Field(default=None, gt=0, le=1, description="least probability, as a share of the greatest")
    typical: float | None = Field(default=None, gt=0, lt=1, description="draw from the most typical with this share")
    minimum_length: int = Field(default=0, ge=0, description="fewest tokens of an output")
    allow_unknown: bool = Field(default=False, description="let the unknown symbol stand in an output")
    seed: int = Field(default=0, ge=0, lt=2**64, description="the same seed draws the same outputs")

    @property
    def looks_back(self) -> bool:
        """Whether what was said before matters to them."""
        return self.repetition_penalty != 1 or self.no_repeat_ngram is not None

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        if 0 < self.temperature < LEAST_TEMPERATURE:
            raise ValueError(
                f"temperature = {self.temperature} is too small to divide by; give 0 for the most probable token each "
                f"time, or {LEAST_TEMPERATURE} or more"
            )
        if self.temperature == 0:
            for name in ("top_k", "top_p", "min_p", "typical"):
                if getattr(self, name) is not None:
                    raise ValueError(
                        f"{name} has no effect with temperature = 0, which takes the most probable token; leave {name} "
                        "out, or raise the temperature"
                    )
        return self


@dataclass(frozen=True)
class Beginnings:
    """What outputs go on from, one row each."""

    first: Int[Tensor, " batch"]
    """The first token that the network is given, which is no part of the output."""
    said: Said
    """What counts as said before, for what looks back on it; padded before its first token."""
    numbers: tuple[tuple[int, int], ...]
    """The numbers of an output, of which and of the seed alone its draws are made, such as its prompt's and its own."""

    def keep(self, rows: Int[Tensor, " kept"]) -> Self:
        """Those of these outputs alone."""
        return type(self)(self.first[rows], self.said[rows], tuple(self.numbers[row] for row in rows.tolist()))


@dataclass(frozen=True, slots=True)
class Drawn:
    """A token of the output in a row, the end symbol too, with the log-probability that the network gives it."""

    row: int
    token: int
    log_prob: float


@dataclass(frozen=True)
class _Open(Generic[M, S]):
    """The outputs still drawn: `rows` of all that there were. What was drawn last is `beginnings.first`."""

    rows: Int[Tensor, " kept"]
    limits: Int[Tensor, " kept"]
    memory: M
    state: S
    beginnings: Beginnings

    def keep(self, rows: Int[Tensor, " chosen"]) -> Self:
        """These outputs alone."""
        return type(self)(
            self.rows[rows],
            self.limits[rows],
            self.memory.keep(rows),
            self.state.keep(rows),
            self.beginnings.keep(rows),
        )


def sample(
    model: Stepper[M, S],
    memory: M,
    *,
    limits: Lengths,
    settings: SamplingSettings,
    symbols: Symbols,
    beginnings: Beginnings | None = None,
) -> list[list[Hypothesis]]:
    """One output drawn for each row of the memory, in the form that `search` gives; its score is the mean log_prob.

    `limits` are the most tokens of each output, the end symbol not counted. Without `beginnings` outputs begin with the
    begin symbol and are numbered by their rows. Raises RunError when logits are not numbers.
    """
    outputs: list[list[tuple[int, float]]] = [[] for _ in range(len(limits))]
    for step in draw(model, memory, limits=limits, settings=settings, symbols=symbols, beginnings=beginnings):
        for one in step:
            outputs[one.row].append((one.token, one.log_prob))
    return [[hypothesis_of(output, Average(), symbols=symbols)] for output in outputs]


def draw(
    model: Stepper[M, S],
    memory: M,
    *,
    limits: Lengths,
    settings: SamplingSettings,
    symbols: Symbols,
    beginnings: Beginnings | None = None,
    is_over: Callable[[int, int], bool] = lambda _row, _token: False,
) -> Iterator[list[Drawn]]:
    """What `sample` draws, token by token: one list a step, in the order of the rows; rows that are over are not in it.

    A row is over with its end symbol, when it has as many tokens as its limit and the next is not the end symbol, when
    no token is possible, and when `is_over` says so, which is asked with the row and each token but the end symbol.
    """
    beginnings = beginnings or _plain(limits, symbols)
    rows = torch.arange(len(limits), device=limits.device)
    outputs = _Open(rows, limits, memory, _start(model, memory), beginnings)
    for age in itertools.count():
        outputs, step = _step(model, outputs, age, settings=settings, symbols=symbols)
        going = [one.token != symbols.end and not is_over(one.row, one.token) for one in step]
        if step:
            yield step
        if not any(going):
            return
        if len(going) < len(outputs.rows) or not all(going):
            on = {one.row for one, goes in zip(step, going, strict=True) if goes}
            outputs = _left(outputs, [place for place, row in enumerate(outputs.rows.tolist()) if row in on])


def pick(
    logits: Logits, *, said: Said, never: Sequence[int], uniforms: Sequence[float], settings: SamplingSettings, pad: int
) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
    """The next token of each row and its log-probability before all filters; minus infinity where none is possible.

    `never` are tokens that may not follow; `uniforms` are the draws, one a row, which temperature 0 does not look at.
    """
    normaliser = log_normaliser(logits[:, None])[:, 0]
    possible = logits.float().index_fill(1, torch.tensor(never, device=logits.device, dtype=torch.long), -math.inf)
    possible = filtered(possible, said, settings=settings, pad=pad)
    tokens = possible.argmax(dim=-1) if settings.temperature == 0 else read_off(possible, uniforms)
    log_probs = logits.gather(1, tokens[:, None])[:, 0].float() - normaliser
    return tokens, log_probs.masked_fill(possible.amax(dim=-1) == -math.inf, -math.inf)


def filtered(logits: Logits, said: Said, *, settings: SamplingSettings, pad: int) -> Logits:
    """The logits of the distribution that settings draw from."""
    if settings.repetition_penalty != 1:
        logits = logits_processors.penalise_repetition(logits, said, settings.repetition_penalty, pad=pad)
    if settings.no_repeat_ngram is not None:
        logits = logits_processors.forbid_repeated_ngrams(logits, said, settings.no_repeat_ngram)
    if settings.temperature not in (0, 1):
        logits = logits_processors.with_temperature(logits, settings.temperature)
    if settings.top_k is not None:
        logits = logits_processors.top_k(logits, settings.top_k)
    if settings.top_p is not None:
        logits = logits_processors.top_p(logits, settings.top_p)
    if settings.min_p is not None:
        logits = logits_processors.min_p(logits, settings.min_p)
    if settings.typical is not None:
        logits = logits_processors.typical(logits, settings.typical)
    return logits


def read_off(logits: Logits, uniforms: Sequence[float]) -> Int[Tensor, " rows"]:
    """For each row the token at which the cumulative distribution first exceeds the number, from 0 up to 1."""
    exact = logits.cpu() if logits.device.type == "mps" else logits  # Apple's devices have no double precision
    cumulative = exact.double().softmax(dim=-1).cumsum(dim=-1)
    numbers = torch.tensor(uniforms, dtype=torch.double, device=cumulative.device)[:, None] * cumulative[:, -1:]
    tokens = torch.searchsorted(cumulative, numbers, right=True)[:, 0]
    return tokens.clamp(max=logits.shape[1] - 1).to(logits.device)


def uniform(seed: int, numbers: tuple[int, int], step: int) -> float:
    """A number from 0 up to 1, made of its arguments alone by the Philox generator (Salmon et al., 2011)."""
    first, second = numbers
    key = np.array([seed, first], dtype=np.uint64)
    counter = np.array([step, second, 0, 0], dtype=np.uint64)
    return (int(np.random.Philox(key=key, counter=counter).random_raw()) >> 11) * 2.0**-53


@torch.inference_mode()
def _start(model: Stepper[M, S], memory: M) -> S:
    return model.start(memory, beam=1)


@torch.inference_mode()
def _step(
    model: Stepper[M, S], outputs: _Open[M, S], age: int, *, settings: SamplingSettings, symbols: Symbols
) -> tuple[_Open[M, S], list[Drawn]]:
    """Every output of `age` tokens one token longer, and what was drawn, but for those that may not go on."""
    before = outputs.beginnings
    logits, state = model.step(before.first[:, None], outputs.memory, outputs.state)
    tokens, log_probs = pick(
        logits[:, 0],
        said=before.said,
        never=forbidden(
            age, minimum_length=settings.minimum_length, allow_unknown=settings.allow_unknown, symbols=symbols
        ),
        uniforms=[uniform(settings.seed, numbers, age) for numbers in before.numbers],
        settings=settings,
        pad=symbols.pad,
    )
    cut = ((outputs.limits <= age) & (tokens != symbols.end)) | (log_probs == -math.inf)
    columns = zip(*(part.tolist() for part in (outputs.rows, tokens, log_probs, cut)), strict=True)
    drawn = [Drawn(row, token, log_prob) for row, token, log_prob, over in columns if not over]
    after = Beginnings(tokens, torch.cat([before.said, tokens[:, None]], dim=1), before.numbers)
    return _Open(outputs.rows, outputs.limits, outputs.memory, state, after), drawn


@torch.inference_mode()
def _left(outputs: _Open[M, S], places: list[int]) -> _Open[M, S]:
    return outputs.keep(torch.tensor(places, device=outputs.rows.device))


def _plain(limits: Lengths, symbols: Symbols) -> Beginnings:
    first = torch.full_like(limits, symbols.begin)
    return Beginnings(first, first[:, None], tuple((row, 0) for row in range(len(limits))))
