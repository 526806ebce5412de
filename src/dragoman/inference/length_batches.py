"""Batches of inputs of similar length, chunks of streams, and how long an input may be."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from dragoman.errors import TextWarning, warn

BATCH_TOKENS = 4096
"""Default token budget of a batch, padding included."""
MAX_INPUT_LENGTH = 512
"""Tokens of a text, symbols included, unless the model has fewer positions or was trained on fewer."""

_I = TypeVar("_I")
_T = TypeVar("_T")


class InputWarning(TextWarning):
    """Warning about one input of a classifier, tagger or question answerer; the message names the line."""


def warn_input(number: int, message: str, *, problem: str) -> None:
    """Issue an `InputWarning`."""
    warn(InputWarning("line", number, message, problem=problem))


def require_list(texts: Sequence[str]) -> Sequence[str]:
    """Return the texts; raise TypeError where they are one string, which is a sequence of strings, too."""
    if isinstance(texts, str):
        raise TypeError("expected a list of texts, got one text; put it into a list")
    return texts


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
    items: Sequence[_I], lengths: Sequence[int], run: Callable[[list[_I]], Iterable[_T]], *, batch_tokens: int
) -> list[_T]:
    """Return the result of each item; `run` computes those of a batch of items of similar length."""
    results: dict[int, _T] = {}
    for rows in batch_by_length(lengths, batch_tokens=batch_tokens):
        results |= zip(rows, run([items[row] for row in rows]), strict=True)
    return [results[row] for row in range(len(items))]


def number_chunks(items: Iterable[_T], *, size: int, first: int = 1) -> Iterator[tuple[int, list[_T]]]:
    """Yield at most `size` items at a time, with the number of the first."""
    iterator = iter(items)
    while some := list(islice(iterator, size)):
        yield first, some
        first += len(some)
