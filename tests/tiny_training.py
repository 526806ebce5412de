"""A tiny training: a dataset of id sequences, a one-layer Transformer, and a validation function."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from dragoman.data.batching.token_budget_batches import Batch, pair_stream
from dragoman.data.datasets.parallel import TokenStore
from dragoman.models.config import DropoutConfig, EncoderDecoderConfig
from dragoman.models.encoder_decoder import EncoderDecoderTransformer
from dragoman.models.factory import build_encoder_decoder
from dragoman.training.callbacks import Callback, Event, combine_callbacks
from dragoman.training.checkpoint import CheckpointStore, Progress
from dragoman.training.chunked_loss import Loss
from dragoman.training.config import TrainingConfig
from dragoman.training.distributed import SINGLE_WORKER, WorkerGroup
from dragoman.training.losses import cross_entropy_loss
from dragoman.training.optimizers import build_optimizer
from dragoman.training.step import LossFunction, TrainableSeq2Seq
from dragoman.training.trainer import TrainingState, Validator, train
from tests.fake_models import SYMBOLS, rectangle

CPU = torch.device("cpu")
VOCABULARY = 19
PAIRS = [([4 + n % 13] * (1 + n % 5), [4 + n % 11] * (1 + n % 7)) for n in range(43)]
BUDGET = 47
SMALL = EncoderDecoderConfig(
    d_model=8,
    num_heads=2,
    encoder_layers=1,
    decoder_layers=1,
    d_ff=11,
    dropout=DropoutConfig(embedding=0.1, residual=0.1),
)


def build_run(
    folder: Path,
    config: TrainingConfig,
    *,
    model: EncoderDecoderConfig = SMALL,
    store: Path | None = None,
    behind: bool = False,
    team: WorkerGroup = SINGLE_WORKER,
) -> TrainingState:
    """Return a run at its start, or resumed from the checkpoints in `folder`."""
    pairs = TokenStore.build(store or folder / "store", PAIRS, vocab_size=VOCABULARY)
    network = build_network(model, seed=config.seed)
    return TrainingState(
        model=network,
        optimizer=build_optimizer(config.optimizer, network, workers=team),
        stream=pair_stream(pairs, budget=BUDGET, seed=config.seed),
        checkpoints=CheckpointStore(folder / "checkpoints", keep=config.keep_checkpoints, asynchronous=behind),
        progress=Progress(),
    )


def build_network(model: EncoderDecoderConfig, *, seed: int, vocabulary: int = VOCABULARY) -> EncoderDecoderTransformer:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build_encoder_decoder(model, source_vocabulary=vocabulary, target_vocabulary=vocabulary)


def batch_of(pairs: list[tuple[list[int], list[int]]], *, first: int = 0) -> Batch:
    """Return a batch of the pairs as a dataset would; `first` is the index of the first pair."""
    source, source_lengths = rectangle([[*source, SYMBOLS.eos] for source, _ in pairs])
    target, _ = rectangle([[SYMBOLS.bos, *target] for _, target in pairs])
    expected, target_lengths = rectangle([[*target, SYMBOLS.eos] for _, target in pairs])
    return Batch(
        source=source,
        source_lengths=source_lengths,
        target=target,
        labels=expected,
        target_lengths=target_lengths,
        rows=np.arange(first, first + len(pairs)),
    )


def validation_of(values: Iterable[float], *, higher_is_better: bool = True) -> Validator:
    """Return a validation function that returns these values in order."""
    given = iter(values)

    def validate(_: nn.Module) -> Mapping[str, float]:
        return {"quality": next(given)}

    return Validator(validate, metric="quality", higher_is_better=higher_is_better)


def validation_by(quality: Callable[[nn.Module], float]) -> Validator:
    """Return a validation function that reads the weights."""
    return Validator(lambda model: {"quality": quality(model)}, metric="quality", higher_is_better=True)


INDIFFERENT = validation_by(lambda _: 0.0)


def failing_at(objective: LossFunction, failing: Callable[[int], bool]) -> LossFunction:
    """Return the objective with a NaN loss whenever `failing` is true of the number of calls."""
    calls = 0

    def failing_objective(model: TrainableSeq2Seq, batch: Batch) -> Loss:
        nonlocal calls
        calls += 1
        loss = objective(model, batch)
        return Loss(loss.value * float("nan"), loss.negative_log_likelihood) if failing(calls) else loss

    return failing_objective


def train_small(
    run: TrainingState,
    config: TrainingConfig,
    *,
    judge: Validator = INDIFFERENT,
    objective: LossFunction | None = None,
    observe: Callback = lambda _: None,
    interrupted: Callable[[], bool] = lambda: False,
    team: WorkerGroup = SINGLE_WORKER,
) -> list[Event]:
    """Train, and return the reported events."""
    events: list[Event] = []
    train(
        run,
        config,
        loss_function=objective or cross_entropy_loss(config.label_smoothing),
        validator=judge,
        callback=combine_callbacks([events.append, observe]),
        device=CPU,
        interrupted=interrupted,
        workers=team,
    )
    return events


def of(kind: type, events: Sequence[Event]) -> list:
    return [event for event in events if isinstance(event, kind)]
