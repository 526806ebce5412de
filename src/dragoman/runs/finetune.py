"""Resolution of given settings to an experiment, and fine-tuning: settings inherited from another run."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from dragoman.config_trees import Tree, get_value, is_set, merge
from dragoman.data.preprocessing.pipeline import prepare_data, read_index
from dragoman.errors import ConfigError
from dragoman.runs.auto_config import (
    CHARACTERS_PER_TOKEN,
    CPU_BATCH_TOKENS,
    Choice,
    apply_choices,
    auto_configure,
    auto_configure_text,
    corpus_size,
    count_text,
)
from dragoman.runs.config import is_text_corpus, merge_settings, parse_experiment
from dragoman.runs.folder import RunFolder
from dragoman.runs.presets import DEFAULT_TASK, preset_tree
from dragoman.tasks.config import Experiment, LanguageModelingConfig, PlainTextConfig, TranslationConfig
from dragoman.tasks.initial_weights import InitialExperiment, read_initial_experiment, without_dropout
from dragoman.tasks.task import cache_dir

FinetunedExperiment = TranslationConfig | LanguageModelingConfig
FINETUNING_STEPS = 1_000
"""Steps after which a trained model gains little on a small corpus."""
LEARNING_RATE_DIVISOR = 5
"""Divisor of the learning rate if all weights are trained, so that the model forgets little."""


def resolve_experiment(
    tree: Mapping[str, Any],
    *,
    complete: bool,
    device: torch.device,
    report: Callable[[str], None] = lambda _: None,
) -> tuple[Experiment, list[Choice]]:
    """Return the experiment for the given settings, and the automatic choices with their reasons.

    A `complete` tree comes from a configuration file and gets no automatic choices.
    """
    settings = dict(tree)
    if complete:
        return parse_experiment(apply_init_from(settings)), []
    if "data" not in settings:
        raise ConfigError(
            "No training data. Give --source and --target, --pairs, --text, or a configuration that names a corpus."
        )
    is_text = any(map(is_text_corpus, settings["data"].values()))
    if "init_from" in settings:
        return auto_configure_finetuning(settings, task="language_modeling" if is_text else DEFAULT_TASK, report=report)
    if is_text:
        return auto_configure_text(settings, device=device, report=report)
    return auto_configure(apply_init_from(settings), device=device, report=report)


def auto_configure_finetuning(
    tree: Tree, *, task: str = DEFAULT_TASK, report: Callable[[str], None] = lambda _: None
) -> tuple[FinetunedExperiment, list[Choice]]:
    """Return the experiment for settings that name corpora and an initial run, and what was chosen for it.

    The task is translation, or language modeling of plain text. Tokenizer, model, training and the settings of outputs
    are those of the initial run, unless given or chosen. Raises ConfigError and RunError, where possible before any
    corpus is read, and DataError on an unusable corpus.
    """
    initial = read_initial_experiment(RunFolder(Path(tree["init_from"])), task=task)
    if "data" in tree:
        tree = {**tree, "data": apply_prepared(tree)["data"]}  # without the tokenizer of a prepared corpus
    inherited = _inherited_settings(initial)
    experiment = _parse(merge_settings(inherited, tree))
    tokens = _count_tokens(experiment, report=report)
    choices = [choice for choice in _choices(tree, initial, experiment, tokens) if not is_set(tree, choice.key)]
    return _parse(merge_settings(merge_settings(inherited, apply_choices(choices, {})), tree)), choices


def _inherited_settings(initial: InitialExperiment) -> Tree:
    kept = {"task", "tokenizer", "model", "training", "decoding", "metrics", "generation", "chat_template"}
    tree: Tree = initial.model_dump(mode="json", include=kept)
    tree["training"] = {key: value for key, value in tree["training"].items() if key not in ("loss", "lora")}
    limits = {"max_source_length", "max_target_length", "context_length"}
    return {**tree, "data": initial.data.model_dump(include=limits)}


def _parse(tree: Tree) -> FinetunedExperiment:
    experiment = parse_experiment(tree)
    if not isinstance(experiment, FinetunedExperiment):
        raise ConfigError(
            f"task = {experiment.task}: --init-from is for translation and language modeling. Give a configuration "
            "file with init_from."
        )
    return experiment


def _count_tokens(experiment: FinetunedExperiment, *, report: Callable[[str], None]) -> int:
    """Return the number of training tokens, which is an estimate for plain text."""
    if isinstance(experiment.data, PlainTextConfig):
        return max(1, count_text(experiment.data, report=report) // CHARACTERS_PER_TOKEN)
    return corpus_size(prepare_data(experiment.data, cache_dir(), seed=experiment.training.seed, report=report)).tokens


def _choices(tree: Tree, initial: InitialExperiment, experiment: FinetunedExperiment, tokens: int) -> Iterator[Choice]:
    training = experiment.training
    batch_tokens = CPU_BATCH_TOKENS if training.batch_tokens == "auto" else training.batch_tokens
    step_tokens = batch_tokens * training.grad_accumulation
    max_epochs: int | None = min(max(round(FINETUNING_STEPS * step_tokens / tokens), 1), 10)
    max_steps = None
    if is_set(tree, "training.max_epochs") or is_set(tree, "training.max_steps"):
        max_epochs, max_steps = training.max_epochs, training.max_steps
    limits = [] if max_steps is None else [max_steps]
    if max_epochs is not None:
        limits.append(max_epochs * max(1, tokens // step_tokens))
    steps = min(limits)
    key, limit = ("max_steps", max_steps) if max_epochs is None else ("max_epochs", max_epochs)
    yield Choice(f"training.{key}", limit, "enough for a trained model")
    if training.lora is None:
        rate = float(f"{initial.training.optimizer.learning_rate / LEARNING_RATE_DIVISOR:.3g}")
        yield Choice("training.optimizer.learning_rate", rate, "a fifth of the initial run's, to forget little")
    yield Choice("training.schedule", {"kind": "linear", "warmup": max(1, steps // 20)}, "decays to zero")


def apply_init_from(tree: Mapping[str, Any]) -> Tree:
    """Merge the settings over tokenizer and model of the run in `init_from`, or over the tokenizer of a teacher.

    Raises ConfigError or RunError if such a run is unsuitable, and DataError if a prepared corpus is not one.
    """
    tree = apply_prepared(tree)
    task = tree.get("task", DEFAULT_TASK)
    start, teacher = tree.get("init_from"), get_value(tree, "training.loss.teacher")
    inherited: Tree = {}
    if isinstance(teacher, str | Path):
        tokenizer = read_initial_experiment(RunFolder(Path(teacher)), task=task).tokenizer
        inherited["tokenizer"] = tokenizer.model_dump(mode="json")
    if isinstance(start, str | Path):
        initial = read_initial_experiment(RunFolder(Path(start)), task=task)
        # A model without segment embeddings leaves their number to the task.
        excluded = {"num_segments"} if getattr(initial.model, "num_segments", 1) == 1 else set()
        tokenizer = initial.tokenizer if task == "translation" else without_dropout(initial.tokenizer)
        inherited["tokenizer"] = tokenizer.model_dump(mode="json")
        inherited["model"] = initial.model.model_dump(mode="json", exclude=excluded)
        if isinstance(initial, LanguageModelingConfig) and task == "language_modeling":
            inherited |= initial.model_dump(mode="json", include={"chat_template"})
    if not inherited:
        return dict(tree)
    name = tree.get("preset")
    preset = preset_tree(name, task=tree.get("task")) if name is not None else {}
    rest = {key: value for key, value in tree.items() if key != "preset"}
    return merge(merge(preset, inherited), rest)


def apply_prepared(tree: Mapping[str, Any]) -> Tree:
    """Merge the settings over tokenizer and limits of the prepared corpus in `data.train.folder`, if there is one.

    Raises DataError if the folder is no prepared corpus.
    """
    folder = get_value(tree, "data.train.folder")
    if get_value(tree, "data.train.kind") != "prepared" or not isinstance(folder, str | Path):
        return dict(tree)
    return merge(read_index(Path(folder)).settings(), tree)
