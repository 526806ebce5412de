"""Records of a run: model card (README.md), scores (scores.json) and environment (environment.json)."""

import platform
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, assert_never, final, overload

import torch

from dragoman.atomic_files import write_atomically
from dragoman.checksums import to_checked_json
from dragoman.data.tokenizers import Tokenizer
from dragoman.errors import quote
from dragoman.evaluation import Score
from dragoman.evaluation.useful_scores import reasons_against
from dragoman.html_tables import html_table
from dragoman.models.config import DecoderOnlyConfig, EncoderDecoderConfig, EncoderOnlyConfig, TransformerConfig
from dragoman.models.recurrent.config import RecurrentConfig
from dragoman.nn.cpu_training_ops import cpu_ops_instruction_set
from dragoman.number_words import counted
from dragoman.profiling.memory_and_time_estimate import build_meta_model, model_cost
from dragoman.runs.compare import ModelSummary
from dragoman.runs.corpus_languages import recorded_languages
from dragoman.runs.folder import RunFolder
from dragoman.runs.load import LoadOptions, load
from dragoman.runs.presets import matching_preset
from dragoman.tasks.config import ModelConfig, TranslationConfig
from dragoman.tasks.factory import build_task
from dragoman.tasks.task import TaskData, TaskDescription

if TYPE_CHECKING:
    from dragoman.runs.load import LoadedModel

_M = TypeVar("_M", bound="LoadedModel")
SCORES_HEADING = "## Scores"
MIN_USEFUL_STEPS = 1_000
"""Smallest number of steps that is suggested for a longer training."""
ESCAPED_BAR = r"\|"
"""Bar inside a cell of a Markdown table."""


@final
@dataclass(frozen=True)
class TrainingResult:
    """Scores of a finished run by data set, and what the training took."""

    path: Path
    """Run folder."""
    selected: str
    """Selected candidate for the final weights."""
    scores: dict[str, list[Score]]
    seconds: float
    """Seconds of the whole training, also of the steps before it was resumed."""
    steps: int
    tokens: int
    """Tokens the loss was computed on."""
    improving: bool = False
    """Whether the length of the training ended it while its validation scores still improved."""
    resumed_step: int = 0
    """Step that the training was resumed at, 0 if it was not."""
    resumed_seconds: float = 0.0
    """Seconds of the training up to this step."""

    @property
    def task(self) -> TaskDescription:
        """Description of the task of the run."""
        return build_task(RunFolder(self.path).read_config()).description

    @property
    def decoding(self) -> str | None:
        """Decoding settings of the scores; None for a task without decoding."""
        experiment = RunFolder(self.path).read_config()
        return experiment.decoding.describe() if isinstance(experiment, TranslationConfig) else None

    @property
    def low_score_note(self) -> str | None:
        """Note with reasons and a remedy if the validation scores are not good enough for a useful model."""
        return _low_score_note(self, self.task, run=quote(self.path))

    def to_dict(self) -> dict[str, Any]:
        """Return the output of `dragoman train --json`."""
        return {
            "path": str(self.path),
            "weights": self.selected,
            "steps": self.steps,
            "tokens": self.tokens,
            "seconds": self.seconds,
            "resumed_step": self.resumed_step,
            "resumed_seconds": self.resumed_seconds,
            "scores": {name: [one.to_dict() for one in scores] for name, scores in self.scores.items()},
            "decoding": self.decoding,
            "low_score_note": self.low_score_note,
        }

    def __repr__(self) -> str:
        scores = ", ".join(f"{name}: {', '.join(map(_short, some))}" for name, some in self.scores.items())
        return f"TrainingResult({str(self.path)!r}, steps={self.steps}, {scores or 'no scores'})"

    def _repr_html_(self) -> str:
        rows = [
            (name, score.metric, f"{score.value:z.2f}", score.signature)
            for name, scores in self.scores.items()
            for score in scores
        ]
        took = (
            f"{self.path}: {counted(self.steps, 'steps')} in {self.seconds / 60:.1f} minutes; weights: {self.selected}"
        )
        return f"<p>{escape(took)}</p>{html_table(['set', 'metric', 'score', 'signature'], rows)}"

    @overload
    def load(self, kind: None = None, **options: Unpack[LoadOptions]) -> "LoadedModel": ...

    @overload
    def load(self, kind: type[_M], **options: Unpack[LoadOptions]) -> _M: ...

    def load(self, kind: type[Any] | None = None, **options: Unpack[LoadOptions]) -> "LoadedModel":
        """Load the trained model; arguments and options are those of `dragoman.load`."""
        return load(self.path, kind, **options)


def _short(score: Score) -> str:
    return f"{score.metric} {score.value:z.2f}"


