"""Configuration of beam search, of sampling and of the selection of answers."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import ConfigDict, Field, NonNegativeInt, PositiveInt, Strict, field_validator, model_validator

from dragoman.config import Config, parse
from dragoman.errors import ConfigError
from dragoman.option_synonyms import describe_unknown_option

MAX_BEAM_SIZE = 1000
"""Hypotheses per beam; more need minutes per sentence and are no better, so that a service can pass the option on."""
MAX_LENGTH = 100_000
"""Maximum of the length limits: a translation of a book."""
MAX_LENGTH_PENALTY = 20.0
"""Largest exponent of a length penalty; all scores stay normal numbers of float64 up to it."""
DEFAULT_PENALTIES = {"average": 1.0, "gnmt": 0.6, "none": 0.0}

LengthPenaltyKind = Literal["average", "gnmt", "none"]
DecodingMethod = Literal["beam_search", "mbr"]
CutOff = Literal["last", "ranked", "ended"]
Real = Annotated[float, Strict(False)]
"""Number, also as text, which YAML makes of `1e-2`."""
EndTokens = Annotated[tuple[NonNegativeInt, ...], Strict(False), Field(max_length=64)]
SuppressTokens = Annotated[tuple[NonNegativeInt, ...], Strict(False), Field(max_length=4096)]
FILTERS = ("top_k", "top_p", "min_p", "typical_p")
"""Options of sampling without effect on the most probable token."""


class _StrictConfig(Config):
    """Settings that Python programs give: a truth value or text is no integer."""

    model_config = ConfigDict(strict=True)


@dataclass(frozen=True)
class LengthPenalty:
    r"""Length normalization of hypothesis scores.

    - `average`: $\log p(y) / |y|^\alpha$; `alpha` 1 is the mean per token, a greater one favors long outputs.
    - `gnmt`: $\log p(y) / ((5 + |y|) / 6)^\alpha$ (Wu et al., 2016, equation 14, without the coverage penalty).
    - `none`: $\log p(y)$, which favors short outputs.
    """

    kind: LengthPenaltyKind = "average"
    alpha: float = 1.0


AVERAGE_LOG_PROB = LengthPenalty()


class DecodingConfig(_StrictConfig):
    """Beam search: beam, ranking and length limits.

    Length limits do not count the end symbol, and the length penalty does.
    """

    beam_size: PositiveInt = Field(default=5, le=MAX_BEAM_SIZE, description="hypotheses per sentence; 1 is greedy")
    n_best: PositiveInt = Field(
        default=1, le=MAX_BEAM_SIZE, description="hypotheses returned per sentence; at most beam_size"
    )
    length_penalty: Real | None = Field(
        default=None,
        le=MAX_LENGTH_PENALTY,
        description="exponent of the length penalty, not negative; by default 1 for average and 0.6 for gnmt",
    )
    length_penalty_kind: LengthPenaltyKind = Field(
        default="average",
        description="divide log-probabilities by length^alpha (average), by the GNMT penalty, or by nothing (none)",
    )
    method: DecodingMethod = Field(
        default="beam_search", description="return the hypotheses of best score, or by minimum Bayes risk (mbr)"
    )
    mbr_temperature: Real = Field(
        default=1.0, ge=0.01, le=100, description="divides log-probabilities for mbr; higher is closer to uniform"
    )
    min_length: int = Field(default=0, ge=0, le=MAX_LENGTH, description="fewest tokens of an output")
    max_length: PositiveInt = Field(default=2000, le=MAX_LENGTH, description="most tokens of an output, for any source")
    max_length_ratio: Real = Field(default=2.0, ge=0, description="most output tokens per source token")
    max_length_offset: int = Field(default=20, ge=0, description="added to max_length_ratio times the source length")
    allow_unk: bool = Field(default=True, description="allow the unknown symbol in outputs")
    renormalize: bool = Field(
        default=False,
        description="before min_length, divide the probability of the end symbol among the other tokens, as in "
        "CTranslate2, instead of leaving their probabilities alone",
    )
    early_stopping: bool = Field(
        default=False,
        description="stop when beam_size hypotheses are finished, as CTranslate2 and fairseq do; false: only when, "
        "besides, the best open one would score no better than any of them at its present length",
    )
    keep_greedy: bool = Field(
        default=True,
        description="keep the output of greedy search in the beam, so that no translation scores lower",
    )
    cut_off: CutOff = Field(
        default="last",
        description="outputs of a beam at their length limit: returned after finished ones (last), ranked with them "
        "(ranked), or ranked with an end symbol that costs nothing (ended)",
    )
    end_tokens: EndTokens = Field(default=(), description="ids of tokens that end an output as the end symbol does")
    suppress_tokens: SuppressTokens = Field(default=(), description="ids of tokens that no output has")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.n_best > self.beam_size:
            raise ValueError(
                f"n_best = {self.n_best} is more than a beam of {self.beam_size} returns; "
                f"raise beam_size to {self.n_best}"
            )
        if self.min_length > self.max_length:
            raise ValueError(
                f"min_length = {self.min_length} is above max_length = {self.max_length}; lower one or raise the other"
            )
        if self.length_penalty is not None and self.length_penalty < 0:
            raise ValueError(
                f"length_penalty = {self.length_penalty} is negative and would favor short outputs more than their "
                "log-probabilities do; choose 0 or more, or length_penalty_kind = none without length_penalty"
            )
        if self.length_penalty_kind == "none" and self.length_penalty is not None:
            raise ValueError(
                f"length_penalty = {self.length_penalty} has no effect with length_penalty_kind = none; remove one"
            )
        return self

    @property
    def penalty(self) -> LengthPenalty:
        """The length penalty that ranks hypotheses."""
        kind = self.length_penalty_kind
        return LengthPenalty(kind, DEFAULT_PENALTIES[kind] if self.length_penalty is None else self.length_penalty)

    def describe(self) -> str:
        """Return the settings that reproduce outputs: beam, length penalty, and all that differ from the defaults."""
        alpha = {} if self.length_penalty_kind == "none" else {"length_penalty": self.penalty.alpha}
        shown = {"beam_size": self.beam_size, **alpha, "length_penalty_kind": self.length_penalty_kind}
        shown |= {name: value for name, value in self.model_dump(exclude_defaults=True).items() if name not in shown}
        return ", ".join(f"{name} {value}" for name, value in shown.items())

    @property
    def num_candidates(self) -> int:
        """Finished hypotheses that the search needs before it can choose the `n_best`."""
        return self.n_best if self.method == "beam_search" else self.beam_size

    def output_limit(self, source_length: int) -> int:
        """Return the most output tokens for a source of `source_length` tokens, at least 1 and `min_length`."""
        limit = min(self.max_length, math.floor(self.max_length_ratio * source_length) + self.max_length_offset)
        return max(1, self.min_length, limit)


MIN_TEMPERATURE = 1e-4
"""Logits divided by a lower temperature, 0 apart, overflow."""


class SamplingConfig(_StrictConfig):
    """Sampling of outputs; the filters apply in this order."""

    repetition_penalty: Real = Field(
        default=1.0, ge=0.01, le=100, description="divides logits of tokens already used; 1: none"
    )
    no_repeat_ngram_size: PositiveInt | None = Field(default=None, description="n-grams of this size never repeat")
    temperature: Real = Field(default=1.0, ge=0, description="divides logits; 0 takes the most probable token")
    top_k: PositiveInt | None = Field(default=None, description="sample from this many most probable tokens")
    top_p: Real | None = Field(
        default=None, gt=0, le=1, description="sample from the fewest tokens with this total probability; 1: off"
    )
    min_p: Real | None = Field(default=None, gt=0, le=1, description="least probability, relative to the greatest")
    typical_p: Real | None = Field(
        default=None, gt=0, le=1, description="sample from the most typical tokens with this total probability; 1: off"
    )
    min_length: int = Field(default=0, ge=0, le=MAX_LENGTH, description="fewest tokens of an output")
    allow_unk: bool = Field(default=False, description="allow the unknown symbol in outputs")
    seed: int = Field(default=0, ge=0, lt=2**64, description="seed of the random numbers")
    end_tokens: EndTokens = Field(default=(), description="ids of tokens that end an output as the end symbol does")
    suppress_tokens: SuppressTokens = Field(default=(), description="ids of tokens that no output has")

    @field_validator("top_p", "typical_p")
    @classmethod
    def _all_is_off(cls, value: float | None) -> float | None:
        return None if value == 1 else value

    @property
    def needs_context(self) -> bool:
        """True if the filters depend on earlier tokens."""
        return self.repetition_penalty != 1 or self.no_repeat_ngram_size is not None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if 0 < self.temperature < MIN_TEMPERATURE:
            raise ValueError(
                f"temperature = {self.temperature} is too small to divide by; choose 0 for the most probable token, or "
                f"{MIN_TEMPERATURE} or more"
            )
        if self.temperature == 0:
            for name in FILTERS:
                if getattr(self, name) is not None:
                    raise ValueError(
                        f"{name} has no effect with temperature = 0, which takes the most probable token; remove "
                        f"{name} or raise the temperature"
                    )
        return self


class AnswerConfig(_StrictConfig):
    """Choice of answers."""

    n_best: PositiveInt = Field(default=1, le=MAX_BEAM_SIZE, description="answers returned per question, best first")
    max_answer_length: PositiveInt = Field(default=30, le=MAX_LENGTH, description="most tokens of an answer")
    no_answer_threshold: Real | None = Field(
        default=None,
        description="return no answer where its log-probability exceeds that of the best answer by more than this; "
        "none: always return an answer",
    )


_C = TypeVar("_C", bound=Config)


def require_config(config: _C, *kinds: type[_C]) -> _C:
    """Return the configuration; raise TypeError where it is of no such kind."""
    if not isinstance(config, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"config = {config!r:.60} is no {names}. Give settings as keywords, or one of these objects.")
    return config


def require_end_tokens(config: DecodingConfig | SamplingConfig, vocabulary: int) -> None:
    """Raise ConfigError if an end token, or a suppressed one, is not in a vocabulary of this size."""
    for name, tokens in (("end_tokens", config.end_tokens), ("suppress_tokens", config.suppress_tokens)):
        if any(token >= vocabulary for token in tokens):
            raise ConfigError(
                f"{name} = {[*tokens]}: the vocabulary has the ids 0 to {vocabulary - 1}; choose among them"
            )


def require_options(options: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise ConfigError for a keyword argument that is not known."""
    for name in options:
        if name not in known:
            raise ConfigError(describe_unknown_option(name, known))


def replace_options(config: _C, options: Mapping[str, Any], *, where: str = "") -> _C:
    """Return the configuration with the options that are not None in place of its own.

    Raises ConfigError, whose message begins with `where`.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if not given:
        return config
    try:
        hash((config, *given.values()))
    except TypeError:  # an invalid value such as a list
        return _replace_options(config, given, where)
    replaced: _C = _replaced(config, where, tuple(given), *given.values())
    return replaced


@lru_cache(maxsize=256, typed=True)
def _replaced(config: Any, where: str, names: tuple[str, ...], *values: Any) -> Any:
    """Return the configuration of earlier calls with the same options: validation takes as long as a decoding step."""
    return _replace_options(config, dict(zip(names, values, strict=True)), where)


def _replace_options(config: _C, given: dict[str, Any], where: str) -> _C:
    tree = config.model_dump() | given
    if tree.get("length_penalty_kind") != getattr(config, "length_penalty_kind", None):
        tree["length_penalty"] = given.get("length_penalty")  # an exponent belongs to its kind
    if given.get("temperature") == 0:
        tree |= {name: given.get(name) for name in FILTERS if name in tree}  # filters belong to random tokens
    return parse(type(config), tree, where=where)
