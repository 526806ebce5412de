"""Share of tokens in padded batches."""

from collections.abc import Sequence
from typing import NamedTuple

from dragoman.array_types import Rows
from dragoman.data.batching.token_budget_batches import LengthArray


class PaddingEfficiency(NamedTuple):
    """Share of positions that hold a token, on each side; the rest is padding."""

    source: float
    target: float


def padding_efficiency(
    batches: Sequence[Rows], source_lengths: LengthArray, target_lengths: LengthArray
) -> PaddingEfficiency:
    """Return the share of tokens in the batches of a plan, special tokens included."""

    def share(lengths: LengthArray) -> float:
        places = sum(len(rows) * (int(lengths[rows].max()) + 1) for rows in batches)
        tokens = sum(len(rows) + int(lengths[rows].sum()) for rows in batches)
        return tokens / places if places else 1.0

    return PaddingEfficiency(share(source_lengths), share(target_lengths))
