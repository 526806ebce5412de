"""Learning rate schedules: functions from the step to a factor of the peak learning rate.

Steps are counted from 1. Every schedule rises linearly to 1 over `warmup` steps.
"""

import math
from typing import Annotated, Literal, assert_never

from pydantic import Field, NonNegativeInt, PositiveInt

from dragoman.config import Config

Warmup = Annotated[NonNegativeInt, Field(description="steps of linear increase to the peak learning rate")]
MinLrRatio = Annotated[float, Field(ge=0.0, lt=1.0, description="final factor of the peak learning rate")]


class ConstantSchedule(Config):
    """Constant learning rate after the warmup."""

    kind: Literal["constant"] = "constant"
    warmup: Warmup = 0


class InverseSqrtSchedule(Config):
    """Decay with the inverse square root of the step (Vaswani et al., 2017, section 5.3)."""

    kind: Literal["inverse_sqrt"] = "inverse_sqrt"
    warmup: Annotated[PositiveInt, Field(description="steps of linear increase to the peak learning rate")] = 1000


class CosineSchedule(Config):
    """Half a cosine from the peak to the minimum (Loshchilov and Hutter, 2017)."""

    kind: Literal["cosine"] = "cosine"
    warmup: Warmup = 1000
    min_lr_ratio: MinLrRatio = 0.0


class LinearSchedule(Config):
    """Linear decay from the peak to the minimum."""

    kind: Literal["linear"] = "linear"
    warmup: Warmup = 1000
    min_lr_ratio: MinLrRatio = 0.0


class WarmupStableDecaySchedule(Config):
    """Constant learning rate, then linear decay in the last part of the training (Hu et al., 2024)."""

    kind: Literal["warmup_stable_decay"] = "warmup_stable_decay"
    warmup: Warmup = 1000
    decay_ratio: float = Field(default=0.2, gt=0.0, le=1.0, description="fraction of all steps that decay")
    min_lr_ratio: MinLrRatio = 0.0


ScheduleConfig = Annotated[
    ConstantSchedule | InverseSqrtSchedule | CosineSchedule | LinearSchedule | WarmupStableDecaySchedule,
    Field(discriminator="kind"),
]


def depends_on_length(schedule: ScheduleConfig) -> bool:
    """Return whether the learning rate of a step depends on the length of the training."""
    return not isinstance(schedule, ConstantSchedule | InverseSqrtSchedule)


def learning_rate_factor(schedule: ScheduleConfig, step: int, *, total_steps: int) -> float:
    """Return the factor of the peak learning rate; after `total_steps` it stays at its final value."""
    step = min(step, total_steps) if not isinstance(schedule, InverseSqrtSchedule) else step
    if step < schedule.warmup:
        return step / schedule.warmup
    match schedule:
        case ConstantSchedule():
            return 1.0
        case InverseSqrtSchedule(warmup=warmup):
            return math.sqrt(warmup / step)
        case CosineSchedule(warmup=warmup, min_lr_ratio=minimum):
            return minimum + (1 - minimum) * (1 + math.cos(math.pi * _fraction(step, warmup, total_steps))) / 2
        case LinearSchedule(warmup=warmup, min_lr_ratio=minimum):
            return 1 - (1 - minimum) * _fraction(step, warmup, total_steps)
        case WarmupStableDecaySchedule(decay_ratio=decay, min_lr_ratio=minimum, warmup=warmup):
            begin = max(warmup, round(total_steps * (1 - decay)))
            return 1 - (1 - minimum) * _fraction(step, begin, total_steps)
        case _:
            assert_never(schedule)


def _fraction(step: int, begin: int, end: int) -> float:
    """Return the position of a step between `begin` and `end`, clamped to 0 and 1."""
    if step >= end:
        return 1.0
    return (step - begin) / (end - begin) if step > begin else 0.0
