"""Starts of outputs: the prefix and the constraints of each text, as tokens."""

from collections.abc import Sequence
from typing import TypeVar

from dragoman.data.tokenizers import Direction, LanguageTokenizer
from dragoman.decoding.config import DecodingConfig
from dragoman.decoding.hypothesis import OutputStart
from dragoman.errors import ConfigError, DataError
from dragoman.inference.length_batches import text_list
from dragoman.inference.text_constraints import Constraint, TextConstraints, build_automaton, word_boundaries
from dragoman.inference.text_segmentation import SegmentedText
from dragoman.number_words import counted

_T = TypeVar("_T")


def read_output_starts(
    lines: Sequence[SegmentedText],
    tokenizer: LanguageTokenizer,
    direction: Direction,
    *,
    target_prefix: str | Sequence[str] | None,
    constraints: TextConstraints | None,
    first_line: int,
) -> list[OutputStart]:
    """Return the start of the outputs of each text. All segments of a text share one.

    Raises DataError where a prefix or a constraint does not suit its text.
    """
    if target_prefix is None and constraints is None:
        return [OutputStart(forced=direction.target)] * len(lines)
    prefixes = _read_prefixes(target_prefix, len(lines))
    needed = _read_constraints(constraints, len(lines))
    boundaries = word_boundaries(tokenizer) if any(needed) else None
    starts = []
    for number, (line, prefix, own) in enumerate(zip(lines, prefixes, needed, strict=True), start=first_line):
        if sum(map(len, line.sentences)) > 1:
            _check_one_segment(number, prefix, own)
        [forced] = direction.encode_targets(tokenizer, [prefix.strip()])
        automaton = None if boundaries is None else build_automaton(tokenizer, own, boundaries, text=f"text {number}")
        starts.append(OutputStart(forced=tuple(forced), constraints=automaton))
    return starts


def check_constrained_search(config: DecodingConfig, *, has_shortlist: bool) -> None:
    """Raise ConfigError where a search cannot meet constraints."""
    if config.beam_size == 1:
        raise ConfigError("beam_size = 1: constraints need a beam of 2 or more. Raise beam_size, or leave them out.")
    if config.renormalize:
        raise ConfigError("renormalize has no effect with constraints. Leave one of them out.")
    if has_shortlist:
        raise ConfigError("A shortlist may lack the words of a constraint. Load the model without it.")


def _one_for_each(given: Sequence[_T], count: int, name: str) -> list[_T]:
    """Return what is given for each of `count` texts. Raises DataError if it is for another number of texts."""
    if len(given) != count:
        raise DataError(f"{counted(count, 'texts')} but {len(given)} of `{name}`; give one for each")
    return list(given)


def _read_prefixes(given: str | Sequence[str] | None, count: int) -> list[str]:
    if given is None or isinstance(given, str):
        return [given or ""] * count
    return _one_for_each(text_list(given, name="target_prefix"), count, "target_prefix")


def _read_constraints(given: TextConstraints | None, count: int) -> list[Sequence[Constraint]]:
    """Return the constraints of each text. Raises TypeError where something else is given."""
    shared: list[Constraint] = []
    each: list[Sequence[Constraint]] = []
    for one in given or ():
        if isinstance(one, Constraint):
            shared.append(one)
        elif isinstance(one, Sequence) and all(isinstance(part, Constraint) for part in one):
            each.append(one)
        else:
            raise TypeError(
                f"constraints: {one!r:.60} is no Constraint. Give Constraint(words), or a list for each text."
            )
    if shared and each:
        raise TypeError("constraints has single ones and lists. Give those of all texts, or a list for each text.")
    return _one_for_each(each, count, "constraints") if each else [shared] * count


def _check_one_segment(number: int, prefix: str, constraints: Sequence[Constraint]) -> None:
    """Raise DataError where it is not clear which segment of a text a prefix or a constraint belongs to."""
    name = "target_prefix" if prefix.strip() else "constraint"
    if prefix.strip() or any(one.kind != "forbidden" for one in constraints):
        raise DataError(
            f"text {number}: is translated in several segments, and a {name} belongs to one. "
            "Translate its sentences one by one."
        )
