"""Chunks of streams: the available items, after a wait for the first, and errors after the items before them."""

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar, final

from dragoman.inference.length_batches import check_positive, require_iterable

_T = TypeVar("_T")


def is_ready(items: object, seconds: float = 0.0) -> bool:
    """Return whether the next item comes without waiting for more than some seconds.

    An input that may pause says so by a method of this name; all others are ready.
    """
    ask: Callable[[float], bool] | None = getattr(items, "is_ready", None)
    return True if ask is None else ask(seconds)


PAUSE = 0.01
"""Seconds without input after which a chunk is computed, shorter than a step of most models."""


def number_chunks(
    items: Iterable[_T],
    *,
    size: int,
    first: int = 1,
    name: str = "the input",
    check: Callable[[_T, str], object] | None = None,
) -> Iterator[tuple[int, list[_T]]]:
    """Return an iterator over at most `size` items at a time, with the number of the first.

    A chunk ends early where the input pauses. An error of the input, or of `check` for an item and its place such as
    `lines[3]`, is raised after the items before it.
    """
    check_positive(chunk=size)
    return _chunks(require_iterable(items, name=name), size, first, name, check)


def _chunks(
    items: Iterable[_T], size: int, first: int, name: str, check: Callable[[_T, str], object] | None
) -> Iterator[tuple[int, list[_T]]]:
    iterator, number = iter(items), 0
    error: Exception | None = None
    while error is None:
        some: list[_T] = []
        try:
            while len(some) < size and (not some or is_ready(items, PAUSE)):
                item = next(iterator)
                if check is not None:
                    check(item, f"{name}[{number + len(some)}]")
                some.append(item)
        except StopIteration:
            pass
        except Exception as found:
            error = found
        if not some:
            break
        yield first + number, some
        number += len(some)
    if error is not None:
        raise error


@final
class FlatStream(Generic[_T], Iterator[_T]):
    """Items of chunks, each chunk given with its length; ready while a chunk has items left, or the `source` is."""

    def __init__(self, chunks: Iterator[tuple[int, Iterator[_T]]], source: object) -> None:
        self._chunks, self._source = chunks, source
        self._left, self._chunk = 0, iter(list[_T]())

    def __next__(self) -> _T:
        while not self._left:
            self._left, self._chunk = next(self._chunks)
        self._left -= 1
        return next(self._chunk)

    def is_ready(self, seconds: float) -> bool:
        """Return whether the next item comes without waiting for more than some seconds."""
        return self._left > 0 or is_ready(self._source, seconds)
