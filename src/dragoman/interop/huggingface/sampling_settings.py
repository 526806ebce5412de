"""Special symbols and sampling of decoder-only models of transformers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from dragoman.decoding.config import SamplingConfig
from dragoman.errors import DataError, shorten
from dragoman.interop.huggingface.foreign_config import ForeignConfig
from dragoman.interop.huggingface.generation_settings import choose_end, end_notes, read_forbidden, read_ids
from dragoman.interop.huggingface.tokenizer_files import ForeignTokenizer

_DEFAULT_TOP_K: Final = 50
"""`top_k` of a sampling `generate` where no file says one."""
_PENALTIES: Final = ("repetition_penalty", "no_repeat_ngram_size")
_FILTERS: Final = ("temperature", "top_k", "top_p", "min_p", "typical_p", *_PENALTIES)


@dataclass(frozen=True)
class DecoderSymbols:
    """Foreign ids of special symbols."""

    pad: int | None
    bos: int | None
    eos: int
    ends: tuple[int, ...] = ()
    """Further symbols that end an output."""
    never: frozenset[int] = frozenset()
    """Symbols that no output has."""


def read_symbols(settings: ForeignConfig, tokenizer: ForeignTokenizer) -> DecoderSymbols:
    """Return the special symbols.

    The begin symbol is that of the tokenizer if it puts one before texts. Of several end symbols, that of the tokenizer
    comes first, which ends a chat's turn. Raises DataError if there is no end symbol.
    """
    pads, starts, ends = (read_ids(settings, key) for key in ("pad_token_id", "bos_token_id", "eos_token_id"))
    named = tokenizer.source.ids.get(tokenizer.special.get("eos_token", ""))
    if not ends:
        if named is None:
            raise DataError(f"{settings.where}lacks eos_token_id, without which no output ends. Add the key.")
        ends = [named]
    eos, others = choose_end(ends, named)
    bos = tokenizer.begin if tokenizer.has_bos else next(iter(starts), None)
    return DecoderSymbols(next(iter(pads), None), bos, eos, others, read_forbidden(settings))


def read_sampling(settings: ForeignConfig) -> tuple[SamplingConfig, list[str]]:
    """Return the sampling of the settings, and notes on what differs.

    Raises DataError for settings without counterpart.
    """
    chosen: dict[str, Any] = {"min_length": settings.size("min_new_tokens", 0, at_least=0)}
    is_sampled = settings.flag("do_sample", False)
    if is_sampled:
        chosen["top_k"] = _DEFAULT_TOP_K
        for key in ("epsilon_cutoff", "eta_cutoff", "top_h"):
            if settings.number(key, 0.0):
                raise settings.error(key, settings.value(key), "0")
    else:
        chosen["temperature"] = 0.0
    values = {name: settings.value(name) for name in _FILTERS if is_sampled or name in _PENALTIES}
    chosen |= {name: value for name, value in values.items() if value is not None}
    for name in ("top_k", "no_repeat_ngram_size"):
        if chosen.get(name) == 0:
            del chosen[name]
    if chosen.get("temperature") == 0:
        chosen = {name: value for name, value in chosen.items() if name in ("temperature", "min_length", *_PENALTIES)}
    return _parse(chosen, settings), [*_describe(chosen), *_notes(settings), *end_notes(settings)]


def _parse(chosen: Mapping[str, Any], settings: ForeignConfig) -> SamplingConfig:
    try:
        return SamplingConfig.model_validate(chosen)
    except ValidationError as error:
        key = str(error.errors()[0]["loc"][0]) if error.errors()[0]["loc"] else "do_sample"
        key = "min_new_tokens" if key == "min_length" else key
        raise settings.error(key, settings.value(key), "a value in the range of our sampling") from error


def _notes(settings: ForeignConfig) -> Iterator[str]:
    if (first := settings.value("forced_bos_token_id")) is not None:
        yield f"forced_bos_token_id = {shorten(first)} is not used; in transformers it follows a prompt of one symbol"


def _describe(chosen: Mapping[str, Any]) -> list[str]:
    """Return a note on the sampling that the model's authors recommend."""
    named = {name: value for name, value in chosen.items() if name != "min_length" or value}
    shown = ", ".join(f"--{name.replace('_', '-')} {value:g}" for name, value in named.items())
    return [f"outputs are sampled by default, as in the original: {shown}"] if chosen.get("temperature") != 0 else []
