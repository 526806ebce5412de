"""Automatic configuration: settings chosen from the data, the device and a profile, each with a reason."""

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar, assert_never

import torch

from dragoman.config_trees import Tree, get_value, is_set, merge, nest
from dragoman.data.datasets.text import prepare_text
from dragoman.data.preprocessing.pipeline import PreparedData, prepare_data
from dragoman.data.tokenizers import BpeConfig, UnigramConfig
from dragoman.errors import ConfigError
from dragoman.number_words import counted
from dragoman.profiling.measured_memory import available_bytes, format_bytes, resident_bytes
from dragoman.profiling.training_plan import RESERVE, Plan, build_plan, max_batch_tokens
from dragoman.profiling.training_profile import Profile, ProfileRequest, run_profiler
from dragoman.runs.config import parse_experiment
from dragoman.runs.corpus_languages import propose_languages
from dragoman.runs.folder import RunFolder
from dragoman.runs.presets import PRESETS
from dragoman.tasks.config import (
    ClassificationConfig,
    Experiment,
    LanguageModelingConfig,
    MaskedLMConfig,
    PlainTextConfig,
    QuestionAnsweringConfig,
    TaggingConfig,
    TranslationConfig,
)
from dragoman.tasks.task import cache_dir
from dragoman.tasks.translation import MIN_CHANGED_TARGETS, changed_targets
from dragoman.training.config import TrainingConfig

E = TypeVar("E", bound=Experiment)

TARGET_STEPS = 5_000
"""Steps, of `CPU_BATCH_TOKENS` each, after which a small model gains little on a small corpus."""
CPU_BATCH_TOKENS = 4096
GPU_BATCH_TOKENS: Final = 32_768
"""Batch tokens that suit a GPU; Vaswani et al. (2017) used about 25,000."""
SAMPLED_PAIRS: Final = 2_000
"""Pairs at the start of a corpus that tell its number of tokens and its white space."""
AUTO_SECONDS, PLAN_SECONDS = 1.0, 6.0
"""Time to spend on training steps, for `batch_tokens: auto` and for a plan."""
PROFILER: Final = """
import sys, pathlib
import dragoman.cli.main, dragoman.cli.training_display, dragoman.runs.train
from dragoman.profiling.profiling_subprocess import write_profile
from dragoman.runs.folder import RunFolder
write_profile(RunFolder(pathlib.Path(sys.argv[1])))
"""
"""Program of the profiling process; it imports what the command imports, which counts as memory."""
AUTO_PRESETS = ("nano", "tiny", "small", "base")
"""Presets that are chosen automatically."""
RECURRENT_PRESET = "lstm"
SMALLEST_TEXT_PRESET = "gpt-nano"
MUON_PRESETS = ("nano", "tiny")
"""Presets that gain from Muon: `tiny` (`benchmarks/multi30k`) and smaller ones."""
ROTARY_POSITIONS: Tree = {"model": {"positions": {"kind": "rotary"}}}
CHARACTERS_PER_TOKEN = 3
"""Cautious estimate for automatic vocabulary sizes."""


@dataclass(frozen=True)
class Choice:
    """Automatically chosen setting, and the reason."""

    key: str
    value: Any
    reason: str

    def __str__(self) -> str:
        if isinstance(self.value, dict):
            return " ".join(str(part) for part in self.value.values())
        return f"{self.value:,}" if isinstance(self.value, int) else str(self.value)


@dataclass(frozen=True)
class CorpusSize:
    """Size of a corpus in sentence pairs and estimated target tokens."""

    pairs: int
    tokens: int


def apply_choices(choices: Iterable[Choice], tree: Tree) -> Tree:
    """Merge the settings of `tree` over the choices."""
    chosen: Tree = {}
    for choice in choices:
        chosen = merge(chosen, nest(choice.key, choice.value))
    return merge(chosen, tree)


READING_MESSAGE = "reading and cleaning the corpus"


