"""The loop's surroundings in small: a store of id sequences, a Transformer of one layer, and a judge."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from dragoman.data.batching.token_batches import Batch, pair_stream
from dragoman.data.datasets.parallel import TokenStore
from dragoman.models.config import DropoutConfig, TransformerConfig
from dragoman.models.encoder_decoder import Seq2SeqTransformer
from dragoman.models.factory import build_seq2seq
from dragoman.training.callbacks import all_of
from dragoman.training.checkpoint import Checkpoints, Progress
from dragoman.training.config import TrainingConfig
from dragoman.training.distributed import ALONE, Team
from dragoman.training.events import Event, Observer
from dragoman.training.losses import Loss
from dragoman.training.optimizers import build_optimiser
from dragoman.training.step import Learner, Objective, teacher_forced
from dragoman.training.trainer import Judge, Run, train
from tests.fakes import SYMBOLS, rectangle

CPU = torch.device("cpu")
VOCABULARY = 19
PAIRS = [([4 + n % 13] * (1 + n % 5), [4 + n % 11] * (1 + n % 7)) for n in range(43)]
BUDGET = 47
SMALL = TransformerConfig(
    size=8,
    heads=2,
    encoder_layers=1,
    decoder_layers=1,
    feed_forward=11,
    dropout=DropoutConfig(embedding=0.1, residual=0.1),
)


def build_run(
    folder: Path,
    config: TrainingConfig,
    *,
    model: TransformerConfig = SMALL,
    store: Path | None = None,
    behind: bool = False,
    team: Team = ALONE,
) -> Run:
    """A run at its beginning, or to go on with where `folder` holds its checkpoints."""
    pairs = TokenStore.build(store or folder / "store", PAIRS, vocabulary=VOCABULARY)
    network = build_network(model, seed=config.seed)
    return Run(
        model=network,
        optimiser=build_optimiser(config.optimiser, network, team=team),
        stream=pair_stream(pairs, budget=BUDGET, seed=config.seed),
        checkpoints=Checkpoints(folder / "checkpoints", keep=config.keep, behind=behind),
        progress=Progress(),
    )


def build_network(model: TransformerConfig, *, seed: int, vocabulary: int = VOCABULARY) -> Seq2SeqTransformer:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build_seq2seq(model, source_vocabulary=vocabulary, target_vocabulary=vocabulary)


def batch_of(pairs: list[tuple[list[int], list[int]]], *, first: int = 0) -> Batch:
    """The pairs side by side, as a store would give them; `first` is the index of the first pair there."""
    source, source_lengths = rectangle([[*source, SYMBOLS.end] for source, _ in pairs])
    target, _ = rectangle([[SYMBOLS.begin, *target] for _, target in pairs])
    expected, target_lengths = rectangle([[*target, SYMBOLS.end] for _, target in pairs])
    return Batch(
        source=source,
        source_lengths=source_lengths,
        target=target,
        expected=expected,
        target_lengths=target_lengths,
        rows=np.arange(first, first + len(pairs)),
    )


def judge_of(values: Iterable[float], *, higher_is_better: bool = True) -> Judge:
    """A judge that gives these values, one a validation."""
    given = iter(values)

    def validate(_: nn.Module) -> Mapping[str, float]:
        return {"quality": next(given)}

    return Judge(validate, deciding="quality", higher_is_better=higher_is_better)


def judge_by(quality: Callable[[nn.Module], float]) -> Judge:
    """A judge that looks at the weights."""
    return Judge(lambda model: {"quality": quality(model)}, deciding="quality", higher_is_better=True)


INDIFFERENT = judge_by(lambda _: 0.0)


def failing_at(objective: Objective, failing: Callable[[int], bool]) -> Objective:
    """The objective, with a loss that is not a number whenever `failing` says so of how often it was called."""
    calls = 0

    def failing_objective(model: Learner, batch: Batch) -> Loss:
        nonlocal calls
        calls += 1
        loss = objective(model, batch)
        return Loss(loss.objective * float("nan"), loss.negative_log_likelihood) if failing(calls) else loss

    return failing_objective


def train_small(
    run: Run,
    config: TrainingConfig,
    *,
    judge: Judge = INDIFFERENT,
    objective: Objective | None = None,
    observe: Observer = lambda _: None,
    interrupted: Callable[[], bool] = lambda: False,
    team: Team = ALONE,
) -> list[Event]:
    """Train, and return what was told."""
    events: list[Event] = []
    train(
        run,
        config,
        objective=objective or teacher_forced(config.label_smoothing),
        judge=judge,
        observe=all_of([events.append, observe]),
        device=CPU,
        interrupted=interrupted,
        team=team,
    )
    return events


def of(kind: type, events: Sequence[Event]) -> list:
    return [event for event in events if isinstance(event, kind)]
