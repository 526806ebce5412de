"""Runs beside each other: what each is, what it costs, how long it learnt, and what it scores."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch

from dragoman.profiling.estimate import model_cost
from dragoman.runs.folder import RunFolder
from dragoman.tasks.factory import build_task


@dataclass(frozen=True)
class RunScore:
    """A score on a set, with what makes it comparable."""

    on: str
    metric: str
    value: float
    signature: str
    higher_is_better: bool
    texts: str = ""
    """A fingerprint of what the set was read or drawn from."""


@dataclass(frozen=True)
class RunSummary:
    """One run; what a run that has not ended does not know yet is None."""

    run: str
    task: str
    model: str
    parameters: int
    gflops_per_token: float
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
    scores: tuple[RunScore, ...]

    def to_json(self) -> dict[str, Any]:
        """The facts as JSON holds them."""
        return asdict(self)


@torch.inference_mode()
def summarize_run(path: Path) -> RunSummary:
    """The facts of a run. Raises RunError where the folder is no run, or DataError where its tokenizer is missing."""
    folder = RunFolder(path)
    experiment = folder.read_config()
    task = build_task(experiment)
    cost = model_cost(task.build_model(folder, device=torch.device("cpu")).eval())
    result = folder.read_scores()
    texts = {on: _corpus_fingerprint(on, folder) for on in result.get("scores", {})}
    return RunSummary(
        run=str(path),
        task=experiment.task,
        model=experiment.model.kind,
        parameters=cost.parameters,
        gflops_per_token=cost.flops_per_token / 1e9,
        weights=result.get("weights"),
        minutes=result["seconds"] / 60 if "seconds" in result else None,
        updates=result.get("steps"),
        tokens=result.get("tokens"),
        unit=task.description.unit,
        tokens_per_second=_median_speed(folder),
        scores=tuple(
            RunScore(
                on, score["metric"], score["value"], score["signature"], score["higher_is_better"], texts=texts[on]
            )
            for on, scores in result.get("scores", {}).items()
            for score in scores
        ),
    )


class ScoreKey(NamedTuple):
    """What two scores must have in common to stand beside each other."""

    on: str
    metric: str
    signature: str
    texts: str = ""


def comparable_scores(runs: Sequence[RunSummary]) -> list[ScoreKey]:
    """Those of every score of any run, in the order in which they first occur, sets together."""
    found = dict.fromkeys(_score_key(score) for run in runs for score in run.scores)
    sets = list(dict.fromkeys(key.on for key in found))
    return sorted(found, key=lambda key: sets.index(key.on))


def find_score(run: RunSummary, key: ScoreKey) -> RunScore | None:
    """The score of a run that may stand there."""
    return next((one for one in run.scores if _score_key(one) == key), None)


def _score_key(score: RunScore) -> ScoreKey:
    return ScoreKey(score.on, score.metric, score.signature, score.texts)


def _corpus_fingerprint(on: str, folder: RunFolder) -> str:
    """A fingerprint of the files of a set; of all files and of the draw, where it was drawn; empty where it is unknown.

    It is where files of one name, which alone is known of them, stand in several folders.
    """
    data, environment = folder.read_raw_config().get("data", {}), folder.read_environment()
    corpora = environment.get("corpora", [])
    names = [Path(path).name for path in _corpus_paths(data.get(on))]
    own = [one for one in corpora if not names or any(fnmatch(one["file"], name) for name in names)]
    if len({one["file"] for one in own}) < len(own) or data.get("train", {}).get("kind") == "prepared":
        return ""
    facts = [*(one["sha256"] for one in own), *([] if names else [data.get("valid_size"), environment.get("seed")])]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def _corpus_paths(corpus: object) -> Iterator[str]:
    """The texts that a corpus of a configuration names."""
    for key, value in corpus.items() if isinstance(corpus, dict) else ():
        if key in ("source", "target", "path"):
            yield from [value] if isinstance(value, str) else map(str, value or ())


def _median_speed(folder: RunFolder) -> float | None:
    if not folder.metrics.exists():
        return None
    lines = folder.metrics.read_text(encoding="utf-8", errors="replace").splitlines()
    events = [json.loads(line) for line in lines if line.startswith('{"event": "log"') and line.endswith("}")]
    speeds = [float(event["tokens_per_second"]) for event in events]
    return median(speeds) if speeds else None
