"""How the learning rate moves: pure functions from the number of an update to a factor of the peak rate.

Updates are counted from 1. Every schedule climbs linearly to 1 over `warmup` updates.
"""

import math
from typing import Annotated, Literal, assert_never

from pydantic import Field, NonNegativeInt, PositiveInt

from dragoman.config import Config

Warmup = Annotated[NonNegativeInt, Field(description="updates of linear climb to the peak rate")]
Floor = Annotated[float, Field(ge=0.0, lt=1.0, description="factor at the end")]


class Constant(Config):
    """The peak rate to the end."""

    kind: Literal["constant"] = "constant"
    warmup: Warmup = 0


class InverseSquareRoot(Config):
    """Falls with the root of the update (Vaswani et al., 2017, section 5.3)."""

    kind: Literal["inverse_sqrt"] = "inverse_sqrt"
    warmup: Annotated[PositiveInt, Field(description="updates of linear climb to the peak rate")] = 1000


class Cosine(Config):
    """Half a cosine from the peak to the floor (Loshchilov and Hutter, 2017)."""

    kind: Literal["cosine"] = "cosine"
    warmup: Warmup = 1000
    floor: Floor = 0.0


class Linear(Config):
    """A straight line from the peak to the floor."""

    kind: Literal["linear"] = "linear"
    warmup: Warmup = 1000
    floor: Floor = 0.0


class WarmupStableDecay(Config):
    """The peak rate, then a straight fall over the last share of the training (Hu et al., 2024)."""

    kind: Literal["warmup_stable_decay"] = "warmup_stable_decay"
    warmup: Warmup = 1000
    decay: float = Field(0.2, gt=0.0, le=1.0, description="share of all updates that the fall takes")
    floor: Floor = 0.0


Schedule = Annotated[Constant | InverseSquareRoot | Cosine | Linear | WarmupStableDecay, Field(discriminator="kind")]


def factor(schedule: Schedule, update: int, *, total: int) -> float:
    """The factor of the peak rate at `update` of `total`; from `total` on it stays where it ended."""
    update = min(update, total) if not isinstance(schedule, InverseSquareRoot) else update
    if update < schedule.warmup:
        return update / schedule.warmup
    match schedule:
        case Constant():
            return 1.0
        case InverseSquareRoot(warmup=warmup):
            return math.sqrt(warmup / update)
        case Cosine(warmup=warmup, floor=floor):
            return floor + (1 - floor) * (1 + math.cos(math.pi * _share(update, warmup, total))) / 2
        case Linear(warmup=warmup, floor=floor):
            return 1 - (1 - floor) * _share(update, warmup, total)
        case WarmupStableDecay(decay=decay, floor=floor, warmup=warmup):
            begin = max(warmup, round(total * (1 - decay)))
            return 1 - (1 - floor) * _share(update, begin, total)
        case _:
            assert_never(schedule)


def _share(update: int, begin: int, end: int) -> float:
    """How much of the way from `begin` to `end` is done, within 0 and 1."""
    if update >= end:
        return 1.0
    return (update - begin) / (end - begin) if update > begin else 0.0
