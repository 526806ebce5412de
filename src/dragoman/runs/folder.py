"""Run folder: the files of a run, which are all that is needed to use, explain and resume it."""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from pydantic import ValidationError

from dragoman import runs
from dragoman.atomic_files import make_folder, try_lock, write_atomically
from dragoman.checksums import check_json, is_sealed, seal, to_checked_json
from dragoman.config_errors import describe_rule
from dragoman.config_trees import Tree
from dragoman.data.tokenizers import Tokenizer
from dragoman.data.tokenizers.tokenizer_pair import MAX_FILE
from dragoman.errors import ConfigError, RunError, quote, shorten, shorten_text, suggest_path
from dragoman.evaluation.quality_profile import ConfidenceCurve, QualityProfile
from dragoman.evaluation.source_familiarity import SourceFamiliarity
from dragoman.evaluation.translation_checks import TextStatistics
from dragoman.runs.record_schemas import (
    AlignmentRecord,
    ConfigRecord,
    EnvironmentRecord,
    ExportRecord,
    OriginRecord,
    QualityRecord,
    Record,
    ScoresRecord,
)
from dragoman.training.checkpoint_folders import checkpoint_steps
from dragoman.untrusted_files import LINK_REMEDY, MEBIBYTE, FileKind
from dragoman.yaml_files import RUN_CONFIG, read_yaml, to_yaml

if TYPE_CHECKING:
    from dragoman.tasks.config import Experiment

FORMAT_KEY, FORMAT_VERSION = "format_version", 1
"""First key of config.yaml."""
_RECORD = FileKind(MEBIBYTE, error=RunError)
"""Environment, scores, origin and model card of a run."""
_COPIED = FileKind(MAX_FILE, error=RunError)
"""Any of them, and the tokenizer."""
_ORIGIN = FileKind(8 * MEBIBYTE, error=RunError)
"""Origin of an imported model, with its settings in the other program."""


