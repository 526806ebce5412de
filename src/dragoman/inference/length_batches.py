"""Checks of inputs, batches of inputs of similar length, and chunks of streams."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from contextlib import nullcontext
from pathlib import PurePath
from typing import TypeVar

from dragoman.data.tokenizers import LanguageTokenizer
from dragoman.errors import ConfigError, TextWarning, warn
from dragoman.inference.concurrent_calls import Turn, stop_if_cancelled

BATCH_TOKENS = 4096
"""Default token budget of a batch, padding included."""
MAX_INPUT_LENGTH = 512
"""Tokens of a text, symbols included, unless the model has fewer positions or was trained on fewer."""

_I = TypeVar("_I")
_T = TypeVar("_T")


class InputWarning(TextWarning):
    """Warning about one input of a classifier, tagger or question answerer; the message names it."""


def warn_input(unit: str, number: int, message: str, *, problem: str) -> None:
    """Issue an `InputWarning`."""
    warn(InputWarning(unit, number, message, problem=problem))


def warn_too_long(encoded: Iterable[Sized], *, max_length: int, first: int = 1) -> None:
    """Warn of each text that is truncated, because it has more tokens than `max_length` with BOS and EOS."""
    for number, ids in enumerate(encoded, start=first):
        if len(ids) + 2 > max_length:
            warn_input(
                "line",
                number,
                f"{len(ids) + 2} tokens exceed the limit of {max_length}; the end of the text is ignored",
                problem=f"texts have more than {max_length} tokens and their ends were ignored",
            )


def warn_unknown(
    texts: Iterable[str],
    encoded: Iterable[Iterable[int]],
    tokenizer: LanguageTokenizer,
    *,
    category: type[TextWarning] = InputWarning,
    unit: str = "line",
    first: int = 1,
) -> None:
    """Warn of each text with characters, or words, that are not in the vocabulary; texts are numbered from `first`."""
    for number, (text, ids) in enumerate(zip(texts, encoded, strict=True), start=first):
        if missing := tokenizer.missing_units(text, ids):
            message = f"{tokenizer.unit}s that are not in the vocabulary"
            remedy = "replace them, or train on text that contains them"
            problem = f"{'text' if unit == 'line' else unit}s have {message}"
            warn(category(unit, number, message, problem=problem, remedy=remedy, examples=missing))


def text_list(texts: Iterable[str], *, name: str = "texts", expected: str = "a list of strings") -> list[str]:
    """Return the texts as a list. Raises TypeError where they are one string, or no strings."""
    found = list(require_iterable(texts, name=name, expected=expected))
    for number, text in enumerate(found):
        check_text(text, f"{name}[{number}]")
    return found


def check_text(text: object, place: str) -> None:
    """Raise TypeError, which names the place, unless the text is a string."""
    if not isinstance(text, str):
        raise TypeError(f"{place} is {text!r:.60}, not a string. {_remedy(text, 'Give a string for each text.')}")


def one_or_more_texts(texts: str | Iterable[str], *, name: str = "texts") -> list[str]:
    """Return one text, or several, as a list. Raises TypeError where they are no strings."""
    return [texts] if isinstance(texts, str) else text_list(texts, name=name, expected="a string or a list of strings")


def text_pairs(pairs: Iterable[Sequence[str]], *, name: str = "pairs") -> list[tuple[str, str]]:
    """Return pairs of texts as a list. Raises TypeError where one is no pair of strings."""
    found = list(require_iterable(pairs, name=name))
    for number, pair in enumerate(found):
        check_pair(pair, f"{name}[{number}]")
    return [(first, second) for first, second in found]


def check_pair(pair: object, place: str) -> None:
    """Raise TypeError, which names the place, unless the pair is a sequence of two strings."""
    if isinstance(pair, str) or not isinstance(pair, Sequence) or [isinstance(one, str) for one in pair] != [True] * 2:
        raise TypeError(f"{place} is {pair!r:.60}, not a pair of strings. Give a tuple of two strings.")


def require_iterable(items: Iterable[_T], *, name: str, expected: str = "a list") -> Iterable[_T]:
    """Return the items; raise TypeError where they are one string, bytes or a mapping, which are iterables, too."""
    if isinstance(items, str):
        raise TypeError(f"{name} is one string, and a list is expected. Put it into a list.")
    if not isinstance(items, Iterable) or isinstance(items, bytes | bytearray | Mapping):
        remedy = _remedy(items, f"Give {expected}.")
        raise TypeError(f"{name} is {items!r:.60}, and {expected} is expected. {remedy}")
    return items


def _remedy(value: object, otherwise: str) -> str:
    """Return how to get texts from a value that is none."""
    match value:
        case bytes() | bytearray():
            return "Decode the bytes."
        case PurePath():
            return "Read the file."
        case Mapping():
            return "Give the texts in the mapping."
    return otherwise


def check_positive(**numbers: int) -> None:
    """Raise ConfigError unless each number is a whole number of at least 1."""
    for name, number in numbers.items():
        if not isinstance(number, int) or number < 1:
            raise ConfigError(f"{name} = {number!r}: is not a whole number of at least 1. Choose 1 or more.")


def batch_by_length(lengths: Sequence[int], *, batch_tokens: int) -> list[list[int]]:
    """Group rows into batches of similar length, longest first, so that a lack of memory shows at once.

    The number of rows times the greatest length of a batch is at most `batch_tokens`; a longer row is alone.
    """
    batches: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if not batches or (len(batches[-1]) + 1) * lengths[batches[-1][0]] > batch_tokens:
            batches.append([])
        batches[-1].append(row)
    return batches


def run_in_batches(
    items: Sequence[_I],
    lengths: Sequence[int],
    run: Callable[[list[_I]], Iterable[_T]],
    *,
    batch_tokens: int,
    turn: Turn = nullcontext,
) -> list[_T]:
    """Return the result of each item; `run` computes those of a batch of items of similar length, in a `turn`."""
    results: dict[int, _T] = {}
    for rows in batch_by_length(lengths, batch_tokens=batch_tokens):
        stop_if_cancelled()
        with turn():
            results |= zip(rows, run([items[row] for row in rows]), strict=True)
    return [results[row] for row in range(len(items))]
