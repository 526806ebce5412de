"""Experiment configuration: read, complete and validate the settings of a run."""

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from dragoman.config import Config, override, parse
from dragoman.config_errors import name_origins
from dragoman.config_keys import keys_of
from dragoman.config_trees import Tree, get_value, merge, nest
from dragoman.data.readers.parallel import is_glob
from dragoman.data.readers.recognize_format import TextFormat, recognize_corpus, recognize_pairs, recognize_text
from dragoman.errors import ConfigError, Problem, RunError, nearest, shorten
from dragoman.number_words import counted
from dragoman.option_synonyms import suggest_keys
from dragoman.runs.folder import RunFolder, without_format
from dragoman.runs.presets import DEFAULT_TASK, preset_tree, presets_for_kind
from dragoman.tasks.config import TASK_CONFIGS, Experiment, TranslationConfig
from dragoman.training.checkpoint import CheckpointStore
from dragoman.training.config import TranslationTrainingConfig
from dragoman.training.schedules import depends_on_length
from dragoman.yaml_files import RUN_CONFIG, read_yaml

EXPECTED_KEY = "expected"
"""Key of a recipe for its expected scores, which are not part of the experiment."""
CORPUS_PATH_KEYS = ("source", "target", "source_features", "path", "folder")
"""Keys of a corpus that name files."""
LENGTHS: Final = frozenset(("max_epochs", "max_steps"))
"""Keys of the section `training` that limit its length; those of one source of settings replace all others."""


def read_settings(file: Path | None, assignments: Sequence[str]) -> Tree:
    """Read a configuration file and apply `KEY=VALUE` assignments; a preset is not resolved."""
    tree = read_yaml(file) if file is not None else {}
    tree = {key: value for key, value in tree.items() if key != EXPECTED_KEY}
    return merge_settings(tree, override({}, assignments))


def apply_preset(tree: Mapping[str, Any]) -> Tree:
    """Merge the settings over the preset that they name, if any.

    Raises ConfigError if the settings select a model of another kind than the preset.
    """
    rest = {key: value for key, value in tree.items() if key != "preset"}
    name, kind = tree.get("preset"), get_value(rest, "model.kind")
    if name is None:
        return rest
    under = preset_tree(name, task=tree.get("task"))
    others = presets_for_kind(kind, task=under.get("task", DEFAULT_TASK))
    if others and name not in others:
        message = (
            f"preset: {name} is a model of kind {under['model']['kind']}, and model.kind is {kind}. Leave one of them "
            f"out, or choose {' or '.join(others)}."
        )
        raise ConfigError(Problem(message, keys=("preset", "model.kind")))
    return merge(under, rest)


def corpus_settings(corpora: Mapping[str, str | Path | None]) -> Tree:
    """Return the settings of the corpora that `train` takes, by argument name.

    Raises ConfigError if they are of several kinds or incomplete.
    """
    given = {name: str(path) for name, path in corpora.items() if path is not None}
    if "prepared" in given:
        if len(given) > 1:
            raise ConfigError("--prepared contains training and validation data. Leave the other corpora out.")
        return {"data": {"train": {"kind": "prepared", "folder": given["prepared"]}}}
    texts = {"text", "valid_text"} & given.keys()
    if texts and given.keys() - texts:
        raise ConfigError("--text is for a language model and --source for a translator. Leave one of them out.")
    if texts == {"valid_text"}:
        raise ConfigError("--valid-text needs training text. Give --text too.")
    sides = {"train": _corpus_tree(given, ""), "valid": _corpus_tree(given, "valid_")}
    data = {name: tree for name, tree in sides.items() if tree}
    return {"data": data} if data else {}


def _corpus_tree(given: Mapping[str, str], prefix: str) -> Tree:
    """Return the settings of the training corpus, or of the validation corpus with the prefix `valid_`; {} without."""
    source, target, text, pairs = (given.get(prefix + side) for side in ("source", "target", "text", "pairs"))
    option = f"--{prefix.replace('_', '-')}"
    if pairs is not None and (source is not None or target is not None):
        raise ConfigError(f"{option}pairs contains both sides. Leave {option}source and {option}target out.")
    if (source is None) != (target is None):
        side, missing = ("source", "target") if target is None else ("target", "source")
        raise ConfigError(
            f"{option}{side} {source or target} is one side of a corpus. Give {option}{missing} too, aligned line by "
            f"line, or {option}pairs for a file with both sides."
        )
    if source is not None:
        return {"kind": "files", "source": source, "target": target}
    if pairs is not None:
        return _dump(recognize_pairs(Path(pairs), options=(f"{option}source", f"{option}target")))
    return {} if text is None else _dump(recognize_text(Path(text)))