def auto_configure(
    tree: Tree, *, device: torch.device, report: Callable[[str], None] = lambda _: None
) -> tuple[TranslationConfig, list[Choice]]:
    """Return the experiment for settings that name at least parallel corpora, and what was chosen for it.

    Raises ConfigError, where possible before any corpus is read, and DataError on an unusable corpus.
    """
    experiment = apply_first_preset(tree)
    data = prepare_data(experiment.data, cache_dir(), seed=experiment.training.seed, report=report)
    split = Choice("data.valid_size", counted(len(data.valid), "pairs"), "no validation set was given")
    choices = [*translation_choices(tree, experiment, corpus_size(data), device), *_text_choices(tree, data)]
    return _apply_new(tree, experiment, choices, split)


def _text_choices(tree: Tree, data: PreparedData) -> Iterator[Choice]:
    """Yield the white space that the targets need, and the languages of a corpus that does not name any itself."""
    targets = [target for _, (_, target) in zip(range(SAMPLED_PAIRS), data.train, strict=False)]
    share = len(changed_targets(targets, whitespace="collapse")) / max(1, len(targets))
    if share >= MIN_CHANGED_TARGETS and _is_valid(tree, tree.get("preset"), {"tokenizer": {"whitespace": "keep"}}):
        reason = f"{100 * share:.0f} % of the targets have white space other than single spaces"
        yield Choice("tokenizer.whitespace", "keep", reason)
    if not any(is_set(tree, f"data.train.{side}_language") for side in ("source", "target")):
        yield from (Choice(*proposal) for proposal in propose_languages(tree, data))


def auto_configure_text(
    tree: Tree, *, device: torch.device, report: Callable[[str], None] = lambda _: None
) -> tuple[LanguageModelingConfig, list[Choice]]:
    """Return the experiment for settings that name at least plain text, and what was chosen for it.

    Raises ConfigError, where possible before the text is read, and DataError on unusable text.
    """
    experiment = _parse(merge({"preset": SMALLEST_TEXT_PRESET}, tree), LanguageModelingConfig)
    assert isinstance(experiment.data, PlainTextConfig), "the caller gives text"
    characters = count_text(experiment.data, report=report)
    split = Choice("data.valid_size", "the last tenth", "no validation text was given")
    return _apply_new(tree, experiment, text_choices(tree, experiment, characters, device), split)


def count_text(data: PlainTextConfig, *, report: Callable[[str], None]) -> int:
    """Return the number of characters of the training part of a text. Raises DataError if it is unusable."""
    report(READING_MESSAGE)
    return sum(map(len, prepare_text(data, report=report).train.texts()))


def _apply_new(tree: Tree, experiment: E, choices: Iterable[Choice], split: Choice) -> tuple[E, list[Choice]]:
    """Return the experiment with the choices that are not given, and these; `split` describes a held-out part."""
    chosen = [choice for choice in choices if not is_set(tree, choice.key)]
    is_split = experiment.data.valid is None and experiment.data.valid_size is None
    return _parse(apply_choices(chosen, tree), type(experiment)), [split, *chosen] if is_split else chosen


def apply_first_preset(tree: Tree) -> TranslationConfig:
    """Return the experiment with the first preset that fits the settings; raises ConfigError if none does."""
    errors: list[ConfigError] = []
    for preset in _eligible_presets(tree):
        try:
            return _parse(merge({"preset": preset, **_separate_vocabularies(tree)}, tree), TranslationConfig)
        except ConfigError as error:
            errors.append(error)
    raise errors[0]


def _parse(tree: Tree, kind: type[E]) -> E:
    """Validate settings as an experiment of a task; raises ConfigError if they name another task."""
    own: str = kind.model_fields["task"].default
    experiment = parse_experiment(tree | {"task": own})
    if (task := tree.get("task", own)) != own or not isinstance(experiment, kind):
        option = "source" if own == "translation" else "text"
        raise ConfigError(f"task = {task}: --{option} is for {own}. Give a configuration file for other tasks.")
    return experiment


