"""Settings of `generate` in transformers: what our search says too, and by name what it cannot say.

The beam search of transformers 5 keeps the same candidates as ours. It scores a hypothesis by the sum of its
log-probabilities over its length, end symbol included, to the power of `length_penalty`; `early_stopping` is the same
setting here and there. At `max_length`, which counts the start symbol, it ranks outputs that are cut off with finished
ones (`cut_off = ranked`). With `forced_eos_token_id` they get an end symbol there, at no cost (`ended`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dragoman.decoding.config import MAX_BEAM_SIZE, MAX_LENGTH, MAX_LENGTH_PENALTY, DecodingConfig
from dragoman.errors import DataError, shorten
from dragoman.interop.huggingface.foreign_config import GENERATION_FILE, ForeignConfig, read_optional_json

SYMBOL_KEYS = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id", "forced_bos_token_id")
_SEARCH_KEYS = (
    *("num_beams", "length_penalty", "early_stopping", "max_length", "max_new_tokens", "min_length", "min_new_tokens"),
    *("forced_eos_token_id", "bad_words_ids", "suppress_tokens", "renormalize_logits"),
)
_NEUTRAL: Final[Mapping[str, tuple[Any, ...]]] = {
    "do_sample": (False,),
    "num_beam_groups": (1,),
    "diversity_penalty": (0, 0.0),
    "repetition_penalty": (1, 1.0),
    "encoder_repetition_penalty": (1, 1.0),
    "no_repeat_ngram_size": (0,),
    "encoder_no_repeat_ngram_size": (0,),
    "num_return_sequences": (1,),
    "remove_invalid_values": (False, True),
    "begin_suppress_tokens": ([],),
    "forced_decoder_ids": ([],),
    "sequence_bias": ({}, []),
    "guidance_scale": (1, 1.0),
    "exponential_decay_length_penalty": (),
    "penalty_alpha": (),
    "constraints": (),
    "force_words_ids": (),
    "stop_strings": (),
    "low_memory": (False, True),
}
"""Settings without counterpart in our beam search, with the values that have no effect."""
_SAMPLING = frozenset(
    ["temperature", "top_k", "top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff", "top_h", "token_healing"]
)
_IRRELEVANT = frozenset(
    [
        *("_from_model_config", "transformers_version", "use_cache", "cache_implementation", "cache_config"),
        *("return_dict_in_generate", "output_scores", "output_logits", "output_attentions", "output_hidden_states"),
        *("return_legacy_cache", "max_time", "use_model_defaults", "compile_config", "disable_compile", "max_matching"),
        *("is_assistant", "num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold"),
        *("prompt_lookup_num_tokens", "max_matching_ngram_size", "assistant_early_exit", "assistant_lookbehind"),
        *("target_lookbehind", "prefill_chunk_size", "generation_kwargs", "monitor_memory", "trust_remote_code"),
    ]
)
GENERATION_KEYS = frozenset([*SYMBOL_KEYS, *_SEARCH_KEYS, *_NEUTRAL, *_SAMPLING])
"""Keys that older files keep in `config.json`."""
DEFAULT_MAX_LENGTH = 512
"""Length of an output, start symbol included, where no file says one; `generate` would stop after 20."""


@dataclass(frozen=True)
class Symbols:
    """Foreign ids that `generate` uses."""

    pad: int | None
    eos: int
    start: int
    """Symbol before the first token of an output."""
    first: tuple[int, ...] = ()
    """Symbols that every output begins with."""
    never: frozenset[int] = frozenset()
    """Symbols that no output has."""
    renormalizes: bool = False
    """Whether the other symbols share the probability of these."""


@dataclass(frozen=True)
class Generation:
    """Settings of the search, the symbols, and what has no counterpart here."""

    decoding: DecodingConfig
    symbols: Symbols
    notes: tuple[str, ...]


def read_generation(config: ForeignConfig, folder: Path, *, default_start: int | None = None) -> Generation:
    """Return the settings of `generation_config.json`, or without this file those in `config.json`.

    Raises DataError if they are damaged or name no end or start symbol.
    """
    path = folder / GENERATION_FILE
    tree = read_optional_json(path)
    where = path if tree else config.path
    legacy = {key: config.tree[key] for key in GENERATION_KEYS if config.tree.get(key) is not None}
    settings = ForeignConfig(tree or legacy, path=where)
    symbols = _read_symbols(settings, legacy, default_start=default_start)
    decoding, notes = _read_decoding(settings, symbols)
    return Generation(decoding, symbols, (*notes, *_unsupported(settings)))


def _read_symbols(settings: ForeignConfig, legacy: Mapping[str, Any], *, default_start: int | None) -> Symbols:
    def index(key: str) -> int | None:
        value = settings.tree.get(key, legacy.get(key))
        value = value[0] if isinstance(value, list) and len(value) == 1 else value
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise settings.error(key, value, "one id of a symbol")
        return value

    eos, start = index("eos_token_id"), index("decoder_start_token_id")
    start = default_start if start is None else start
    if eos is None or start is None:
        key = "eos_token_id" if eos is None else "decoder_start_token_id"
        raise DataError(f"{settings.path}: lacks {key}, without which no output can be generated. Add the key.")
    first = index("forced_bos_token_id")
    never, renormalizes = _single_ids(settings), settings.flag("renormalize_logits", False)
    return Symbols(index("pad_token_id"), eos, start, () if first is None else (first,), frozenset(never), renormalizes)


def _single_ids(settings: ForeignConfig) -> set[int]:
    """Return the symbols that are forbidden one by one."""
    words = [[index] for index in settings.get("suppress_tokens", list, [])]
    words += settings.get("bad_words_ids", list, [])
    return {one[0] for one in words if isinstance(one, list) and len(one) == 1 and type(one[0]) is int}


def _read_decoding(settings: ForeignConfig, symbols: Symbols) -> tuple[DecodingConfig, list[str]]:
    """Return the beam search, and notes on what differs."""
    notes = []
    beam = min(settings.size("num_beams", 1), MAX_BEAM_SIZE)
    alpha = settings.number("length_penalty", 1.0)
    if not 0 <= alpha <= MAX_LENGTH_PENALTY:
        notes.append(f"length_penalty = {alpha} has no counterpart here; 0 is used")
        alpha = 0.0
    stopping = settings.tree.get("early_stopping", False)
    if beam > 1 and not isinstance(stopping, bool):
        notes.append(f"early_stopping = {shorten(stopping)} has no counterpart here; false is used")
    longest = min(_longest(settings, symbols), MAX_LENGTH)
    shortest = max(settings.size("min_length", 0, at_least=0) - 1, settings.size("min_new_tokens", 0, at_least=0), 0)
    decoding = DecodingConfig(
        beam_size=beam,
        length_penalty=alpha,
        min_length=min(shortest, longest),
        max_length=longest,
        max_length_ratio=0.0,
        max_length_offset=longest,
        early_stopping=stopping is True,
        keep_greedy=False,
        cut_off="ended" if _is_ended(settings, symbols) else "ranked",
    )
    return decoding, notes


def _longest(settings: ForeignConfig, symbols: Symbols) -> int:
    """Return the most tokens of an output without start and end symbol."""
    if "max_new_tokens" in settings:
        tokens = settings.size("max_new_tokens")
    else:
        tokens = settings.size("max_length", DEFAULT_MAX_LENGTH, at_least=2) - 1
    return max(1, tokens - 1 if _is_ended(settings, symbols) else tokens)


def _is_ended(settings: ForeignConfig, symbols: Symbols) -> bool:
    """Return whether outputs at their length limit get an end symbol."""
    return settings.tree.get("forced_eos_token_id") in (symbols.eos, [symbols.eos])


def _unsupported(settings: ForeignConfig) -> Iterator[str]:
    """Yield a note for each setting without counterpart."""
    sampled = settings.tree.get("do_sample") is True
    for key, value in settings.tree.items():
        if key in SYMBOL_KEYS or key in _SEARCH_KEYS or key in _IRRELEVANT or value is None:
            continue
        if (key in _SAMPLING and not sampled) or value in _NEUTRAL.get(key, ()):
            continue
        yield f"{settings.path.name}: {shorten(key)} = {shorten(value)} has no counterpart here and is not used"
    words = settings.tree.get("bad_words_ids")
    if isinstance(words, list) and any(not isinstance(one, list) or len(one) != 1 for one in words):
        yield f"{settings.path.name}: bad_words_ids of several symbols have no counterpart here and are not used"