def _dump(corpus: Config) -> Tree:
    """Return the settings of a recognized corpus that differ from their defaults."""
    return {"kind": corpus.model_dump()["kind"], **corpus.model_dump(mode="json", exclude_defaults=True)}


def is_text_corpus(tree: Any) -> bool:
    """Return whether the settings of a corpus are those of a text for a language model."""
    return isinstance(tree, Mapping) and (tree.get("kind") == "text" or "text_field" in tree)


def split_corpus(
    config: Path | None, corpora: Mapping[str, str | Path | None]
) -> tuple[Path | None, Mapping[str, str | Path | None]]:
    """Return a configuration file and the corpora; a corpus in the place of the file is the training corpus.

    Raises ConfigError if another training corpus is given, and DataError if the corpus is unreadable.
    """
    corpus = None if config is None or not (config.is_file() or is_glob(config)) else recognize_corpus(config)
    if corpus is None:
        return config, corpora
    name = "text" if isinstance(corpus, TextFormat) else "pairs"
    if others := [other for other in ("source", "pairs", "text", "prepared") if corpora.get(other) is not None]:
        raise ConfigError(f"{config} is a corpus, and --{others[0]} names another one. Leave one of them out.")
    return None, {**corpora, name: config}


def merge_settings(tree: Mapping[str, Any], over: Mapping[str, Any]) -> Tree:
    """Merge settings over others; a length in steps replaces one in epochs, and the reverse."""
    below, given = get_value(tree, "training"), get_value(over, "training")
    if isinstance(below, Mapping) and isinstance(given, Mapping) and LENGTHS & given.keys():
        tree = {**tree, "training": {key: value for key, value in below.items() if key not in LENGTHS}}
    return merge(tree, over)


def apply_overrides(tree: Mapping[str, Any], overrides: Mapping[str, Any]) -> Tree:
    """Merge settings by dotted key over others, as `merge_settings` does."""
    over: Tree = {}
    for key, value in overrides.items():
        over = merge(over, nest(key, value))
    return merge_settings(tree, over)


def lengthen(folder: RunFolder, experiment: Experiment, changes: Tree) -> Experiment:
    """Return the experiment of a run with the new length in `changes`.

    The number of steps of the last checkpoint ends an unfinished run there. Raises ConfigError on other changes and on
    any other length that the run has reached, and RunError without a checkpoint.
    """
    _check_lengths(changes)
    checkpoints = CheckpointStore(folder.checkpoints, keep=1)
    steps = checkpoints.steps()
    if not steps:
        raise RunError(
            f"{folder.path}: has no checkpoint yet, so its length cannot change. Leave the new length out, or train "
            "a new run."
        )
    longer = parse_experiment(merge_settings(experiment.model_dump(mode="json"), changes))
    progress = checkpoints.latest_progress()
    ends_here = not folder.is_finished() and longer.training.max_steps == progress.step > 0
    for key in () if ends_here else (progress.before_end or progress).reached_limits(longer.training):
        end = "" if folder.is_finished() else f", or --max-steps {progress.step} to end the training here"
        raise ConfigError(
            f"training.{key} = {getattr(longer.training, key):,}: {folder.path} has reached it after "
            f"{counted(progress.step, 'steps')}. Give a larger number{end}."
        )
    return longer


def describe_lengthening(folder: RunFolder, experiment: Experiment) -> str | None:
    """Return a note if the learning rate of a lengthened training is another from its next step on."""
    config = experiment.training
    if config.max_steps == folder.last_step() or not depends_on_length(config.schedule):
        return None
    return (
        f"from the next step on, the learning rate is that of the {config.schedule.kind} schedule over the new length"
    )


def _check_lengths(changes: Tree) -> None:
    training = changes.get("training", {})
    keys = [f"training.{key}" for key in training] if isinstance(training, Mapping) else ["training"]
    allowed = [f"training.{key}" for key in sorted({*LENGTHS, "patience"})]
    for key in [*(key for key in changes if key != "training"), *keys]:
        if key not in allowed:
            raise ConfigError(
                f"{key}: --resume can change the length of the training alone ({', '.join(allowed)}). Leave it out, or "
                "train a new run with --init-from."
            )


