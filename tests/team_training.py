"""One training in small as a process that torchrun starts, alone or several times: it prints what it reached as JSON.

python -m tests.team_training FOLDER OPTIONS, where OPTIONS are those of `Options` as JSON
"""

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from dragoman.models.config import DropoutConfig, TransformerConfig
from dragoman.runs.worker_processes import place
from dragoman.runs.workers import team_joined, team_of
from dragoman.training.config import TrainingConfig, Updates
from dragoman.training.distributed import Team, whole
from dragoman.training.events import Updated
from dragoman.training.fsdp import compute_again, shard
from dragoman.training.optimizers import Adam, Muon, build_optimiser
from dragoman.training.r_drop import r_drop
from dragoman.training.schedules import Constant
from dragoman.training.trainer import Run
from tests.learners import BUDGET, build_run, of, train_small

MODEL = TransformerConfig(
    size=12,
    heads=2,
    encoder_layers=1,
    decoder_layers=2,
    feed_forward=17,
    tie="all",
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
    here = place()
    assert here is not None
    if here.rank == 0:
        with team_of(here.size, told={"folder": str(folder)}) as team:
            print(json.dumps({name: trained(folder / name, options, team) for name, options in several.items()}))
    else:
        with team_joined(here) as (team, _):
            for name, options in several.items():
                trained(folder / name, options, team)


def trained(folder: Path, options: Options, team: Team) -> dict[str, object]:
    """The loss of each update, and the weights at the end."""
    config = TrainingConfig(
        length=Updates(count=options.updates),
        interval=Updates(count=FIRST),
        report=1,
        schedule=Constant(),
        batch_tokens=BUDGET,
        accumulate=options.accumulate,
        label_smoothing=0.1,
        moving_average=0.9,
        optimiser=Muon(learning_rate=0.003) if options.muon else Adam(learning_rate=0.003),
    )
    run = begun(folder, config, options, team)
    objective = r_drop(config.label_smoothing, weight=5.0) if options.consistent else None
    events = train_small(run, config, objective=objective, team=team)
    assert run.average is not None
    ends = {"weights": whole(dict(run.model.named_parameters())), "average": whole(run.average)}
    return {
        "losses": [event.loss for event in of(Updated, events)],
        **{name: {key: tensor.flatten().tolist() for key, tensor in end.items()} for name, end in ends.items()},
    }


def begun(folder: Path, config: TrainingConfig, options: Options, team: Team) -> Run:
    """The run at its beginning; each worker has the same store, in a folder of its own."""
    run = build_run(folder, config, model=MODEL, store=folder / f"store-{team.rank}-{team.size}", team=team)
    if options.recompute:
        compute_again(run.model)
    if options.sharding and team.size > 1:
        if team.leads:
            run.judged = build_run(folder, config, model=MODEL, store=folder / f"other-{team.size}").model
        shard(run.model, team, device=torch.device("cpu"))
        run.optimiser = build_optimiser(config.optimiser, run.model, team=team)
    return run


def as_json(several: dict[str, Options]) -> str:
    return json.dumps({name: asdict(options) for name, options in several.items()})


if __name__ == "__main__":
    main(Path(sys.argv[1]), {name: Options(**options) for name, options in json.loads(sys.argv[2]).items()})