def _low_score_note(result: TrainingResult, task: TaskDescription, *, run: str) -> str | None:
    """Return a note, with reasons and remedies, if the validation scores are not good enough for a useful model."""
    if not (reasons := reasons_against(result.scores.get("valid", ()))):
        return None
    longer = f"Train longer, because the scores have not stopped improving: dragoman train --resume {run} --max-steps "
    steps = max(2 * result.steps, MIN_USEFUL_STEPS)
    remedy = f"{longer}{steps}. {task.advice.remedy}" if result.improving else task.advice.remedy
    return f"The validation scores are not good enough for a useful {task.noun}. {'; '.join(reasons)}. {remedy}"


def write_model_card(
    folder: RunFolder, data: TaskData, result: TrainingResult, *, task: TaskDescription, model: str, sample: str | None
) -> None:
    """Write README.md into the run folder: scores, data, `model` in words, training, generated `sample` and usage."""
    name = folder.path.resolve().name
    parts = [
        f"# {name}",
        f"{'An' if task.noun[0] in 'aeiou' else 'A'} {task.noun} trained with dragoman.{_languages_sentence(folder)}",
        SCORES_HEADING,
        _score_table(result),
        *([f"Decoding: {decoding}."] if (decoding := result.decoding) else []),
        *([f"**{note}**"] if (note := _low_score_note(result, task, run=name)) else []),
        "## Data",
        _data_section(data),
        "## Model",
        f"{model}; {describe_vocabulary(data.tokenizer)}.",
        f"Trained for {counted(result.steps, 'steps')} on {counted(result.tokens, task.loss_unit)} in "
        f"{result.seconds / 60:.1f} "
        f"minutes; the weights are: {result.selected}, selected on the validation set.",
        _describe_training(folder),
    ]
    if sample and not sample.isspace():  # indented, so that Markdown in it has no effect
        parts += ["## Sample", "\n".join(f"    {line}" for line in sample.split("\n"))]
    parts.append(usage_section(task, name))
    write_atomically(folder.model_card, "\n\n".join(parts) + "\n")


def _languages_sentence(folder: RunFolder) -> str:
    """Return the sentence that names the languages of a translator; empty where the run does not record them."""
    source, target = recorded_languages(folder.read_raw_config())
    return f" It translates from {source} to {target}." if source and target else ""


def usage_section(task: TaskDescription, name: str) -> str:
    """Return the section of a model card with the commands that use a run or export in the folder `name`."""
    parts = ["## Use", f"```\n{task.command.replace('RUN', name)}\n```"]
    if task.python_usage:
        parts.append(f"```python\nimport dragoman\n\n{task.python_usage.replace('RUN', name)}\n```")
    return "\n\n".join(parts)


def write_scores(folder: RunFolder, result: TrainingResult) -> None:
    """Write scores.json into the run folder."""
    tree = {
        "weights": result.selected,
        "seconds": round(result.seconds, 1),
        "steps": result.steps,
        "tokens": result.tokens,
        "scores": {name: [asdict(score) for score in scores] for name, scores in result.scores.items()},
        "model": asdict(summarize_model(folder)),
    }
    write_atomically(folder.scores, to_checked_json(tree))


def summarize_model(folder: RunFolder) -> ModelSummary:
    """Describe the model of a run, and count its parameters and operations."""
    experiment = folder.read_config()
    task = build_task(experiment)
    cost = model_cost(build_meta_model(experiment, folder))
    return ModelSummary(
        noun=task.description.noun,
        description=describe_model(experiment.model),
        unit=task.description.unit,
        loss_unit=task.description.loss_unit,
        parts=cost.parts,
        flops={str(name): count for name, count in cost.flops.items()},
        cache_bytes=cost.cache_bytes,
    )


def _score_table(result: TrainingResult) -> str:
    rows = [
        f"| {name} | {score.metric} | {score.value:z.2f} | `{score.signature.replace('|', ESCAPED_BAR)}` |"
        for name, scores in result.scores.items()
        for score in scores
    ]
    return "\n".join(["| set | metric | score | signature |", "|---|---|---:|---|", *rows])


def _data_section(data: TaskData) -> str:
    """Describe the data; files are named without their folders, because a model card is published."""
    rules = data.cleaning_report.rules if data.cleaning_report is not None else {}
    notes = list(data.notes)
    for path in sorted(data.fingerprints, key=len, reverse=True):
        notes = [note.replace(path, Path(path).name) for note in notes]
    lines = [
        *(f"`{Path(path).name}` sha256 {digest[:16]}…" for path, digest in data.fingerprints.items()),
        *(
            f"{'removed' if found.removed else 'kept'} as {rule}: {found.count:,}"
            for rule, found in rules.items()
            if found.count
        ),
        *notes,
    ]
    return "\n".join([f"{data.summary}.", "", *(f"- {line}" for line in lines)])


