"""Beginning with what another run has learnt: its tokenizer, its network, and the weights of that."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from dragoman.config import Tree, merge
from dragoman.data.preprocessing.prepare import read_index
from dragoman.data.tokenizers import Bpe, TokenizerSettings
from dragoman.errors import ConfigError, RunError
from dragoman.models.weights import load_tensors, set_weights
from dragoman.runs.folder import RunFolder
from dragoman.runs.presets import DEFAULT_TASK, preset_tree
from dragoman.tasks.compatibility import Network
from dragoman.tasks.config import LanguageModelling, MaskedModelling, Translation

FREE = ("dropout", "predict_hidden", "segments")
"""What of a network may differ from the one that was begun with: no weight that is kept hangs on it."""
SEGMENTS = "embedding.segments.weight"
"""What is learnt anew where the other network read single texts."""

Begun = LanguageModelling | MaskedModelling | Translation


def with_start(tree: Mapping[str, Any]) -> Tree:
    """The tree laid over tokenizer and network of the run that its key `start` names, if any.

    Of a teacher, and of a prepared corpus, the tokenizer is taken. Raises ConfigError or RunError where that is no run
    to begin with, and DataError where a corpus that should be prepared is not.
    """
    tree = with_prepared(tree)
    task = tree.get("task", DEFAULT_TASK)
    start, teacher = tree.get("start"), _teacher(tree)
    taken: Tree = {}
    if isinstance(teacher, str | Path):
        taken["tokenizer"] = begun_with(Path(teacher), task=task).tokenizer.model_dump(mode="json")
    if isinstance(start, str | Path):
        begun = begun_with(Path(start), task=task)
        alone = {"segments"} if getattr(begun.model, "segments", 1) == 1 else set()  # it says nothing of pairs
        theirs = begun.tokenizer if task == "translation" else lasting(begun.tokenizer)
        taken["tokenizer"] = theirs.model_dump(mode="json")
        taken["model"] = begun.model.model_dump(mode="json", exclude=alone)
    if not taken:
        return dict(tree)
    name = tree.get("preset")
    below = preset_tree(name, task=tree.get("task")) if name is not None else {}
    rest = {key: value for key, value in tree.items() if key != "preset"}
    return merge(merge(below, taken), rest)


def with_prepared(tree: Mapping[str, Any]) -> Tree:
    """The tree laid over the tokenizer and the limits of the prepared folder that its key `data.train` names, if any.

    Raises DataError where that is none.
    """
    data = tree.get("data")
    train = data.get("train") if isinstance(data, Mapping) else None
    folder = train.get("folder") if isinstance(train, Mapping) and train.get("kind") == "prepared" else None
    if not isinstance(folder, str | Path):
        return dict(tree)
    index = read_index(Path(folder))
    kept = ("longest_source", "longest_target", "temperature", "noise")
    said = {key: index[key] for key in kept if index.get(key) is not None}
    return merge({"tokenizer": index["tokenizer"]["settings"], "data": said}, tree)


def lasting(settings: TokenizerSettings) -> TokenizerSettings:
    """The settings without what belongs to a training and not to the tokenizer."""
    return settings.model_copy(update={"dropout": 0.0}) if isinstance(settings, Bpe) else settings


def begun_with(start: Path, *, task: str = "classification") -> Begun:
    """The experiment of a run that one of `task` may begin with.

    Raises RunError where it is of a task that does not go before this one, or has not ended.
    """
    folder = RunFolder(start)
    experiment = folder.read_config()
    fits = Translation if task == "translation" else LanguageModelling | MaskedModelling
    if not isinstance(experiment, fits):
        wanted = "translation" if task == "translation" else "masked_modelling or language_modelling"
        raise RunError(f"{start}: is a run of task {experiment.task}; begin with one of task {wanted}")
    folder.require_weights()
    assert isinstance(experiment, Begun)
    return experiment


def weights_to_begin_with(
    start: Path | None, model: Network, folder: RunFolder, *, task: str = "classification"
) -> dict[str, Tensor] | None:
    """The weights of the run to begin with; None where there is none, or this run has weights of its own already.

    Raises ConfigError where the networks differ.
    """
    if start is None or any(folder.checkpoints.glob("[0-9]*")):
        return None
    begun = begun_with(start, task=task).model
    own, other = (config.model_dump(mode="json", exclude=set(FREE)) for config in (model, begun))
    for key in {**other, **own}:
        if own.get(key) != other.get(key):
            raise ConfigError(
                f"model.{key} = {own.get(key)!r}, but the run in {start} has {other.get(key)!r}; leave model out, "
                "and it is taken from there"
            )
    return load_tensors(RunFolder(start).weights)


def begin_with(model: nn.Module, tensors: Mapping[str, Tensor], *, where: str) -> None:
    """Set the weights of `model`, passing over what only the other network has, such as its head."""
    own = {name: parameter.detach() for name, parameter in model.named_parameters()}
    begun = {name: tensor for name, tensor in tensors.items() if name in own}
    if SEGMENTS in own and SEGMENTS not in begun:
        begun[SEGMENTS] = own[SEGMENTS]
    set_weights(model, begun, where=where)


def _teacher(tree: Mapping[str, Any]) -> object:
    node: object = tree
    for key in ("training", "objective", "teacher"):
        node = node.get(key) if isinstance(node, Mapping) else None
    return node
