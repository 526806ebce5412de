"""What may be chosen about training."""

from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from dragoman.config import Config
from dragoman.nn.lora import Lora
from dragoman.training.optimizers import Adam, OptimiserConfig
from dragoman.training.precision import PrecisionName
from dragoman.training.schedules import InverseSquareRoot, Schedule
from dragoman.training.translation_loss import Likelihood, ObjectiveConfig

Compilation = Literal["graphs"] | bool
"""Whether a network is compiled, and as what."""


class Epochs(Config):
    """Counted in passes over the corpus."""

    kind: Literal["epochs"] = "epochs"
    count: PositiveInt = Field(1, description="how many passes")


class Updates(Config):
    """Counted in optimiser steps."""

    kind: Literal["updates"] = "updates"
    count: PositiveInt = Field(1000, description="how many steps")


Span = Annotated[Epochs | Updates, Field(discriminator="kind")]


class TrainingConfig(Config):
    """How the weights are learnt."""

    seed: NonNegativeInt = Field(
        1, lt=2**63, description="of the first weights, of the order of the data and of dropout"
    )
    length: Span = Field(Epochs(count=30), description="when training ends")
    batch_tokens: PositiveInt | Literal["auto"] = Field(
        4096,
        description=(
            "budget of a batch: rows times the longer padded width; auto: as many as fit into memory, and at most what "
            "suits the device"
        ),
    )
    accumulate: PositiveInt = Field(1, description="batches an update")
    workers: PositiveInt | Literal["auto"] = Field(
        "auto", description="processes that share each batch; auto: one a GPU, or one a core where that is faster"
    )
    optimiser: OptimiserConfig = Adam()
    schedule: Schedule = InverseSquareRoot()
    label_smoothing: float = Field(
        0.0, ge=0.0, lt=1.0, description="share of the target spread over all words, or all labels"
    )
    clip: float | None = Field(1.0, gt=0.0, description="bound of the gradient's norm; none: no bound")
    sharding: Literal["none", "full"] = Field(
        "none", description="full: of weights and of the optimiser's memory each worker holds a share (FSDP2)"
    )
    recompute: bool = Field(
        False, description="whether blocks are computed again in the backward pass: less memory, more time"
    )
    compile: Compilation = Field(
        False,
        description="whether torch.compile fuses the network's operations, on a GPU, at the cost of a minute; graphs: "
        "what a shape of batch launches is also recorded and replayed (CUDA graphs), for running text",
    )
    precision: PrecisionName = Field(
        "auto",
        description=(
            "of the forward and backward pass; auto: bfloat16 on GPUs that have it, and on such CPUs for the products "
            "with the vocabulary and Muon's own; bfloat16: on such CPUs for those of linear maps too, on others float32"
        ),
    )
    interval: Span = Field(Epochs(count=1), description="how often to validate and write a checkpoint")
    patience: PositiveInt | None = Field(
        None, description="end after so many validations without a better one; none: never"
    )
    keep: PositiveInt = Field(5, description="how many checkpoints are kept and averaged at the end")
    moving_average: float | None = Field(
        None, gt=0.0, lt=1.0, description="decay of an exponential moving average of the weights; none: not kept"
    )
    report: PositiveInt = Field(50, description="updates between two lines of progress")

    @property
    def budget(self) -> int:
        """The tokens of a batch, where they are known: `auto` is replaced before anything is learnt."""
        assert self.batch_tokens != "auto", "a number is found before it is used"
        return self.batch_tokens


class TranslationTraining(TrainingConfig):
    """How the weights are learnt, and how a translator is watched."""

    objective: ObjectiveConfig = Likelihood()
    """What the loss is made of; validation always measures the likelihood."""

    adapters: Lora | None = None
    """What alone is learnt where a run begins with another: changes that are added to its weights in the end."""

    label_smoothing: float = Field(0.1, ge=0.0, lt=1.0, description="share of the target spread over all words")
    translate: bool = Field(True, description="validate by BLEU of translations as well as by loss")
    validation_beam: PositiveInt = Field(1, description="width of the search while validating in training")

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        if self.validation_beam > 1 and not self.translate:
            raise ValueError(
                f"training.validation_beam = {self.validation_beam} has no effect with training.translate = false; "
                "leave one of them out"
            )
        return self