def _describe_training(folder: RunFolder) -> str:
    """Describe the settings that a reader needs first to train the model again."""
    experiment, environment = folder.read_config(), folder.read_environment()
    config, preset = experiment.training, matching_preset(experiment.model.model_dump())
    optimizer = f"{config.optimizer.kind}, {config.schedule.kind} schedule"
    facts = [
        f"seed {config.seed}",
        *([f"the sizes of preset {preset}"] if preset else []),
        f"learning rate {config.optimizer.learning_rate:g} ({optimizer})",
        f"batch_tokens {config.batch_tokens}",
        *([f"grad_accumulation {config.grad_accumulation}"] if config.grad_accumulation > 1 else []),
        *([counted(environment["num_workers"], "workers")] if "num_workers" in environment else []),
    ]
    rest = f"All settings are in `{folder.config.name}`, versions and machine in `{folder.environment.name}`."
    return f"Settings: {', '.join(facts)}. {rest}"


def describe_vocabulary(tokenizer: Tokenizer) -> str:
    """Return a phrase such as `8,000 bpe tokens`."""
    kind = tokenizer.config.kind
    if tokenizer.shared:
        return f"{len(tokenizer.source):,} {kind} tokens"
    return f"{len(tokenizer.source):,} {kind} tokens for the source and {len(tokenizer.target):,} for the target"


def describe_model(config: ModelConfig) -> str:
    """Return a phrase such as `Decoder-only Transformer, 6 layers, width 384/1536, 6 heads, learned positions`."""
    match config:
        case EncoderDecoderConfig():
            cell = " SSRU" if config.decoder_layer == "ssru" else ""
            layers = f"{config.encoder_layers} encoder and {config.decoder_layers}{cell} decoder layers"
            return f"Encoder-decoder Transformer, {layers}, {_describe_stack(config)}"
        case DecoderOnlyConfig():
            return f"Decoder-only Transformer, {config.num_layers} layers, {_describe_stack(config)}"
        case EncoderOnlyConfig():
            return f"Encoder-only Transformer, {config.num_layers} layers, {_describe_stack(config)}"
        case RecurrentConfig():
            attention = f"{config.attention.kind} attention" if config.attention.kind != "none" else "no attention"
            layers = f"{config.encoder_layers} encoder and {config.decoder_layers} decoder layers"
            return f"Recurrent encoder-decoder ({config.cell}), {layers}, width {config.d_model}, {attention}"
        case _:
            assert_never(config)


def _describe_stack(config: TransformerConfig) -> str:
    kv_heads = f", {config.num_kv_heads} key-value heads" if config.num_kv_heads is not None else ""
    positions = config.positions.kind if config.positions.kind != "none" else "no"
    return f"width {config.d_model}/{config.d_ff}, {config.num_heads} heads{kv_heads}, {positions} positions"


def write_environment(folder: RunFolder, data: TaskData, *, seed: int, device: torch.device, num_workers: int) -> None:
    """Write the environment the run started in; a training that is resumed replaces device, threads and workers."""
    before = folder.read_environment()
    facts = before or collect_environment(
        device=device, num_workers=num_workers, seed=seed, tokenizer=data.tokenizer, corpora=data.fingerprints
    )
    facts = facts | _device_facts(device, num_workers)
    if facts != before:
        write_atomically(folder.environment, to_checked_json(facts))


def collect_environment(
    *, device: torch.device, seed: int, tokenizer: Tokenizer, corpora: Mapping[str, str], num_workers: int = 1
) -> dict[str, Any]:
    """Return versions, machine, seed, code revision and corpora; corpora are named without their folders."""
    return {
        "dragoman": version("dragoman"),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        **_device_facts(device, num_workers),
        "seed": seed,
        "git": _git_revision(),
        "tokenizer": tokenizer.fingerprint,
        "corpora": [{"file": Path(path).name, "sha256": digest} for path, digest in corpora.items()],
    }


def environment_changes(before: Mapping[str, Any], *, device: torch.device, num_workers: int = 1) -> list[str]:
    """Return the differences from the environment that a run started in, as far as they may change the last digits."""
    now = {"torch": torch.__version__, **_device_facts(device, num_workers)}
    return [
        f"{name} {before[name]} then, {value} now" for name, value in now.items() if before.get(name, value) != value
    ]


def _device_facts(device: torch.device, num_workers: int) -> dict[str, Any]:
    return {
        "device": str(device),
        "threads": torch.get_num_threads(),
        "cpu_ops": cpu_ops_instruction_set(device) or "none",
        "num_workers": num_workers,
    }


def _git_revision() -> str | None:
    """Return the revision of the checkout that this package runs from, with a mark for changes; None elsewhere."""
    here = Path(__file__)
    if _git(here.parent, "ls-files", "--error-unmatch", here.name) is None:
        return None  # installed, perhaps inside the checkout of another project
    return _git(here.parent, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(folder), *arguments]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=5)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip()