def parse_experiment(tree: Mapping[str, Any], *, where: str = "") -> Experiment:
    """Validate settings as an experiment of their task. Raises ConfigError with one line per error."""
    with name_origins({f"{where}: ": tree} if where else {}):
        whole = without_format(apply_preset(tree), where=where)
        task = whole.get("task", DEFAULT_TASK)
        if not isinstance(task, str) or task not in TASK_CONFIGS:
            near = nearest(str(task), TASK_CONFIGS)
            remedy = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(TASK_CONFIGS)}."
            raise ConfigError(Problem(f"task = {shorten(task)} does not exist. {remedy}", keys=("task",)))
        return parse(TASK_CONFIGS[task], whole, hint=lambda key: _hint_other_tasks(key, task), also=("preset",))


def read_experiment(file: Path) -> Experiment:
    """Read the configuration of a run."""
    return parse_experiment(read_yaml(file, RUN_CONFIG), where=str(file))


def _hint_other_tasks(key: str, task: str) -> str | None:
    """Return a hint for a key that belongs to other tasks."""
    owners = [name for name, settings in TASK_CONFIGS.items() if name != task and key in keys_of(settings)]
    return f"It belongs to task {' or '.join(owners)}, and this is task {task}." if owners else None


def resolve_config_paths(tree: Mapping[str, Any], data_dir: str | Path | None, *, complete: bool) -> Tree:
    """Resolve the corpus paths of a configuration against `data_dir`. Raises ConfigError if it is not `complete`."""
    if data_dir is None:
        return dict(tree)
    if not complete:
        raise ConfigError("--data has no effect without a configuration file. Leave it out.")
    return resolve_corpus_paths(tree, Path(data_dir))


def resolve_corpus_paths(tree: Mapping[str, Any], folder: Path) -> Tree:
    """Resolve the relative paths of the corpora against `folder`."""
    if "data" not in tree:
        return dict(tree)
    return {**tree, "data": map_paths(tree["data"], lambda path: str(folder / path), keys=CORPUS_PATH_KEYS)}


def map_paths(tree: Any, change: Callable[[str], str], *, keys: Collection[str], key: str = "") -> Any:
    """Apply `change` to the strings under the given keys; `key` is that of the tree, which may be a value."""
    if isinstance(tree, Mapping):
        return {name: map_paths(value, change, keys=keys, key=name) for name, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [map_paths(value, change, keys=keys, key=key) for value in tree]
    return change(tree) if key in keys and isinstance(tree, str) else tree


def describe_validation(experiment: Experiment) -> str | None:
    """Return a note if the translations during the training and the final ones have different beam sizes."""
    if not isinstance(experiment, TranslationConfig) or not experiment.training.validate_bleu:
        return None
    size, final_size = experiment.training.validation_beam_size, experiment.decoding.beam_size
    if size == final_size:
        return None
    return (
        f"{experiment.metrics[0].kind} during the training is that of beam size {size}, and the final scores are those "
        f"of beam size {final_size}"
    )


def check_keywords(training: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise TypeError on a keyword that `train` does not know, with the most similar one or the key of a setting."""
    for name in sorted(training.keys() - set(known)):
        keys = ["preset", *keys_of(TranslationConfig)]
        meant = nearest(name, known, cutoff=0.75) or [suggest_keys(name, keys, group="training")]
        remedy = f"Did you mean {_as_keyword(meant[0], known)}?" if meant[0] else "See help(dragoman.train)."
        raise TypeError(f"train() got an unexpected keyword argument {name!r}. {remedy}")


def _as_keyword(phrase: str, known: Collection[str]) -> str:
    """Return a key as it is given to `train`: its own keyword, or an override."""
    key = phrase.partition(" ")[0].partition("=")[0]
    name = key.removeprefix("training.")
    return name if name in known else f'overrides={{"{key}": …}}'


def check_paths(arguments: Mapping[str, object]) -> None:
    """Raise TypeError on an argument that is no path, such as a list of texts."""
    for name, path in arguments.items():
        if not isinstance(path, str | Path | None):
            raise TypeError(f"{name} is {path!r:.60}, not a path. Write texts to a file, and give its path.")


def with_training_options(signature: inspect.Signature) -> inspect.Signature:
    """Replace `**training` by one keyword for each field of the training settings."""
    named = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    keyword = inspect.Parameter.KEYWORD_ONLY
    options = [
        inspect.Parameter(name, keyword, default=field.get_default(), annotation=field.annotation)
        for name, field in TranslationTrainingConfig.model_fields.items()
    ]
    return signature.replace(parameters=[*named, *options])
