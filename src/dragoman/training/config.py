"""Training configuration."""

from collections.abc import Mapping
from typing import Any, Literal, Self, TypedDict

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from dragoman.config import Config
from dragoman.nn.lora import LoraConfig
from dragoman.training.losses import CrossEntropyConfig, LossConfig
from dragoman.training.optimizers import AdamConfig, OptimizerConfig
from dragoman.training.precision import Precision
from dragoman.training.schedules import InverseSqrtSchedule, ScheduleConfig
from dragoman.training.step import CompileMode


class TrainingConfig(Config):
    """Training of a model; fields of translation are in `TranslationTrainingConfig`."""

    seed: NonNegativeInt = Field(
        default=1, lt=2**63, description="seed of the initial weights, the order of the data and dropout"
    )
    max_epochs: PositiveInt | None = Field(
        default=30,
        description="passes over the corpus after which training ends; none where only max_steps is set; with both, "
        "training ends at whichever comes first",
    )
    max_steps: PositiveInt | None = Field(
        default=None, description="optimizer steps after which training ends; none: no limit"
    )
    batch_tokens: PositiveInt | Literal["auto"] = Field(
        default=4096,
        description="token budget of a batch: rows times the longer padded length; auto: as many as fit into memory, "
        "and at most what suits the device",
    )
    grad_accumulation: PositiveInt = Field(default=1, le=100_000, description="batches per optimizer step")
    num_workers: PositiveInt | Literal["auto"] = Field(
        default="auto",
        description="processes that share each batch; auto: one per GPU, or one per core where that is faster",
    )
    optimizer: OptimizerConfig = AdamConfig()
    schedule: ScheduleConfig = InverseSqrtSchedule()
    label_smoothing: float = Field(
        default=0.0, ge=0.0, lt=1.0, description="probability mass spread evenly over all tokens, or all labels"
    )
    max_grad_norm: float | None = Field(default=1.0, gt=0.0, description="gradient clipping norm; none: no clipping")
    sharding: Literal["none", "full"] = Field(
        default="none", description="full: shard weights, gradients and optimizer state over the workers (FSDP2)"
    )
    gradient_checkpointing: bool = Field(
        default=False, description="recompute the activations of blocks in the backward pass: less memory, more time"
    )
    compile: CompileMode = Field(
        default=False,
        description="true: fuse the model's operations with torch.compile, on GPUs, which takes about a minute at the "
        "start; cuda_graphs: also record and replay the kernels of each batch shape, for language models",
    )
    precision: Precision = Field(
        default="auto",
        description="number format of the forward and backward pass; auto: bfloat16 on GPUs that support it, and on "
        "such CPUs for the output layer and Muon; bfloat16: on such CPUs for all linear layers too, on others float32",
    )
    validate_every: PositiveInt | None = Field(
        default=None, description="steps between two validations, each of which saves a checkpoint; none: use epochs"
    )
    validate_every_epochs: PositiveInt | None = Field(
        default=1,
        description="epochs between two validations, each of which saves a checkpoint; none: use validate_every",
    )
    patience: PositiveInt | None = Field(
        default=None, description="end after this many validations without improvement; none: never"
    )
    keep_checkpoints: PositiveInt = Field(default=5, description="number of checkpoints kept, and averaged at the end")
    ema_decay: float | None = Field(
        default=None,
        gt=0.0,
        lt=1.0,
        description="decay of the exponential moving average of the weights; none: no average",
    )
    log_every: PositiveInt = Field(default=50, description="steps between two log lines")
    lora: LoraConfig | None = None
    """Low-rank adapters: the only weights trained where a run is fine-tuned, besides those of a new head; merged into
    the model at the end."""

    @model_validator(mode="before")
    @classmethod
    def _steps_replace_default_epochs(cls, values: Any) -> Any:
        """A limit or an interval in steps replaces the default one in epochs."""
        if not isinstance(values, dict):
            return values
        values = dict(values)
        for steps, epochs in (("max_steps", "max_epochs"), ("validate_every", "validate_every_epochs")):
            if values.get(steps) is not None:
                values.setdefault(epochs, None)
        return values

    @model_validator(mode="after")
    def _check_limits(self) -> Self:
        if self.max_steps is None and self.max_epochs is None:
            raise ValueError("training.max_steps and training.max_epochs are none; set one of them")
        if self.validate_every is None and self.validate_every_epochs is None:
            raise ValueError("training.validate_every and training.validate_every_epochs are none; set one of them")
        return self

    def total_tokens(self, tokens_per_epoch: int) -> int:
        """Return the number of tokens the model is trained on, padding included in steps."""
        limits = []
        if self.max_epochs is not None:
            limits.append(self.max_epochs * tokens_per_epoch)
        if self.max_steps is not None:
            limits.append(self.max_steps * self.token_budget * self.grad_accumulation)
        return min(limits)

    @property
    def token_budget(self) -> int:
        """`batch_tokens` as a number, once `auto` is resolved."""
        assert self.batch_tokens != "auto", "automatic configuration resolves the budget first"
        return self.batch_tokens


class TranslationTrainingConfig(TrainingConfig):
    """Training and validation of a translation model."""

    loss: LossConfig = CrossEntropyConfig()
    """Training loss; validation always measures cross-entropy."""

    label_smoothing: float = Field(
        default=0.1, ge=0.0, lt=1.0, description="probability mass spread evenly over all tokens"
    )
    validate_bleu: bool = Field(default=True, description="validate by BLEU of translations as well as by loss")
    validation_beam_size: PositiveInt = Field(default=1, description="beam size of validation during training")

    @model_validator(mode="after")
    def _check_beam_size(self) -> Self:
        if self.validation_beam_size > 1 and not self.validate_bleu:
            raise ValueError(
                f"training.validation_beam_size = {self.validation_beam_size} has no effect with "
                "training.validate_bleu = false; leave one of them out"
            )
        return self


class TrainingOptions(TypedDict, total=False):
    """Settings of `TranslationTrainingConfig` as keyword arguments of `dragoman.train`."""

    seed: int
    max_epochs: int | None
    max_steps: int | None
    batch_tokens: int | Literal["auto"]
    grad_accumulation: int
    num_workers: int | Literal["auto"]
    optimizer: OptimizerConfig | Mapping[str, Any]
    schedule: ScheduleConfig | Mapping[str, Any]
    label_smoothing: float
    max_grad_norm: float | None
    sharding: Literal["none", "full"]
    gradient_checkpointing: bool
    compile: CompileMode
    precision: Precision
    validate_every: int | None
    validate_every_epochs: int | None
    patience: int | None
    keep_checkpoints: int
    ema_decay: float | None
    log_every: int
    loss: LossConfig | Mapping[str, Any]
    lora: LoraConfig | Mapping[str, Any] | None
    validate_bleu: bool
    validation_beam_size: int
