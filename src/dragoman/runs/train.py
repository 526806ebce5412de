"""Train a new run from settings, texts or keywords, and resume a run."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

from dragoman.config_errors import name_origins
from dragoman.config_trees import Tree
from dragoman.device import choose_device, describe_device
from dragoman.errors import RunError, quote
from dragoman.runs.config import (
    apply_overrides,
    check_keywords,
    check_paths,
    corpus_settings,
    describe_lengthening,
    lengthen,
    merge_settings,
    read_settings,
    resolve_config_paths,
    split_corpus,
    with_training_options,
)
from dragoman.runs.finetune import resolve_experiment
from dragoman.runs.folder import RunFolder
from dragoman.runs.model_card import TrainingResult
from dragoman.runs.presets import PresetName
from dragoman.runs.train_in_folder import train_in_folder
from dragoman.tasks.factory import build_task
from dragoman.training.callbacks import (
    SilentReporter,
    TrainingReporter,
    require_tensorboard,
)
from dragoman.training.config import TrainingOptions
from dragoman.training.launch import WorkerProcesses


def train(
    config: str | Path | Mapping[str, Any] | None = None,
    *,
    output_dir: str | Path,
    source: str | Path | None = None,
    target: str | Path | None = None,
    valid_source: str | Path | None = None,
    valid_target: str | Path | None = None,
    pairs: str | Path | None = None,
    valid_pairs: str | Path | None = None,
    text: str | Path | None = None,
    valid_text: str | Path | None = None,
    prepared: str | Path | None = None,
    init_from: str | Path | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
    preset: PresetName | None = None,
    overrides: Mapping[str, Any] | None = None,
    data_dir: str | Path | None = None,
    device: str | None = None,
    tensorboard: bool = False,
    reporter: TrainingReporter | None = None,
    **training: Unpack[TrainingOptions],
) -> TrainingResult:
    """Train a model and write it to a run folder.

    Give `source` and `target` or `pairs` for a translator, `text` for a language model, or `config` for any task.
    Settings that are not given are chosen from the data and the device.

    On a CPU that other programs use, set the environment variable `GOMP_SPINCOUNT=2000` before `torch` is first
    imported, as the command line does: waiting threads then leave the cores sooner. It has no effect later.

    Args:
        config: YAML file or mapping with the settings of the experiment, or a corpus as for `pairs` or `text`.
        output_dir: Folder of the new run; must not exist.
        source, target: Parallel training texts, aligned line by line.
        valid_source, valid_target: Validation texts; by default a part of the training texts.
        pairs, valid_pairs: Files with both sides, in place of `source` and `target`: tab-separated columns, JSON lines
            or Parquet, plain or compressed, or a pattern for shards.
        text, valid_text: Texts of a language model, as plain text or JSON lines.
        prepared: Folder that `dragoman data prepare` wrote, in place of texts.
        init_from: Run that tokenizer and weights are taken from (fine-tuning).
        source_language, target_language: Codes of the languages of a translator, such as `en`, which the run records;
            by default those that the corpus tells.
        preset: Name of a model size, such as `tiny`.
        overrides: Further settings by dotted key, such as `{"model.d_model": 64}`.
        data_dir: Folder that corpus paths in `config` are relative to.
        device: `cpu`, `cuda`, `mps`, …; by default the fastest available device.
        tensorboard: Also write TensorBoard events into the run folder.
        reporter: Receiver of status messages and training events.
        **training: Settings of the section `training`, such as `max_steps=1000`.

    Raises:
        ConfigError: A setting is unknown or does not fit the others.
        DataError: A text cannot be used.
        RunError: The folder exists.
    """
    check_keywords(training, inspect.signature(train).parameters)
    files: Mapping[str, str | Path | None] = {
        "source": source,
        "target": target,
        "valid_source": valid_source,
        "valid_target": valid_target,
        "pairs": pairs,
        "valid_pairs": valid_pairs,
        "text": text,
        "valid_text": valid_text,
        "prepared": prepared,
    }
    if not isinstance(overrides, Mapping | None):
        raise TypeError(f"overrides is {overrides!r:.60}, not a mapping. Give a dictionary of dotted keys and values.")
    check_paths({**files, "output_dir": output_dir, "init_from": init_from, "data_dir": data_dir})
    chosen_device, reporter, folder = choose_device(device), reporter or SilentReporter(), RunFolder(Path(output_dir))
    folder.check_new()
    if tensorboard:
        require_tensorboard()
    if isinstance(config, Mapping):
        settings, where = dict(config), ""
    else:
        config, files = split_corpus(None if config is None else Path(config), files)
        settings, where = read_settings(config, ()), f"{config}: " if config else ""
    given: Tree = {"preset": preset, "init_from": init_from and str(init_from), "training": training}
    given |= {"source_language": source_language, "target_language": target_language}
    given = corpus_settings(files) | {key: value for key, value in given.items() if value}
    given = apply_overrides(given, overrides or {})
    with name_origins({where: settings, "": given}), reporter.status() as report:
        settings = resolve_config_paths(settings, data_dir, complete=config is not None)
        experiment, choices = resolve_experiment(
            merge_settings(settings, given), complete=config is not None, device=chosen_device, report=report
        )
    reporter.show_choices(choices, device=describe_device(chosen_device))
    folder.create()
    with folder.remove_on_error():
        folder.write_config(experiment)
        return train_in_folder(folder, experiment, device=chosen_device, tensorboard=tensorboard, reporter=reporter)


train.__signature__ = with_training_options(inspect.signature(train))  # type: ignore[attr-defined]


def resume(
    path: str | Path,
    *,
    overrides: Mapping[str, Any] | None = None,
    device: str | None = None,
    tensorboard: bool = False,
    reporter: TrainingReporter | None = None,
    early: WorkerProcesses | None = None,
) -> TrainingResult:
    """Continue a training from its last checkpoint, to its end or to a new length.

    `overrides` gives the new length by dotted key, such as `{"training.max_steps": 2000}`; until the longer training
    ends, the run keeps its weights. `early` are worker processes that have been started already. Raises ConfigError on
    other settings and on a length that the run has reached, and RunError if the training has ended.
    """
    folder, reporter, chosen_device = RunFolder(Path(path)), reporter or SilentReporter(), choose_device(device)
    experiment = folder.read_config()
    folder.check_resumable()
    if tensorboard:
        require_tensorboard()
    if overrides:
        experiment = lengthen(folder, experiment, apply_overrides({}, overrides))
    elif folder.is_finished():
        command = build_task(experiment).description.command.replace("RUN", quote(folder.path))
        raise RunError(
            f"{folder.path}: the training has ended. Use the run with: {command}. Train it longer with: "
            f"dragoman train --resume {quote(folder.path)} --max-steps N"
        )
    reporter.show_choices([], device=describe_device(chosen_device))
    if overrides and (note := describe_lengthening(folder, experiment)) is not None:
        reporter.show_line(f"note: {note}")
    return train_in_folder(
        folder, experiment, device=chosen_device, tensorboard=tensorboard, reporter=reporter, early=early
    )