@final
class _Member:
    """Descriptor of a file or folder inside a run folder."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, folder: "RunFolder", owner: type) -> Path:
        return folder.path / self.name


@final
@dataclass(frozen=True)
class RunFolder:
    """Paths of the files in a run folder, and checks that protect existing runs."""

    path: Path
    config = _Member("config.yaml")
    tokenizer = _Member("tokenizer.json")
    labels = _Member("labels.json")
    weights = _Member("model.safetensors")
    unfinished = _Member("unfinished.txt")
    checkpoints = _Member("checkpoints")
    metrics = _Member("metrics.jsonl")
    environment = _Member("environment.json")
    scores = _Member("scores.json")
    quality = _Member("quality.json")
    familiarity = _Member("familiarity.safetensors")
    alignment = _Member("alignment.json")
    export = _Member("export.json")
    origin = _Member("origin.json")
    shortlist = _Member("shortlist.safetensors")
    graph = _Member("decoder.onnx")
    model_card = _Member("README.md")

    def files(self) -> list[Path]:
        """Return the files of a run that exist."""
        members = [self.path / one.name for one in vars(RunFolder).values() if isinstance(one, _Member)]
        return [path for path in members if path.is_file()]

    def check_new(self, *, resumes: bool = True) -> None:
        """Raise RunError if the folder contains anything but temporary files of a killed process.

        With `resumes`, the message says how a training in it is continued.
        """
        if self.path.is_dir() and all(_is_temporary(path) for path in self.path.iterdir()):
            return
        if self.path.exists():
            remedy = (
                f"Continue it with --resume {quote(self.path)}, or choose"
                if resumes and self.config.is_file()
                else "Choose"
            )
            raise RunError(f"{self.path}: exists, and runs are never overwritten. {remedy} another --output-dir.")

    def create(self) -> None:
        """Create the folder. Raises RunError if it exists and is not empty."""
        self.check_new()
        try:
            if not self.path.is_dir():
                make_folder(self.path)  # of two concurrent processes, one fails
        except OSError as error:
            raise RunError(
                f"{self.path}: cannot be created ({error.strerror}). Choose another --output-dir."
            ) from error

    @contextmanager
    def remove_on_error(self) -> Iterator[None]:
        """Remove a created folder if the block raises before the first checkpoint and no other process trains in it."""
        try:
            yield
        except BaseException:
            if not self.weights.exists() and not self.has_checkpoints():
                with suppress(RunError, OSError), self.locked():
                    shutil.rmtree(self.path, ignore_errors=True)
            raise

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder against other trainings, and remove temporary files of killed processes.

        The operating system releases the lock when the process ends. Raises RunError if the folder is locked, and if
        one of its files is a link, which a training would follow to write and delete files elsewhere.
        """
        for path in (*self.path.iterdir(), *self.checkpoints.glob("*")):
            if path.is_symlink():
                raise RunError(f"{path}: is a symbolic link; {LINK_REMEDY}")
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            if not try_lock(descriptor):
                raise RunError(f"{self.path}: another process is training in it. Wait until it ends, or stop it.")
            self._remove_temporary_files()
            yield
        finally:
            os.close(descriptor)

    def _remove_temporary_files(self) -> None:
        for folder in (self.path, self.checkpoints):
            for path in folder.glob(".*.tmp"):
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)

    def check(self) -> None:
        """Raise RunError if this is not a run folder."""
        if self.config.is_file():
            return
        near, reason, remedy = suggest_path(self.path), "it has no config.yaml", "Give a run folder."
        if not self.path.exists():
            reason, remedy = "it does not exist", f"Did you mean {near}?" if near else remedy
        elif self.path.is_file():
            reason, remedy = "it is a file", "Give a run folder; texts go to options such as --input."
        raise RunError(f"{self.path}: is not a run folder, because {reason}. {remedy}")

    def write_config(self, experiment: "Experiment") -> None:
        self.write_config_tree(experiment.model_dump(mode="json"))

    def write_config_tree(self, tree: Tree) -> None:
        """Write a complete and valid configuration."""
        write_atomically(self.config, seal(to_yaml({FORMAT_KEY: FORMAT_VERSION, **tree})))

    def has_written_config(self) -> bool:
        """Return whether the configuration is unchanged since it was written, and therefore valid."""
        self.check()
        text = RUN_CONFIG.read_text(self.config)
        return is_sealed(text) and text.startswith(f"{FORMAT_KEY}: {FORMAT_VERSION}\n")

    def lengthen(self, experiment: "Experiment") -> None:
        """Write the configuration of a longer training; weights of the shorter one stay in use until it ends."""
        if self.weights.exists():
            write_atomically(self.unfinished, f"{self.weights.name} is of a shorter training, which was lengthened.\n")
        self.write_config(experiment)

    def has_checkpoints(self) -> bool:
        return self.last_step() is not None

    def last_step(self) -> int | None:
        """Return the step of the latest checkpoint."""
        return max(checkpoint_steps(self.checkpoints), default=None)

    def how_to_finish(self) -> str:
        """Return the commands that continue an unfinished training, or end it at its latest checkpoint."""
        command = f"dragoman train --resume {quote(self.path)}"
        step = self.last_step()
        end = f". Or end it at step {step:,}: {command} --max-steps {step}" if step else ""
        return f"Continue it with: {command}{end}"

    def check_resumable(self) -> None:
        """Raise RunError if there are weights, but no checkpoint to continue from, as in an exported model."""
        if self.has_checkpoints() or not self.weights.exists():
            return
        origin = self.read_export().get("run")
        what, continue_origin = "has no checkpoint to continue from", "Train"
        if format_name := self.read_origin().get("format"):
            what = f"is a model imported from {format_name}, which {what}"
        if origin is not None:
            what, continue_origin = f"is an exported model, which {what}", f"Continue the run {origin}, or train"
        raise RunError(f"{self.path}: {what}. {continue_origin} a new run with --init-from {quote(self.path)}.")

    def is_finished(self) -> bool:
        """Return whether the training has ended, and was not lengthened since."""
        return bool(self.weight_files()) and not self.unfinished.exists()

    def weight_files(self) -> list[Path]:
        """Return the files of the weights, or of the graphs of ONNX that hold them; none of an unfinished training."""
        return [self.weights] if self.weights.exists() else sorted(self.path.glob("*.onnx"))

    def read_config(self) -> "Experiment":
        """Return the experiment. Raises RunError if this is not a run folder, ConfigError if it is invalid."""
        self.check()
        return runs.read_experiment(self.config)

    def read_raw_config(self) -> Tree:
        """Return the configuration without validation, which would import PyTorch."""
        self.check()
        return without_format(read_yaml(self.config, RUN_CONFIG), where=str(self.config))

    def read_complete_config(self) -> Tree:
        """Return the configuration with its sections; an incomplete one is completed, which imports PyTorch.

        Raises ConfigError if it is invalid.
        """
        tree = self.read_raw_config()
        try:
            ConfigRecord.model_validate(tree)
        except ValidationError:
            return self.read_config().model_dump(mode="json")
        return tree

    def expected_workers(self) -> int:
        """Return the number of workers that continuing this run takes, 1 if unknown or more than the cores here."""
        if self.is_finished():
            return 1
        training = self.read_raw_config().get("training")
        configured = training.get("num_workers") if isinstance(training, dict) else 1
        workers: Any = self.read_environment().get("num_workers") if configured == "auto" else configured
        return workers if workers in range(1, (os.cpu_count() or 1) + 1) else 1

    def check_finished(self) -> None:
        """Raise RunError if the training has not ended, or the folder has graphs in the place of weights."""
        if self.graph.exists():
            raise RunError(
                f"{self.path}: holds graphs of ONNX, which are for translate and generate on a CPU. Give the run that "
                "they come from."
            )
        if not self.weights.exists():
            raise RunError(f"{self.path}: the training has not ended. {self.how_to_finish()}")

    def copy_files(self, into: "RunFolder", *files: Path) -> None:
        """Copy those of the files that exist to another folder. Raises RunError if one is a link."""
        for path in files:
            if os.path.lexists(path):
                write_atomically(into.path / path.name, _COPIED.read_bytes(path))

    def read_model_card(self) -> str:
        """Return the text of the model card; an empty text without one."""
        return _RECORD.read_text(self.model_card) if os.path.lexists(self.model_card) else ""

    def open(self, path: Path) -> "RunFolder":
        """Return the folder of another run."""
        return RunFolder(path)

    def read_tokenizer(self) -> Tokenizer:
        """Return the tokenizer. Raises RunError if the file belongs to another run."""
        tokenizer = Tokenizer.load(self.tokenizer)
        expected = self.read_environment().get("tokenizer")
        if expected is not None and expected != tokenizer.fingerprint:
            raise RunError(
                f"{self.tokenizer}: is not the tokenizer that the run was trained with. Restore the original file."
            )
        return tokenizer

    def read_environment(self) -> dict[str, Any]:
        return _read_record(self.environment, EnvironmentRecord)

    def read_export(self) -> dict[str, Any]:
        """Return the compute type and origin of an exported model; an empty mapping for a run."""
        return _read_record(self.export, ExportRecord)

    def read_origin(self) -> dict[str, Any]:
        """Return the origin of an imported model; an empty mapping for a run that was trained here."""
        return _read_record(self.origin, OriginRecord, _ORIGIN)

    def training_fingerprints(self) -> set[str]:
        """Return the SHA-256 of each file that the run was trained on, as far as they are recorded."""
        corpora = self.read_environment().get("corpora", [])
        data = self.read_raw_config().get("data") if corpora else None
        named = [data.get(key) for key in ("train", "extra_corpora")] if isinstance(data, dict) else []
        patterns = {Path(text).name for one in named for text in _texts(one)}
        return {
            str(corpus["sha256"])
            for corpus in corpora
            if any(fnmatchcase(str(corpus["file"]), pattern) for pattern in patterns)
        }

    def read_scores(self) -> dict[str, Any]:
        return _read_record(self.scores, ScoresRecord)

    def read_quality(self) -> QualityProfile | None:
        """Return the profile of the translations of a calibrated model."""
        if not (tree := _read_record(self.quality, QualityRecord)):
            return None
        record = QualityRecord.model_validate(tree)
        statistics = record.statistics
        return QualityProfile(
            ConfidenceCurve(tuple(record.curve.confidences), tuple(record.curve.scores)),
            TextStatistics(
                statistics.mean_log_ratio, statistics.max_deviation, tuple(statistics.scripts), statistics.copies
            ),
            record.pairs,
        )

    def write_quality(self, profile: QualityProfile) -> None:
        """Write the profile of a calibrated model."""
        write_atomically(self.quality, to_checked_json(asdict(profile)))

    def read_familiarity(self) -> SourceFamiliarity | None:
        """Return the model of the training sources; None for a run without one. Raises DataError if it is damaged."""
        return SourceFamiliarity.load(self.familiarity) if self.familiarity.exists() else None

    def read_alignment(self) -> dict[str, Any]:
        """Return layer, head and shift of the cross-attention that aligns words; an empty mapping if none is chosen."""
        return _read_record(self.alignment, AlignmentRecord)

    def write_alignment(self, head: Mapping[str, Any]) -> None:
        """Write layer, head and shift of the cross-attention that aligns words."""
        write_atomically(self.alignment, to_checked_json(dict(head)))


