"""Model, batches, loss, validation and scoring of a training, and the state of the training loop."""

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, final

import torch
from torch import Tensor, nn

from dragoman.data.batching.batch_streams import BatchStream, PrefetchingStream
from dragoman.evaluation import Baseline, Score, perplexity
from dragoman.training.checkpoint import CheckpointStore, Progress
from dragoman.training.config import TrainingConfig
from dragoman.training.distributed import WorkerGroup, all_cores
from dragoman.training.fsdp import enable_gradient_checkpointing, shard_model
from dragoman.training.optimizers import build_optimizer
from dragoman.training.precision import bfloat16_linear_layers, output_matmul_dtype
from dragoman.training.step import B, LossFunction, compile_model
from dragoman.training.trainer import TrainingState, Validator, interruptible


@final
@dataclass(frozen=True)
class TrainingSetup(Generic[B]):
    """Model, batches, loss and validation of a training."""

    model: nn.Module
    stream: BatchStream[B]
    loss_function: LossFunction[Any, B]
    validator: Validator
    final_validator: Validator
    """Validator that selects the final weights."""
    scorers: Mapping[str, Callable[[], Sequence[Score]]]
    """For each held-out set, a function that scores the model as it currently is."""
    describe_rows: Callable[[Sequence[int]], str]
    """Function that names the examples in the rows of a batch."""
    export_weights: Callable[[Mapping[str, Tensor]], dict[str, Tensor]] = dict
    """Function from the trained weights to the weights for inference, which merges adapters."""
    write_sample: Callable[[], str] | None = None
    """Function that generates a sample text for the model card."""


def prepare_state(
    setup: TrainingSetup[Any], config: TrainingConfig, checkpoints: Path, workers: WorkerGroup, *, device: torch.device
) -> TrainingState[Any]:
    """Build the state of the training loop: compiled or sharded model, optimizer, prefetched batches, checkpoints."""
    sharded = config.sharding == "full" and workers.world_size > 1
    model = copy.deepcopy(setup.model) if sharded and workers.is_main else setup.model
    if config.gradient_checkpointing:
        enable_gradient_checkpointing(model, partial(bfloat16_linear_layers, config.precision, device))
    if sharded:
        shard_model(model, workers, device=device)
    if config.compile:
        compile_model(model, device=device, mode=config.compile)
    dtype = output_matmul_dtype(config.precision, device)
    return TrainingState(
        model=model,
        validation_model=setup.model if model is not setup.model else None,
        optimizer=build_optimizer(config.optimizer, model, matmul_dtype=dtype, workers=workers),
        stream=PrefetchingStream(setup.stream, count=config.grad_accumulation + 1, epochs=config.max_epochs),
        checkpoints=CheckpointStore(checkpoints, keep=config.keep_checkpoints, asynchronous=device.type != "cpu"),
        progress=Progress(),
        describe_rows=setup.describe_rows,
    )


def validate_on_all_cores(validator: Validator, workers: WorkerGroup) -> Validator:
    """Let the main worker validate on the cores of all, while the others wait."""

    def validate(model: nn.Module) -> Mapping[str, float]:
        with all_cores(workers):
            return validator.validate(model)

    return replace(validator, validate=validate)


def gather_shards(state: TrainingState[Any], setup: TrainingSetup[Any]) -> TrainingState[Any]:
    """Return the state with the whole model, which the last checkpoint of a sharded training contains."""
    if state.validation_model is None:
        return state
    last = state.checkpoints.load(state.progress.step)
    return replace(state, model=setup.model, validation_model=None, ema=last.ema)


def final_scores(setup: TrainingSetup[Any], step: int, interrupted: Callable[[], bool]) -> dict[str, list[Score]]:
    """Score the model on every held-out set. Raises InterruptionError once `interrupted` returns true."""
    scores: dict[str, list[Score]] = {}
    with torch.inference_mode(), interruptible(interrupted, step):
        for name, score in setup.scorers.items():
            scores[name] = list(score())
    return scores


@final
@dataclass(frozen=True)
class Likelihood:
    """Negative log-likelihood of held-out data."""

    total: float
    """Sum over all predicted tokens, in nats."""
    num_tokens: int

    @property
    def loss(self) -> float:
        """Mean per predicted token."""
        return self.total / self.num_tokens

    @property
    def perplexity(self) -> float:
        """Exponential of the loss; infinity on overflow."""
        return perplexity(self.loss)

    def scores(
        self, *, signature: str, detail: str = "", characters: int | None = None, unigram_loss: float | None = None
    ) -> list[Score]:
        """Return loss and perplexity, and bits per character if the number of characters is known.

        `unigram_loss` is the loss of a model that only knows the token frequencies. Scores with the same `signature`
        are comparable.
        """
        baseline = None if unigram_loss is None else Baseline(unigram_loss, "a model of token frequencies")
        scores = [
            Score("loss", self.loss, f"unit:nats|{signature}", detail, higher_is_better=False, baseline=baseline),
            Score("perplexity", self.perplexity, signature, detail, higher_is_better=False),
        ]
        if characters:
            bits = self.total / math.log(2) / characters  # does not depend on the tokenizer
            scores.append(Score("bits/character", bits, f"characters:{characters}", detail, higher_is_better=False))
        return scores


def measure_likelihood(
    model: Any, batches: Iterable[B], loss_function: LossFunction[Any, B], *, device: torch.device
) -> Likelihood:
    """Sum the negative log-likelihood of all batches. Raises ValueError if they contain no targets."""
    total, count = 0.0, 0
    for batch in batches:
        total += float(loss_function(model, batch.to(device)).negative_log_likelihood)
        count += batch.target_count
    if not count:
        raise ValueError("the batches contain no targets")
    return Likelihood(total, count)
