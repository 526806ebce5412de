"""A text longer than a network can look back, as windows in which each of its tokens is predicted once."""

from dataclasses import dataclass

from dragoman.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Window:
    """Places `begin` up to `end` of a text; what stands before `counted` is only looked at."""

    begin: int
    counted: int
    end: int


def windows(length: int, *, context: int, overlap: int = 0) -> list[Window]:
    """The windows of a text of `length` places, at most `context` wide.

    The first places that a window counts look back on `overlap` places before it: 0 is cheapest and flatters least,
    `context - 1` gives each place all that the network can look at, for a window a place. Raises ConfigError where an
    overlap leaves nothing to count.
    """
    if not 0 <= overlap < context:
        raise ConfigError(
            f"overlap = {overlap}: a window of {context} tokens can share 0 to {context - 1} tokens with the one before"
        )
    found: list[Window] = []
    counted = 0
    while counted < length:
        begin = max(0, counted - overlap)
        end = min(begin + context, length)
        found.append(Window(begin, counted, end))
        counted = end
    return found
