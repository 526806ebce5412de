"""Batches of inputs of similar length, and how long an input may be."""

from collections.abc import Sequence

from dragoman import errors

MAX_INPUT_LENGTH = 512
"""Tokens of a text, symbols included, unless the model has fewer positions or was trained on fewer."""


class InputWarning(UserWarning):
    """Warning about one input of a classifier, tagger or question answerer; the message names the line."""


def warn_input(message: str) -> None:
    """Issue an `InputWarning`."""
    errors.warn(message, InputWarning)


def limit_length(model: object, max_length: int) -> int:
    """Return the most tokens that a model reads at once."""
    positions: int | None = getattr(model, "max_length", None)
    return max_length if positions is None else min(max_length, positions)


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
