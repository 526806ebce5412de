"""Options of the calls that generate: how to sample or search, and limits."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, TypeVar, final

from dragoman.data.tokenizers import LanguageTokenizer
from dragoman.decoding.config import (
    MAX_BEAM_SIZE,
    DecodingConfig,
    EndTokens,
    SamplingConfig,
    SuppressTokens,
    replace_options,
    require_config,
    require_end_tokens,
    require_options,
)
from dragoman.errors import ConfigError
from dragoman.inference.length_batches import check_positive, one_or_more_texts

MAX_NEW_TOKENS = 256
"""Default limit of a completion."""
MAX_SAMPLES = MAX_BEAM_SIZE
"""Samples of a prompt, which are in memory at once, so that a service can pass the option on."""
MAX_ALTERNATIVES = 20
"""Most probable tokens that are recorded with each token."""

GenerationConfig = SamplingConfig | DecodingConfig
_G = TypeVar("_G", SamplingConfig, DecodingConfig, GenerationConfig)


class SamplingOptions(TypedDict, total=False):
    """Options of a sample, which replace those of its `SamplingConfig`; None has no effect."""

    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    typical_p: float | None
    repetition_penalty: float | None
    no_repeat_ngram_size: int | None
    min_length: int | None
    allow_unk: bool | None
    seed: int | None
    end_tokens: EndTokens | None
    suppress_tokens: SuppressTokens | None


class GenerationOptions(SamplingOptions, total=False):
    """Keyword arguments of all calls that generate.

    The default of `max_new_tokens` is `MAX_NEW_TOKENS`. `alternatives` is the number of most probable tokens that are
    recorded with each sampled token, at most `MAX_ALTERNATIVES`, in `Completion.generated`.
    """

    max_new_tokens: int | None
    stop: str | Iterable[str] | None
    alternatives: int | None


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the completions of a prompt: number of tokens, stop strings that they end before, and samples."""

    max_new_tokens: int = MAX_NEW_TOKENS
    stop: Sequence[str] = ()
    num_samples: int = 1
    alternatives: int = 0
    """Most probable tokens that are recorded with each token."""


@final
@dataclass(frozen=True)
class OptionReader:
    """Reads the options of the calls of one generator, and checks them."""

    defaults: SamplingConfig
    tokenizer: LanguageTokenizer
    context: int

    def read(
        self, config: _G, options: GenerationOptions, *, num_samples: int = 1, others: Sequence[str] = ()
    ) -> tuple[_G, Limits]:
        """Return the configuration with the options of a call, and its limits; `others` are its further parameters."""
        require_config(config, SamplingConfig, DecodingConfig)
        known = [*GenerationOptions.__annotations__, *others]
        for name, value in options.items():
            if name in DecodingConfig.model_fields and name not in known:
                raise ConfigError(f"{name}: belongs to a search. Give the config DecodingConfig({name}={value!r}).")
        require_options(options, known)
        given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
        stop = one_or_more_texts(given.pop("stop", ()), name="stop")
        limits = Limits(given.pop("max_new_tokens", MAX_NEW_TOKENS), stop, num_samples, given.pop("alternatives", 0))
        if given and isinstance(config, DecodingConfig):
            raise ConfigError(f"{next(iter(given))} has no effect on a search; remove it, or give a SamplingConfig")
        config = self._with_model_tokens(replace_options(config, given))
        return config, self._check_limits(limits, config)

    def _with_model_tokens(self, config: _G) -> _G:
        """Return the configuration with the tokens that end outputs, those that no output has, and the shortest search.

        Raises ConfigError if the vocabulary lacks one.
        """
        ends = tuple(dict.fromkeys((*config.end_tokens, *self.defaults.end_tokens)))
        never = tuple(dict.fromkeys((*config.suppress_tokens, *self.defaults.suppress_tokens)))
        changes: dict[str, Any] = {"end_tokens": ends, "suppress_tokens": never}
        if isinstance(config, DecodingConfig):
            changes["min_length"] = max(config.min_length, self.defaults.min_length)
        if any(getattr(config, name) != value for name, value in changes.items()):
            config = config.model_copy(update=changes)
        require_end_tokens(config, len(self.tokenizer))
        return config

    def _check_limits(self, limits: Limits, config: GenerationConfig) -> Limits:
        """Return the limits, checked against the configuration and the model."""
        stop, most, num_samples = limits.stop, limits.max_new_tokens, limits.num_samples
        check_positive(max_new_tokens=most, num_samples=num_samples)
        count = limits.alternatives
        if not isinstance(count, int) or not 0 <= count <= MAX_ALTERNATIVES:
            raise ConfigError(f"alternatives = {count!r}: choose a whole number from 0 to {MAX_ALTERNATIVES}")
        if num_samples > MAX_SAMPLES:
            raise ConfigError(
                f"num_samples = {num_samples}: at most {MAX_SAMPLES} samples are drawn at once; "
                "call again with another seed for more"
            )
        if config.min_length > most:
            raise ConfigError(
                f"min_length = {config.min_length} is above max_new_tokens = {most}; raise max_new_tokens"
            )
        if isinstance(config, DecodingConfig):
            self._check_search(config, limits)
        elif num_samples > 1 and config.temperature == 0:
            raise ConfigError(f"num_samples = {num_samples}: with temperature = 0 all samples are the same; choose 1")
        for one in stop:
            if not self.can_generate(one):
                raise ConfigError(
                    f"stop = {one!r}: the tokenizer of this model never generates it (it is empty, or its white space, "
                    "casing or Unicode form is normalized); remove it"
                )
        return limits

    def _check_search(self, config: DecodingConfig, limits: Limits) -> None:
        for name in ("max_length", "max_length_ratio", "max_length_offset"):
            if getattr(config, name) != DecodingConfig.model_fields[name].default:
                raise ConfigError(f"{name} has no effect on a completion; set max_new_tokens instead")
        for name in ("repetition_penalty", "no_repeat_ngram_size"):
            if (value := getattr(self.defaults, name)) != SamplingConfig.model_fields[name].default:
                raise ConfigError(
                    f"{name} = {value}, which this model asks for, has no effect on a search. Sample instead (with "
                    "temperature 0 for the most probable token)."
                )
        if limits.max_new_tokens >= self.context:
            raise ConfigError(
                f"max_new_tokens = {limits.max_new_tokens}: a search keeps its hypotheses in the context of "
                f"{self.context} tokens, prompt included; choose {self.context - 1} at most, "
                "or sample (with temperature 0 for the most probable token)"
            )
        if limits.alternatives:
            raise ConfigError("alternatives has no effect on a search; remove it, or sample (with temperature 0)")
        if (count := limits.num_samples) > 1:
            raise ConfigError(f"num_samples = {count} has no effect on a search; set n_best = {count} instead")

    def can_generate(self, text: str) -> bool:
        """Return whether outputs may contain a text, which the tokenizer may normalize."""
        return bool(text) and text in self.tokenizer.normalize(f"x{text}x")
