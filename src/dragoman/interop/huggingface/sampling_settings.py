"""Special symbols and sampling of decoder-only models of transformers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dragoman.decoding.config import SamplingConfig
from dragoman.errors import DataError, shorten
from dragoman.interop.huggingface.foreign_config import GENERATION_FILE, ForeignConfig, read_optional_json
from dragoman.interop.huggingface.generation_settings import GENERATION_KEYS
from dragoman.interop.huggingface.tokenizer_files import ForeignTokenizer

SAMPLING_KEYS = GENERATION_KEYS | {"task_specific_params", "prefix"}
"""Keys of generation that older files keep in `config.json`."""
_DEFAULT_TOP_K: Final = 50
"""`top_k` of a sampling `generate` where no file says one."""
_FILTERS = ("temperature", "top_k", "top_p", "min_p", "typical_p", "repetition_penalty", "no_repeat_ngram_size")


@dataclass(frozen=True)
class DecoderSymbols:
    """Foreign ids of special symbols."""

    pad: int | None
    bos: int | None
    eos: int
    ends: tuple[int, ...] = ()
    """Further symbols that end an output."""


def read_symbols(config: ForeignConfig, tokenizer: ForeignTokenizer) -> DecoderSymbols:
    """Return the special symbols. Of several end symbols, that of the tokenizer comes first, which ends a chat's turn.

    Raises DataError if there is no end symbol.
    """
    generation = read_optional_json(config.path.parent / GENERATION_FILE)

    def ids(key: str) -> list[int]:
        value = generation.get(key) if generation.get(key) is not None else config.tree.get(key)
        found = value if isinstance(value, list) else [] if value is None else [value]
        if any(type(one) is not int for one in found):
            raise config.error(key, value, "an id, or ids,")
        return found

    pads, starts, ends = map(ids, ("pad_token_id", "bos_token_id", "eos_token_id"))
    named = tokenizer.source.ids.get(tokenizer.special.get("eos_token", ""))
    if not ends:
        if named is None:
            raise DataError(f"{config.path}: lacks eos_token_id, without which no output ends. Add the key.")
        ends = [named]
    eos = named if named in ends else ends[0]
    others = tuple(one for one in dict.fromkeys(ends) if one != eos)
    return DecoderSymbols(next(iter(pads), None), next(iter(starts), None), eos, others)


def read_sampling(config: ForeignConfig) -> tuple[SamplingConfig, list[str]]:
    """Return the sampling of `generation_config.json`, and notes on settings without counterpart."""
    tree = read_optional_json(config.path.parent / GENERATION_FILE)
    chosen: dict[str, Any] = {}
    if tree.get("do_sample") is not True:
        chosen["temperature"] = 0.0
        names: tuple[str, ...] = ("repetition_penalty", "no_repeat_ngram_size")
    else:
        chosen["top_k"] = _DEFAULT_TOP_K
        names = _FILTERS
    chosen |= {name: tree[name] for name in names if tree.get(name) is not None}
    if chosen.get("top_k") == 0:
        del chosen["top_k"]
    if chosen.get("no_repeat_ngram_size") == 0:
        del chosen["no_repeat_ngram_size"]
    if chosen.get("temperature") == 0:
        chosen = {name: value for name, value in chosen.items() if name in ("temperature", *_FILTERS[-2:])}
    try:
        sampling = SamplingConfig.model_validate(chosen)
    except ValueError:
        return SamplingConfig(), [f"{GENERATION_FILE}: sampling {shorten(chosen)} has no counterpart here"]
    return sampling, _describe(chosen)


def _describe(chosen: Mapping[str, Any]) -> list[str]:
    """Return a note on the sampling that the model's authors recommend."""
    shown = ", ".join(f"--{name.replace('_', '-')} {value:g}" for name, value in chosen.items())
    return [f"outputs are sampled by default, as in the original: {shown}"] if chosen.get("temperature") != 0 else []