def translation_choices(
    tree: Tree, experiment: TranslationConfig, size: CorpusSize, device: torch.device
) -> Iterator[Choice]:
    """Yield a choice for every automatic setting, given or not; dependent choices follow the given settings."""
    large = device.type != "cpu"
    if len(eligible := _eligible_presets(tree)) == 1:
        preset, reason = eligible[0], f"model.kind is {experiment.model.kind}"
    else:
        preset = _choose_preset(size.pairs, large=large)
        reason = f"{counted(size.pairs, 'pairs')} of about {size.tokens // size.pairs} tokens on {device.type}"
    yield Choice("preset", preset, reason)
    if isinstance(experiment.tokenizer, BpeConfig | UnigramConfig):
        yield Choice("tokenizer.vocab_size", vocab_size_for(size.pairs), "a third of the pairs, 1,000 to 32,000")
    if _separate_vocabularies(tree):
        yield Choice("model.tie_embeddings", "target", "two vocabularies cannot share one embedding")
    dropout = 0.3 if size.pairs < 100_000 else 0.2 if size.pairs < 500_000 else 0.1
    for place in ("embedding", "residual" if experiment.model.kind == "encoder_decoder" else "output"):
        yield Choice(f"model.dropout.{place}", dropout, "a smaller corpus needs more dropout")
    if not _sets_positions(preset) and _is_valid(tree, preset, ROTARY_POSITIONS):
        yield Choice("model.positions", ROTARY_POSITIONS["model"]["positions"], "learns faster than sinusoidal")
    if preset in MUON_PRESETS and experiment.model.kind == "encoder_decoder":
        rate = PRESETS[preset].tree["training"]["optimizer"]["learning_rate"]
        key, optimizer = "training.optimizer", {"kind": "muon", "learning_rate": rate}
        if _keys(get_value(tree, key)) == {"learning_rate"}:
            yield Choice(f"{key}.kind", "muon", "reaches better scores in as many steps")
        else:
            yield Choice(key, optimizer, "reaches better scores in as many steps")
    budget = 16_384 if large else CPU_BATCH_TOKENS
    yield from _training_choices(tree, experiment.training, preset=preset, tokens=size.tokens, budget=budget)


