"""The choice of what a translator learns under."""

from collections.abc import Sequence
from typing import Annotated, Literal, assert_never

from pydantic import Field

from dragoman.config import Config
from dragoman.data.batching.token_batches import Batch
from dragoman.training.distillation import WordDistillation, distilled
from dragoman.training.precision import PrecisionName
from dragoman.training.r_drop import RDrop, r_drop
from dragoman.training.step import Learner, Objective, teacher_forced


class Likelihood(Config):
    """Every place predicts the next symbol of the target text."""

    kind: Literal["likelihood"] = "likelihood"


ObjectiveConfig = Annotated[Likelihood | RDrop | WordDistillation, Field(discriminator="kind")]


def build_objective(
    config: ObjectiveConfig, *, smoothing: float, precision: PrecisionName, teachers: Sequence[Learner] = ()
) -> Objective[Learner, Batch]:
    """The loss of a batch of pairs; distillation needs its `teachers`."""
    match config:
        case Likelihood():
            return teacher_forced(smoothing, precision=precision)
        case RDrop(weight=weight):
            return r_drop(smoothing, weight=weight, precision=precision)
        case WordDistillation(weight=weight, temperature=temperature, in_turns=in_turns):
            assert teachers, "who distils has a teacher"
            return distilled(
                smoothing, teachers, weight=weight, temperature=temperature, in_turns=in_turns, precision=precision
            )
        case _:
            assert_never(config)
