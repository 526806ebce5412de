"""Which sentences go through the network together."""

from collections.abc import Sequence


def batches_by_length(lengths: Sequence[int], *, budget: int) -> list[list[int]]:
    """The rows in batches of like length, longest first, so that what does not fit in memory is known at once.

    A batch is at most `budget` in number of rows times greatest length; a row that is longer by itself is alone.
    """
    batches: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if not batches or (len(batches[-1]) + 1) * lengths[batches[-1][0]] > budget:
            batches.append([])
        batches[-1].append(row)
    return batches
