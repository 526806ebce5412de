"""Runs beside each other: what each is, what it costs, how long it learnt, and what it scores."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

from dragoman.experiment.build import task_of
from dragoman.experiment.inventory import take_inventory
from dragoman.experiment.run import RunFolder


@dataclass(frozen=True)
class ScoreOf:
    """A score on a set, with what makes it comparable."""

    on: str
    metric: str
    value: float
    signature: str
    higher_is_better: bool


@dataclass(frozen=True)
class RunFacts:
    """One run; what a run that has not ended does not know yet is None."""

    run: str
    task: str
    model: str
    parameters: int
    gflops_a_token: float
    """To read a token, where the network reads, and to write one."""
    weights: str | None
    """Which candidate was chosen."""
    minutes: float | None
    updates: int | None
    tokens: int | None
    """What was learnt from, counted as `unit` says."""
    unit: str
    """What was predicted: tokens, or whole texts."""
    tokens_per_second: float | None
    """The median over the reports of the training."""
    scores: tuple[ScoreOf, ...]

    def to_json(self) -> dict[str, Any]:
        """The facts as JSON holds them."""
        return asdict(self)


@torch.inference_mode()
def facts_of(path: Path) -> RunFacts:
    """The facts of a run. Raises RunError where the folder is no run, or DataError where its tokenizer is missing."""
    folder = RunFolder(path)
    experiment = folder.read_config()
    task = task_of(experiment)
    inventory = take_inventory(task.network(folder, device=torch.device("cpu")).eval())
    result = folder.read_scores()
    return RunFacts(
        run=str(path),
        task=experiment.task,
        model=experiment.model.kind,
        parameters=inventory.parameters,
        gflops_a_token=inventory.flops_a_token / 1e9,
        weights=result.get("weights"),
        minutes=result["seconds"] / 60 if "seconds" in result else None,
        updates=result.get("updates"),
        tokens=result.get("target_tokens"),
        unit=task.description.unit,
        tokens_per_second=_speed(folder),
        scores=tuple(
            ScoreOf(on, score["metric"], score["value"], score["signature"], score["higher_is_better"])
            for on, scores in result.get("scores", {}).items()
            for score in scores
        ),
    )


def comparable_scores(runs: Sequence[RunFacts]) -> list[tuple[str, str, str]]:
    """Set, metric and signature of every score of any run, in the order in which they first occur, sets together.

    Two scores may stand beside each other only where all three are the same.
    """
    found = dict.fromkeys((score.on, score.metric, score.signature) for run in runs for score in run.scores)
    sets = list(dict.fromkeys(on for on, _, _ in found))
    return sorted(found, key=lambda key: sets.index(key[0]))


def score_of(run: RunFacts, key: tuple[str, str, str]) -> ScoreOf | None:
    """The score of a run under a set, metric and signature."""
    return next((one for one in run.scores if (one.on, one.metric, one.signature) == key), None)


def _speed(folder: RunFolder) -> float | None:
    if not folder.metrics.exists():
        return None
    lines = folder.metrics.read_text(encoding="utf-8", errors="replace").splitlines()
    events = [json.loads(line) for line in lines if line.startswith('{"event": "updated"') and line.endswith("}")]
    speeds = [float(event["tokens_per_second"]) for event in events]
    return median(speeds) if speeds else None