def text_choices(
    tree: Tree, experiment: LanguageModelingConfig, characters: int, device: torch.device
) -> Iterator[Choice]:
    """Yield a choice for every automatic setting, given or not; dependent choices follow the given settings."""
    large = device.type != "cpu"
    preset = tree["preset"] if is_set(tree, "preset") else _choose_text_preset(characters, large=large)
    yield Choice("preset", preset, f"{characters:,} training characters on {device.type}")
    if isinstance(experiment.tokenizer, BpeConfig | UnigramConfig):
        vocab_size = min(max(characters // 100_000 * 100, 1000), 32_000)
        yield Choice("tokenizer.vocab_size", vocab_size, "a thousandth of the characters, 1,000 to 32,000")
    dropout = 0.2 if characters < 20_000_000 else 0.1 if characters < 200_000_000 else 0.0
    for place in ("embedding", "residual"):
        yield Choice(f"model.dropout.{place}", dropout, "a smaller text needs more dropout")
    tokens, budget = max(1, characters // CHARACTERS_PER_TOKEN), 32_768 if large else CPU_BATCH_TOKENS
    yield from _training_choices(tree, experiment.training, preset=preset, tokens=tokens, budget=budget)


def _training_choices(
    tree: Tree, training: TrainingConfig, *, preset: str | None, tokens: int, budget: int
) -> Iterator[Choice]:
    """Choose batch size, length and warmup of a training on a number of tokens per epoch."""
    yield Choice("training.batch_tokens", budget, f"suits {'a GPU' if budget > CPU_BATCH_TOKENS else 'a CPU'}")
    if isinstance(get_value(tree, "training.batch_tokens"), int):
        budget = training.token_budget
    step_tokens = budget * training.grad_accumulation
    if is_set(tree, "training.max_epochs") or is_set(tree, "training.max_steps"):
        steps = count_steps(training.max_epochs, training.max_steps, tokens, step_tokens)
    else:
        epochs = min(max(round(TARGET_STEPS * CPU_BATCH_TOKENS / tokens), 3), 60)
        steps = count_steps(epochs, None, tokens, step_tokens)
        yield Choice(
            "training.max_epochs", epochs, f"enough for a corpus of about {float(f'{tokens:.2g}'):,.0f} tokens"
        )
        yield Choice("training.patience", 8, "validations without improvement before training ends early")
    limit = training.schedule.warmup
    if preset in PRESETS:
        limit = int(PRESETS[preset].tree["training"]["schedule"]["warmup"])
    yield Choice("training.schedule.warmup", max(1, min(limit, steps // 10)), "at most a tenth of the steps")


def count_steps(max_epochs: int | None, max_steps: int | None, tokens: int, step_tokens: int) -> int:
    """Return the number of steps until the first limit."""
    limits = [] if max_steps is None else [max_steps]
    if max_epochs is not None:
        limits.append(max(1, max_epochs * tokens // step_tokens))
    return min(limits)


def _is_valid(tree: Tree, preset: str | None, chosen: Tree) -> bool:
    """Return whether a choice fits the given settings."""
    try:
        _parse(merge({"preset": preset, **_separate_vocabularies(tree)}, merge(chosen, tree)), TranslationConfig)
    except ConfigError:
        return False
    return True


def vocab_size_for(pairs: int) -> int:
    """Return the vocabulary size for a number of training pairs."""
    return min(max(pairs // 300 * 100, 1000), 32_000)


def corpus_size(data: PreparedData) -> CorpusSize:
    """Count the training pairs, and estimate their tokens from the first."""
    pairs = len(data.train)
    words = sum(len(target.split()) for _, (_, target) in zip(range(SAMPLED_PAIRS), data.train, strict=False))
    return CorpusSize(pairs, round(1.35 * words / min(pairs, SAMPLED_PAIRS) + 1) * pairs)


def _sets_positions(preset: str | None) -> bool:
    """Return whether positions are part of a preset, as where another program reads its models."""
    return preset in PRESETS and "positions" in PRESETS[preset].tree["model"]


def _eligible_presets(tree: Tree) -> Sequence[str | None]:
    """Return the presets to choose from: the given one, which may be None, or those of the model kind."""
    if is_set(tree, "preset"):
        return (tree["preset"],)
    return (RECURRENT_PRESET,) if get_value(tree, "model.kind") == "recurrent" else AUTO_PRESETS


def _choose_preset(pairs: int, *, large: bool) -> str:
    if pairs < 2_000:
        return "nano"
    if pairs < 200_000:
        return "tiny"
    return "base" if large and pairs >= 1_000_000 else "small"


def _choose_text_preset(characters: int, *, large: bool) -> str:
    if characters < (2_000_000 if large else 20_000_000):
        return SMALLEST_TEXT_PRESET
    return "gpt-small" if large and characters >= 500_000_000 else "gpt-tiny"


def _keys(tree: object) -> set[str]:
    return set(tree) if isinstance(tree, Mapping) else set()


def _separate_vocabularies(tree: Tree) -> Tree:
    """Return the settings that separate vocabularies need."""
    return {"model": {"tie_embeddings": "target"}} if get_value(tree, "tokenizer.shared") is False else {}


def suitable_batch_tokens(experiment: Experiment, device: torch.device) -> int:
    """Return the batch tokens that suit a device and contain the longest example that the settings allow."""
    return max(CPU_BATCH_TOKENS if device.type == "cpu" else GPU_BATCH_TOKENS, max_example_tokens(experiment))


def max_example_tokens(experiment: Experiment) -> int:
    """Return the tokens of the longest example that the settings allow, special symbols included."""
    match experiment:
        case TranslationConfig():
            return max(experiment.data.max_source_length, experiment.data.max_target_length) + 1
        case LanguageModelingConfig() | MaskedLMConfig():
            return experiment.data.context_length
        case ClassificationConfig() | TaggingConfig():
            return experiment.data.max_length
        case QuestionAnsweringConfig():
            return experiment.data.windows.max_length
        case _:
            assert_never(experiment)


def with_batch_tokens(experiment: Experiment, tokens: int) -> Experiment:
    training = experiment.training.model_copy(update={"batch_tokens": tokens})
    return experiment.model_copy(update={"training": training})


def is_same_experiment(found: Experiment, asked: Experiment) -> bool:
    """Return whether a run has the requested settings, whatever was chosen for `batch_tokens: auto`."""
    if asked.training.batch_tokens == "auto" != found.training.batch_tokens:
        asked = with_batch_tokens(asked, found.training.token_budget)
    return found == asked


def resolve_batch_tokens(
    experiment: Experiment,
    *,
    device: torch.device,
    report: Callable[[str], None],
    folder: RunFolder | None = None,
    available: int | None = None,
    devices: int = 1,
) -> tuple[Experiment, str]:
    """Choose a number for `training.batch_tokens: auto`; return the experiment and a sentence with the reason.

    `available` is the memory in bytes of each of the devices that share every batch, by default what is free and what
    this process uses. Raises ConfigError if the longest example does not fit.
    """
    report("choosing the batch tokens that fit into memory")
    if available is None:
        available = available_bytes(device) + (resident_bytes(device) if device.type == "cpu" else 0)
    suitable = suitable_batch_tokens(experiment, device)
    tried = with_batch_tokens(experiment, suitable)
    limit = int((1 - RESERVE) * available)
    request = ProfileRequest(str(device), time.time(), AUTO_SECONDS, memory_limit=limit, validate=False)
    profile = profile_experiment(tried, request, report=report, tokenizer_from=folder)
    fitting = max_batch_tokens(profile, tried.training, available=available, devices=devices)
    per_device, longest = fitting // devices, max_example_tokens(experiment)  # an example is never divided
    if per_device < longest:
        raise ConfigError(
            f"training.batch_tokens = auto: {per_device:,} tokens fit into {format_bytes(available)}, and an example "
            f"may have {longest:,}. Lower the maximum length, or choose a smaller model."
        )
    tokens = min(suitable, fitting)
    reason = (
        f"the most that fit into {format_bytes(available)} of memory"
        if tokens < suitable
        else f"suitable for a {'CPU' if device.type == 'cpu' else 'GPU'}; {fitting:,} would fit into "
        f"{format_bytes(available)}"
    )
    return with_batch_tokens(experiment, tokens), f"training.batch_tokens: {tokens:,}, {reason}"


def plan_training(
    experiment: Experiment,
    *,
    device: torch.device,
    devices: int = 1,
    available: int | None = None,
    price: float | None = None,
    report: Callable[[str], None],
) -> Plan:
    """Plan the training of an experiment on a number of devices like this one.

    `available` is the memory of each device in bytes, by default what is free; `price` is per device hour. Raises
    DragomanError as the training would, and ConfigError if no batch fits.
    """
    memory = available_bytes(device) if available is None else available
    if experiment.training.batch_tokens == "auto":
        experiment, _ = resolve_batch_tokens(
            experiment, device=device, report=report, available=memory, devices=devices
        )
    profile = profile_experiment(experiment, ProfileRequest(str(device), time.time(), PLAN_SECONDS), report=report)
    return build_plan(profile, experiment.training, available=memory, devices=devices, price=price)


def profile_experiment(
    experiment: Experiment,
    request: ProfileRequest,
    *,
    report: Callable[[str], None],
    tokenizer_from: RunFolder | None = None,
) -> Profile:
    """Profile a training in a temporary run folder.

    The tokenizer and labels of the run `tokenizer_from` are used instead of new ones.
    """
    with tempfile.TemporaryDirectory(prefix="dragoman-plan-") as name:
        folder = RunFolder(Path(name))
        folder.write_config(experiment)
        if tokenizer_from is not None:
            tokenizer_from.copy_files(folder, tokenizer_from.tokenizer, tokenizer_from.labels)
        return run_profiler(folder.path, request, program=PROFILER, report=report)