def scoring_command(task: str, run: str | Path) -> str | None:
    """Return the command that scores a model on a test set; None for a task without one."""
    commands = {
        "translation": "dragoman evaluate RUN --source FILE --reference FILE",
        "language_modeling": "dragoman score RUN --perplexity --target FILE",
    }
    return commands[task].replace("RUN", quote(run)) if task in commands else None


def without_format(tree: Mapping[str, Any], *, where: str) -> Tree:
    """Return the settings of a run without their format version. Raises ConfigError on another version."""
    version = tree.get(FORMAT_KEY, FORMAT_VERSION)
    if version != FORMAT_VERSION:
        raise ConfigError(
            f"{where}: has {FORMAT_KEY} {shorten(version)}, and this version of dragoman reads {FORMAT_VERSION}. "
            "Install a newer one."
        )
    return {key: value for key, value in tree.items() if key != FORMAT_KEY}


def _texts(tree: Any) -> Iterator[str]:
    """Yield the texts in a tree of settings."""
    if isinstance(tree, str):
        yield tree
    for inner in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _texts(inner)


def _is_temporary(path: Path) -> bool:
    return path.name.startswith(".") and path.name.endswith(".tmp")


def _read_record(path: Path, schema: type[Record], kind: FileKind = _RECORD) -> dict[str, Any]:
    """Return the content of a JSON file with the keys of a schema; an empty mapping without the file.

    Raises RunError for other content, and for content that differs from its checksum.
    """
    if not os.path.lexists(path):
        return {}
    try:
        tree = check_json(kind.read_json_object(path))
        schema.model_validate(tree)
    except ValidationError as error:
        found = error.errors()[0]
        key = ".".join(map(str, found["loc"]))
        raise kind.damaged(path, f"{shorten_text(key)} {describe_rule(found)}") from error
    except ValueError as error:
        raise kind.damaged(path, str(error)) from error
    return tree
