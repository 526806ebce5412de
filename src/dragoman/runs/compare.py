"""Comparison of runs: model, cost, training and scores of each."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from statistics import median
from typing import Any

from pydantic import TypeAdapter, ValidationError

from dragoman import runs
from dragoman.config_trees import Tree, get_value
from dragoman.data.splits import TEXT_VALID_SHARE
from dragoman.runs.folder import RunFolder
from dragoman.training.callbacks import METRICS
from dragoman.untrusted_files import parse_json

ScoreKey = tuple[str, str, str, str]
MISSING = object()
"""Value of a setting that a run does not have."""


@dataclass(frozen=True)
class ModelSummary:
    """Words and numbers that describe a model. Training stores them, so that they are read without PyTorch."""

    noun: str
    description: str
    unit: str
    """Unit of the training speed."""
    loss_unit: str
    """Unit that the loss is averaged over."""
    parts: dict[str, int]
    """Parameters by part; a tied weight counts in its first part."""
    flops: dict[str, int]
    """Operations to encode and to decode a token."""
    cache_bytes: int
    """Bytes that the key-value cache of a hypothesis grows by per token, in float32."""

    @property
    def parameters(self) -> int:
        return sum(self.parts.values())


_SUMMARY = TypeAdapter(ModelSummary)


def read_model_summary(folder: RunFolder) -> ModelSummary:
    """Return the summary that the training stored, or else build the model, which imports PyTorch."""
    stored = folder.read_scores().get("model")
    try:
        return _SUMMARY.validate_python(stored)
    except ValidationError:  # of a version that stored other facts
        summary: ModelSummary = runs.summarize_model(folder)
    return summary


@dataclass(frozen=True)
class RunScore:
    """Score on a held-out set."""

    set: str
    metric: str
    value: float
    signature: str
    higher_is_better: bool
    texts: str = ""
    """Fingerprint of the texts of the set; empty if unknown."""

    @property
    def key(self) -> ScoreKey:
        """Set, metric, signature and texts, which two comparable scores have in common."""
        return self.set, self.metric, self.signature, self.texts


@dataclass(frozen=True)
class RunSummary:
    """Facts of a run; None for what an unfinished run does not know."""

    run: str
    task: str
    model: str
    parameters: int
    gflops_per_token: float
    """Operations to encode and to decode a token."""
    weights: str | None
    """Selected candidate for the final weights."""
    minutes: float | None
    steps: int | None
    tokens: int | None
    """Units that the loss was computed on."""
    unit: str
    """Tokens, texts or windows."""
    tokens_per_second: float | None
    """Median over the log lines of the training."""
    scores: tuple[RunScore, ...]
    settings: Tree = field(default_factory=dict)
    """Every key of the configuration, dotted, with its value."""
    train_loss: float | None = None
    """Loss of the last log line of the training."""
    valid_loss: float | None = None
    """Loss of the last validation during the training."""


def summarize_run(path: Path) -> RunSummary:
    """Collect the facts of a run. Raises RunError if the folder is no run, DataError if its tokenizer is missing."""
    folder = RunFolder(path)
    settings, model, result = folder.read_complete_config(), read_model_summary(folder), folder.read_scores()
    origin, metrics = folder.read_origin(), _read_metrics(folder)
    texts = {name: _corpus_fingerprint(name, folder) for name in result.get("scores", {})}
    return RunSummary(
        run=str(path),
        task=settings.get("task", "translation"),
        model=settings["model"]["kind"],
        parameters=model.parameters,
        gflops_per_token=sum(model.flops.values()) / 1e9,
        weights=f"imported from {origin['format']}" if origin else result.get("weights"),
        minutes=None if (seconds := result.get("seconds", metrics.seconds)) is None else seconds / 60,
        steps=result.get("steps", metrics.steps),
        tokens=result.get("tokens"),
        unit=model.unit,
        tokens_per_second=median(metrics.speeds) if metrics.speeds else None,
        train_loss=metrics.train_loss,
        valid_loss=metrics.valid_loss,
        scores=tuple(
            RunScore(
                name, score["metric"], score["value"], score["signature"], score["higher_is_better"], texts=texts[name]
            )
            for name, scores in result.get("scores", {}).items()
            for score in scores
        ),
        settings=flatten(settings),
    )


def differing_settings(runs: Sequence[RunSummary]) -> dict[str, list[Any]]:
    """Return the configuration keys in which the runs differ, with the value of each run; MISSING without the key."""
    keys = dict.fromkeys(key for run in runs for key in run.settings)
    values = {key: [run.settings.get(key, MISSING) for run in runs] for key in keys}
    return {key: row for key, row in values.items() if any(value != row[0] for value in row)}


def flatten(tree: Mapping[str, Any], prefix: str = "") -> Tree:
    """Return the values of nested settings by dotted key."""
    flat: Tree = {}
    for key, value in tree.items():
        is_group = isinstance(value, Mapping) and value
        flat |= flatten(value, f"{prefix}{key}.") if is_group else {f"{prefix}{key}": value}
    return flat


def comparable_scores(runs: Sequence[RunSummary]) -> list[RunScore]:
    """Return the first of all comparable scores, in the order of their occurrence, grouped by set."""
    first: dict[ScoreKey, RunScore] = {}
    for score in (one for run in runs for one in run.scores):
        first.setdefault(score.key, score)
    sets = list(dict.fromkeys(score.set for score in first.values()))
    return sorted(first.values(), key=lambda score: sets.index(score.set))


def find_score(run: RunSummary, key: ScoreKey) -> RunScore | None:
    """Return the score of a run with this key; None if it has none."""
    return next((one for one in run.scores if one.key == key), None)


def _corpus_fingerprint(name: str, folder: RunFolder) -> str:
    """Return the fingerprint of the files of a set, or of all files and the split if it was held out of training data.

    The fingerprint is empty if several corpus files have the same name, because the run knows their names only.
    """
    settings, environment = folder.read_complete_config(), folder.read_environment()
    data = settings["data"]
    corpora = environment.get("corpora", [])
    names = [Path(path).name for path in _corpus_paths(data.get(name))]
    own = [one for one in corpora if not names or any(fnmatch(one["file"], pattern) for pattern in names)]
    if len({one["file"] for one in own}) < len(own) or get_value(data, "train.kind") == "prepared":
        return ""
    facts = [*(one["sha256"] for one in own), *([] if names else _split_facts(settings, environment.get("seed")))]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def _split_facts(settings: Tree, seed: object) -> list[object]:
    """Return what determines the held-out part of a corpus: the end of running text, or else a draw by seed."""
    data = settings["data"]
    size = data.get("valid_size")
    if settings.get("task") in ("language_modeling", "masked_lm") and data.get("kind", "text") == "text":
        return [TEXT_VALID_SHARE if size is None else size]
    return [size, seed]


def _corpus_paths(corpus: object) -> Iterator[str]:
    """Yield the text files of a corpus."""
    for key, value in corpus.items() if isinstance(corpus, dict) else ():
        if key in ("source", "target", "path"):
            yield from [value] if isinstance(value, str) else map(str, value if isinstance(value, list) else ())


@dataclass
class _Metrics:
    """Numbers of the metrics file: the last ones, and the speed of each log line."""

    speeds: list[float] = field(default_factory=list)
    steps: int | None = None
    seconds: float | None = None
    train_loss: float | None = None
    valid_loss: float | None = None


def _read_metrics(folder: RunFolder) -> _Metrics:
    """Read the metrics file; lines that are cut off or damaged are skipped."""
    metrics = _Metrics()
    if os.path.lexists(folder.metrics):
        with METRICS.open(folder.metrics) as file:
            for line in file:
                _add_line(metrics, line)
    return metrics


def _add_line(metrics: _Metrics, line: bytes) -> None:
    """Add the numbers of a line of the metrics file."""
    if not line.startswith((b'{"event": "log"', b'{"event": "validation"')):
        return
    try:
        event = parse_json(line)
        numbers = {key: float(event[key]) for key in ("step", "seconds")}
        if event["event"] == "validation":
            metrics.valid_loss = float(event["scores"]["loss"])
        else:
            speed, metrics.train_loss = float(event["tokens_per_second"]), float(event["loss"])
            metrics.speeds.append(speed)
    except (ValueError, KeyError, TypeError):
        return
    metrics.steps, metrics.seconds = int(numbers["step"]), numbers["seconds"]
