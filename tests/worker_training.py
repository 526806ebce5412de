"""A small training as a process that torchrun starts once or several times; it prints its results as JSON.

python -m tests.worker_training FOLDER OPTIONS, where OPTIONS are those of `Options` as JSON
"""

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from dragoman.models.config import DropoutConfig, EncoderDecoderConfig
from dragoman.training.callbacks import LogEvent
from dragoman.training.config import TrainingConfig
from dragoman.training.distributed import WorkerGroup, gather_tensors, join_workers, lead_workers
from dragoman.training.fsdp import enable_gradient_checkpointing, shard_model
from dragoman.training.launch import worker_rank
from dragoman.training.losses import r_drop_loss
from dragoman.training.optimizers import AdamConfig, MuonConfig, build_optimizer
from dragoman.training.schedules import ConstantSchedule
from dragoman.training.trainer import TrainingState
from tests.tiny_training import BUDGET, build_run, of, train_small

MODEL = EncoderDecoderConfig(
    d_model=12,
    num_heads=2,
    encoder_layers=1,
    decoder_layers=2,
    d_ff=17,
    tie_embeddings="all",
    dropout=DropoutConfig(embedding=0.2, residual=0.3, feed_forward=0.1, attention=0.1),
)

FIRST = 30
"""Updates before the first checkpoint."""


@dataclass(frozen=True)
class Options:
    updates: int = 50
    accumulate: int = 1
    sharding: bool = False
    recompute: bool = False
    consistent: bool = False
    muon: bool = False


def main(folder: Path, several: dict[str, Options]) -> None:
    here = worker_rank()
    assert here is not None
    if here.rank == 0:
        with lead_workers(here.world_size, message={"folder": str(folder)}) as team:
            print(json.dumps({name: train_run(folder / name, options, team) for name, options in several.items()}))
    else:
        with join_workers(here) as (team, _):
            for name, options in several.items():
                train_run(folder / name, options, team)


def train_run(folder: Path, options: Options, team: WorkerGroup) -> dict[str, object]:
    """Return the loss of each step, and the weights at the end."""
    config = TrainingConfig(
        max_steps=options.updates,
        validate_every=FIRST,
        log_every=1,
        schedule=ConstantSchedule(),
        batch_tokens=BUDGET,
        grad_accumulation=options.accumulate,
        label_smoothing=0.1,
        ema_decay=0.9,
        optimizer=MuonConfig(learning_rate=0.003) if options.muon else AdamConfig(learning_rate=0.003),
    )
    run = start_run(folder, config, options, team)
    objective = r_drop_loss(config.label_smoothing, weight=5.0) if options.consistent else None
    events = train_small(run, config, objective=objective, team=team)
    assert run.ema is not None
    ends = {"weights": gather_tensors(dict(run.model.named_parameters())), "average": gather_tensors(run.ema)}
    return {
        "losses": [event.loss for event in of(LogEvent, events)],
        **{name: {key: tensor.flatten().tolist() for key, tensor in end.items()} for name, end in ends.items()},
    }


def start_run(folder: Path, config: TrainingConfig, options: Options, team: WorkerGroup) -> TrainingState:
    """Return the run at its start; each worker has the same dataset in a folder of its own."""
    run = build_run(folder, config, model=MODEL, store=folder / f"store-{team.rank}-{team.world_size}", team=team)
    if options.recompute:
        enable_gradient_checkpointing(run.model)
    if options.sharding and team.world_size > 1:
        if team.is_main:
            run.validation_model = build_run(
                folder, config, model=MODEL, store=folder / f"other-{team.world_size}"
            ).model
        shard_model(run.model, team, device=torch.device("cpu"))
        run.optimizer = build_optimizer(config.optimizer, run.model, workers=team)
    return run


def as_json(several: dict[str, Options]) -> str:
    return json.dumps({name: asdict(options) for name, options in several.items()})


if __name__ == "__main__":
    main(Path(sys.argv[1]), {name: Options(**options) for name, options in json.loads(sys.argv[2]).items()})
