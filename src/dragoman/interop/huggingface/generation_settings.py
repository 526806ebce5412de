"""Settings of `generate` in transformers, which become those of our search.

The beam search of transformers 5 keeps the same candidates as ours. It scores a hypothesis by the sum of its
log-probabilities over its length, end symbol included, to the power of `length_penalty`; `early_stopping` is the same
setting here and there. At `max_length`, which counts the start symbol, it ranks outputs that are cut off with finished
ones (`cut_off = ranked`). With `forced_eos_token_id` they get an end symbol there, at no cost (`ended`).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.decoding.config import MAX_BEAM_SIZE, MAX_LENGTH, MAX_LENGTH_PENALTY, DecodingConfig
from dragoman.errors import DataError
from dragoman.interop.huggingface.foreign_config import GENERATION_FILE, ForeignConfig, read_optional_json
from dragoman.interop.huggingface.generation_keys import ID_KEYS
from dragoman.interop.key_table import Computed, KeyTable

DEFAULT_MAX_LENGTH = 512
"""Length of an output, start symbol included, where no file says one; `generate` would stop after 20."""


@dataclass(frozen=True)
class Symbols:
    """Foreign ids that `generate` uses."""

    pad: int | None
    eos: int
    start: int
    """Symbol before the first token of an output."""
    ends: tuple[int, ...] = ()
    """Further symbols that end an output."""
    first: tuple[int, ...] = ()
    """Symbols that every output begins with."""
    never: frozenset[int] = frozenset()
    """Symbols that no output has."""
    renormalizes: bool = False
    """Whether the other symbols share the probability of these."""


@dataclass(frozen=True)
class Generation:
    """Settings of the search, the symbols, and notes on what differs."""

    decoding: DecodingConfig
    symbols: Symbols
    notes: tuple[str, ...]


def open_generation(config: ForeignConfig, table: KeyTable, *, allow_unused: Collection[str] = ()) -> ForeignConfig:
    """Return the settings of `generation_config.json`, or without this file those in `config.json`.

    Symbols that the file lacks are those of `config.json`. Raises DataError if the file is damaged, and ConfigError for
    a key that the table does not list, or whose value it does not accept.
    """
    path = config.path.parent / GENERATION_FILE
    tree = read_optional_json(path)
    ids: dict[str, Any] = {key: config.value(key) for key in ID_KEYS if isinstance(table[key], Computed)}
    forces_begin = config.value("force_bos_token_to_be_generated") is True
    if tree:
        borrowed = {key: value for key, value in ids.items() if value is not None and tree.get(key) is None}
        settings = ForeignConfig({**tree, **borrowed}, path=path, table=table, allow_unused=allow_unused)
        settings.borrowed = frozenset(borrowed)
        return settings
    older = {key: config.tree[key] for key in table if config.tree.get(key) is not None}
    if forces_begin:
        older["forced_bos_token_id"] = ids.get("bos_token_id")
    return ForeignConfig(older, path=config.path, table=table, allow_unused=allow_unused)


def read_generation(settings: ForeignConfig, *, default_start: int | None = None, end: int | None = None) -> Generation:
    """Return the search of the settings; `end` is the end symbol of the tokenizer.

    Raises DataError if the settings name no end or start symbol, or have a value without counterpart.
    """
    symbols = _read_symbols(settings, default_start=default_start, end=end)
    decoding, notes = _read_decoding(settings, symbols)
    return Generation(decoding, symbols, (*notes, *end_notes(settings)))


def read_ids(settings: ForeignConfig, key: str) -> list[int]:
    """Return the ids of symbols that a key names. Raises DataError for a value that is neither an id nor ids."""
    value = settings.value(key)
    found = value if isinstance(value, list) else [] if value is None else [value]
    if any(type(index) is not int for index in found):
        raise settings.error(key, value, "an id, or ids,")
    return found


def read_forbidden(settings: ForeignConfig) -> frozenset[int]:
    """Return the symbols that no output has. Raises DataError for forbidden words of several symbols."""
    words = [[index] for index in settings.get("suppress_tokens", list, [])]
    words += settings.get("bad_words_ids", list, [])
    if any(not isinstance(word, list) or len(word) != 1 or type(word[0]) is not int for word in words):
        raise settings.error("bad_words_ids", settings.value("bad_words_ids"), "a list of lists of one id each")
    return frozenset(word[0] for word in words)


def end_notes(settings: ForeignConfig) -> list[str]:
    """Return a note if `generation_config.json` names no end symbol, which `config.json` or the tokenizer does."""
    if "eos_token_id" not in settings.borrowed:
        return []
    return [
        f"{GENERATION_FILE} names no eos_token_id, so that outputs of transformers do not end; those of dragoman do"
    ]


def choose_end(ends: Sequence[int], named: int | None) -> tuple[int, tuple[int, ...]]:
    """Return the end symbol and further ones: that of the tokenizer if it is among them, or else the first."""
    end = named if named is not None and named in ends else ends[0]
    return end, tuple(index for index in dict.fromkeys(ends) if index != end)


def _read_symbols(settings: ForeignConfig, *, default_start: int | None, end: int | None) -> Symbols:
    def first(key: str) -> int | None:
        ids = read_ids(settings, key)
        if len(ids) > 1:
            raise settings.error(key, ids, "one id of a symbol")
        return ids[0] if ids else None

    ends, start = read_ids(settings, "eos_token_id"), first("decoder_start_token_id")
    begin = first("bos_token_id")
    start = next((index for index in (start, begin, default_start) if index is not None), None)
    if not ends or start is None:
        key = "decoder_start_token_id" if ends else "eos_token_id"
        raise DataError(f"{settings.where}lacks {key}, without which no output can be generated. Add the key.")
    eos, others = choose_end(ends, end)
    if end is not None and eos != end:
        raise settings.error("eos_token_id", ends, f"{end}, the end symbol of the tokenizer,")
    forced, never = first("forced_bos_token_id"), read_forbidden(settings)
    renormalizes = settings.flag("renormalize_logits", False)
    return Symbols(first("pad_token_id"), eos, start, others, () if forced is None else (forced,), never, renormalizes)


def _read_decoding(settings: ForeignConfig, symbols: Symbols) -> tuple[DecodingConfig, list[str]]:
    """Return the beam search, and notes on what differs."""
    beam, alpha = min(settings.size("num_beams", 1), MAX_BEAM_SIZE), settings.number("length_penalty", 1.0)
    stopping = settings.value("early_stopping")
    if beam == 1:
        alpha, stopping = 1.0, False  # which have no effect on a greedy search
    if not 0 <= alpha <= MAX_LENGTH_PENALTY:
        raise settings.error("length_penalty", alpha, f"a number from 0 to {MAX_LENGTH_PENALTY:g} in a beam search")
    if stopping not in (None, True, False):
        raise settings.error("early_stopping", stopping, "true or false in a beam search")
    longest, notes = _longest(settings, symbols)
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


def _longest(settings: ForeignConfig, symbols: Symbols) -> tuple[int, list[str]]:
    """Return the most tokens of an output without start and end symbol, and a note if no file says it."""
    named, limit = (settings.size(key, 0, at_least=0) for key in ("max_new_tokens", "max_length"))
    tokens = named or max(2, limit or DEFAULT_MAX_LENGTH) - 1
    longest = max(1, tokens - 1 if _is_ended(settings, symbols) else tokens)
    notes = [f"max_length: no file names it; outputs have at most {longest} tokens, and in transformers 20"]
    return min(longest, MAX_LENGTH), [] if named or limit else notes


def _is_ended(settings: ForeignConfig, symbols: Symbols) -> bool:
    """Return whether outputs at their length limit get an end symbol. Raises DataError if they get another one."""
    forced = read_ids(settings, "forced_eos_token_id")
    if not set(forced) <= {symbols.eos, *symbols.ends}:
        raise settings.error("forced_eos_token_id", forced, f"{symbols.eos}, the end symbol,")
    return bool(forced)
