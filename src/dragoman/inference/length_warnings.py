"""What a classifier, a tagger and an answerer tell of the texts that they read."""

from dragoman import errors

LONGEST = 512
"""Tokens of a text, symbols included, unless the network knows fewer places or was trained on fewer."""


class ReadingWarning(UserWarning):
    """Something about one text that its reader should know; the message names the line."""


def warn(message: str) -> None:
    """Tell the person."""
    errors.warn(message, ReadingWarning)


def longest_of(model: object, asked: int) -> int:
    """The most tokens that a network reads at once."""
    places: int | None = getattr(model, "maximum_length", None)
    return asked if places is None else min(asked, places)
