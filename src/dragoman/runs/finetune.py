"""Fine-tuning: settings taken from the run that a training is initialized from."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dragoman.config import Tree, merge
from dragoman.data.preprocessing.prepare import prepare_data, read_index
from dragoman.errors import ConfigError
from dragoman.runs.auto_config import CPU_BATCH_TOKENS, Choice, apply_choices, corpus_size
from dragoman.runs.config import is_set, parse_experiment
from dragoman.runs.folder import RunFolder
from dragoman.runs.presets import DEFAULT_TASK, preset_tree
from dragoman.tasks.base import cache_dir
from dragoman.tasks.config import TranslationConfig
from dragoman.tasks.initialization import read_initial_experiment, without_dropout

FINETUNING_STEPS = 1_000
"""Updates after which a network that knows the languages gains little from a small corpus."""
LEARNING_RATE_DIVISOR = 5
"""By what the learning rate is divided where all weights are learnt, so that what they knew is not lost at once."""


def auto_configure_finetuning(tree: Tree) -> tuple[TranslationConfig, list[Choice]]:
    """The full experiment for a tree that names corpora and the run to `init_from` from; what the tree says stays.

    Network, tokenizer, search and scores are those of the run, and so is all of the training that no choice is about.
    Raises ConfigError and RunError, before any corpus is read where that can be, and DataError as reading them does.
    """
    begun = read_initial_experiment(RunFolder(Path(tree["init_from"])), task="translation")
    assert isinstance(begun, TranslationConfig)
    if "data" in tree:
        tree = {**tree, "data": apply_prepared(tree)["data"]}  # the tokenizer stays that of the run
    under = _inherited_settings(begun)
    asked = _translation(merge(under, tree))
    texts = prepare_data(asked.data, cache_dir(), seed=asked.training.seed)
    tokens = corpus_size(texts).tokens
    choices = [choice for choice in _choices(tree, begun, asked, tokens) if not is_set(tree, choice.key)]
    return _translation(merge(merge(under, apply_choices(choices, {})), tree)), choices


def _inherited_settings(begun: TranslationConfig) -> Tree:
    """What is as in the run that is begun with."""
    tree: Tree = begun.model_dump(mode="json", include={"tokenizer", "model", "training", "decoding", "metrics"})
    tree["training"] = {key: value for key, value in tree["training"].items() if key not in ("loss", "lora")}
    limits = begun.data.model_dump(include={"max_source_length", "max_target_length"})
    return {**tree, "data": limits}


def _translation(tree: Tree) -> TranslationConfig:
    experiment = parse_experiment(tree)
    if not isinstance(experiment, TranslationConfig):
        raise ConfigError(
            f"task = {experiment.task}: --init-from is for translation; give a configuration file with init_from"
        )
    return experiment


def _choices(tree: Tree, begun: TranslationConfig, asked: TranslationConfig, tokens: int) -> Iterator[Choice]:
    training = asked.training
    budget = CPU_BATCH_TOKENS if training.batch_tokens == "auto" else training.batch_tokens
    an_update = budget * training.grad_accumulation
    max_epochs: int | None = min(max(round(FINETUNING_STEPS * an_update / tokens), 1), 10)
    max_steps = None
    if is_set(tree, "training.max_epochs") or is_set(tree, "training.max_steps"):
        max_epochs, max_steps = training.max_epochs, training.max_steps
    limits = [] if max_steps is None else [max_steps]
    if max_epochs is not None:
        limits.append(max_epochs * max(1, tokens // an_update))
    updates = min(limits)
    key, limit = ("max_steps", max_steps) if max_epochs is None else ("max_epochs", max_epochs)
    yield Choice(f"training.{key}", limit, f"about {updates:,} updates of a network that knows much")
    if training.lora is None:
        rate = float(f"{begun.training.optimizer.learning_rate / LEARNING_RATE_DIVISOR:.3g}")
        yield Choice("training.optimizer.learning_rate", rate, "a fifth of the run's, so that little is forgotten")
    warmup = max(1, updates // 20)
    yield Choice("training.schedule", {"kind": "linear", "warmup": warmup}, "falls to nothing at the end")


def apply_init_from(tree: Mapping[str, Any]) -> Tree:
    """The tree laid over tokenizer and network of the run that its key `init_from` names, if any.

    Of a teacher, and of a prepared corpus, the tokenizer is taken. Raises ConfigError or RunError where that is no run
    to begin with, and DataError where a corpus that should be prepared is not.
    """
    tree = apply_prepared(tree)
    task = tree.get("task", DEFAULT_TASK)
    start, teacher = tree.get("init_from"), _teacher_of(tree)
    taken: Tree = {}
    if isinstance(teacher, str | Path):
        taken["tokenizer"] = read_initial_experiment(RunFolder(Path(teacher)), task=task).tokenizer.model_dump(
            mode="json"
        )
    if isinstance(start, str | Path):
        begun = read_initial_experiment(RunFolder(Path(start)), task=task)
        alone = {"num_segments"} if getattr(begun.model, "num_segments", 1) == 1 else set()  # it says nothing of pairs
        theirs = begun.tokenizer if task == "translation" else without_dropout(begun.tokenizer)
        taken["tokenizer"] = theirs.model_dump(mode="json")
        taken["model"] = begun.model.model_dump(mode="json", exclude=alone)
    if not taken:
        return dict(tree)
    name = tree.get("preset")
    below = preset_tree(name, task=tree.get("task")) if name is not None else {}
    rest = {key: value for key, value in tree.items() if key != "preset"}
    return merge(merge(below, taken), rest)


def apply_prepared(tree: Mapping[str, Any]) -> Tree:
    """The tree laid over the tokenizer and the limits of the prepared folder that its key `data.train` names, if any.

    Raises DataError where that is none.
    """
    data = tree.get("data")
    train = data.get("train") if isinstance(data, Mapping) else None
    folder = train.get("folder") if isinstance(train, Mapping) and train.get("kind") == "prepared" else None
    if not isinstance(folder, str | Path):
        return dict(tree)
    index = read_index(Path(folder))
    kept = ("max_source_length", "max_target_length", "temperature", "noise")
    said = {key: index[key] for key in kept if index.get(key) is not None}
    return merge({"tokenizer": index["tokenizer"]["config"], "data": said}, tree)


def _teacher_of(tree: Mapping[str, Any]) -> object:
    node: object = tree
    for key in ("training", "loss", "teacher"):
        node = node.get(key) if isinstance(node, Mapping) else None
    return node
