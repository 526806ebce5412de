"""Automatic configuration: settings chosen from the data and the device, each with a reason."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from dragoman.config import Tree, merge
from dragoman.data.datasets.text import prepare_text
from dragoman.data.preprocessing.prepare import PreparedData, prepare_data
from dragoman.data.tokenizers import BpeConfig, UnigramConfig
from dragoman.errors import ConfigError
from dragoman.runs.config import get_value, is_set, nest, parse_experiment
from dragoman.runs.presets import PRESETS
from dragoman.tasks.base import cache_dir
from dragoman.tasks.config import LanguageModelingConfig, PlainTextConfig, TranslationConfig
from dragoman.training.config import TrainingConfig

TARGET_STEPS = 5_000
"""Updates of a small budget after which a small model on a small corpus gains little."""
CPU_BATCH_TOKENS = 4096
"""Tokens of such an update."""


@dataclass(frozen=True)
class Choice:
    """One setting that was chosen, and the reason."""

    key: str
    value: Any
    reason: str

    @property
    def shown(self) -> str:
        """The value as a person reads it."""
        if isinstance(self.value, dict):
            return " ".join(str(part) for part in self.value.values())
        return f"{self.value:,}" if isinstance(self.value, int) else str(self.value)


def apply_choices(choices: Iterable[Choice], tree: Tree) -> Tree:
    """What was said over what was chosen."""
    chosen: Tree = {}
    for choice in choices:
        chosen = merge(chosen, nest(choice.key, choice.value))
    return merge(chosen, tree)


def choose_training(
    tree: Tree, asked: TrainingConfig, *, preset: str | None, tokens: int, budget: int
) -> Iterator[Choice]:
    """How long to learn from so many tokens, in batches of a budget; those that hang on others follow what is given."""
    yield Choice("training.batch_tokens", budget, f"what suits {'a GPU' if budget > CPU_BATCH_TOKENS else 'a CPU'}")
    budget = asked.token_budget if isinstance(get_value(tree, "training.batch_tokens"), int) else budget
    an_update = budget * asked.grad_accumulation
    if is_set(tree, "training.max_epochs") or is_set(tree, "training.max_steps"):
        updates = _count_steps(asked.max_epochs, asked.max_steps, tokens, an_update)
    else:
        epochs = min(max(round(TARGET_STEPS * CPU_BATCH_TOKENS / tokens), 3), 60)
        updates = _count_steps(epochs, None, tokens, an_update)
        yield Choice("training.max_epochs", epochs, f"about {updates:,} updates, enough for a corpus of this size")
        yield Choice("training.patience", 8, "ends earlier after so many validations without gain")
    most = int(PRESETS[preset].tree["training"]["schedule"]["warmup"]) if preset in PRESETS else asked.schedule.warmup
    yield Choice("training.schedule.warmup", max(1, min(most, updates // 10)), "a tenth of the updates at most")


def _count_steps(max_epochs: int | None, max_steps: int | None, tokens: int, step_tokens: int) -> int:
    limits = [] if max_steps is None else [max_steps]
    if max_epochs is not None:
        limits.append(max(1, max_epochs * tokens // step_tokens))
    return min(limits)


AUTO_PRESETS = ("nano", "tiny", "small", "base")
"""The presets that may be chosen."""
RECURRENT_PRESET = "lstm"
"""The one for who asks for a recurrent network."""
MUON_PRESETS = ("nano", "tiny")
"""What Muon was seen to gain with, `tiny` (`benchmarks/multi30k`), and what is smaller."""
ROTARY_POSITIONS: Tree = {"model": {"positions": {"kind": "rotary"}}}


@dataclass(frozen=True)
class CorpusSize:
    """How large a corpus is; tokens are estimated target tokens."""

    pairs: int
    tokens: int


def auto_configure(tree: Tree, *, device: torch.device) -> tuple[TranslationConfig, list[Choice]]:
    """The full experiment for a tree that names at least its corpora; what the tree says is left as it is.

    Raises ConfigError, before any corpus is read where that can be, and DataError as reading the corpora does.
    """
    asked = fit_preset(tree)
    texts = prepare_data(asked.data, cache_dir(), seed=asked.training.seed)
    choices = [choice for choice in _choices(tree, asked, corpus_size(texts), device) if not is_set(tree, choice.key)]
    experiment = _parse_translation(apply_choices(choices, tree))
    if asked.data.valid is None and asked.data.valid_size is None:
        choices.insert(0, Choice("data.valid_size", f"{len(texts.valid):,} pairs", "no validation set was given"))
    return experiment, choices


def fit_preset(tree: Tree) -> TranslationConfig:
    """What the tree asks for, laid over the first preset that it fits; raises ConfigError where it fits none."""
    faults: list[ConfigError] = []
    for preset in _eligible_presets(tree):
        try:
            return _parse_translation(merge({"preset": preset, **_separate_vocabularies(tree)}, tree))
        except ConfigError as fault:
            faults.append(fault)
    raise faults[0]


def _parse_translation(tree: Tree) -> TranslationConfig:
    task = tree.get("task", "translation")
    experiment = parse_experiment(tree | {"task": "translation"})
    if task != "translation" or not isinstance(experiment, TranslationConfig):
        raise ConfigError(f"task = {task}: --source is for translation; give a configuration file for other tasks")
    return experiment


def _choices(tree: Tree, asked: TranslationConfig, size: CorpusSize, device: torch.device) -> Iterator[Choice]:
    """A value for every key that is chosen, given or not; those that hang on others follow what is given of them."""
    large = device.type != "cpu"
    corpus = f"{size.pairs:,} pairs of about {size.tokens // size.pairs} tokens"
    if len(eligible := _eligible_presets(tree)) == 1:
        preset, because = eligible[0], f"model.kind is {asked.model.kind}"
    else:
        preset, because = _choose_preset(size.pairs, large=large), f"{corpus} on {device.type}"
    yield Choice("preset", preset, because)
    if isinstance(asked.tokenizer, BpeConfig | UnigramConfig):
        yield Choice(
            "tokenizer.vocab_size", vocab_size_for(size.pairs), "a third of the pairs, between 1,000 and 32,000"
        )
    if _separate_vocabularies(tree):
        yield Choice("model.tie_embeddings", "target", "two vocabularies cannot share one embedding")
    dropout = 0.3 if size.pairs < 100_000 else 0.2 if size.pairs < 500_000 else 0.1
    for place in ("embedding", "residual" if asked.model.kind == "encoder_decoder" else "output"):
        yield Choice(f"model.dropout.{place}", dropout, "the fewer pairs, the more is dropped")
    if _is_valid(tree, preset, ROTARY_POSITIONS):
        yield Choice(
            "model.positions", ROTARY_POSITIONS["model"]["positions"], "learn sooner than sinusoids that are added"
        )
    if preset in MUON_PRESETS and asked.model.kind == "encoder_decoder":
        rate = PRESETS[preset].tree["training"]["optimizer"]["learning_rate"]
        yield Choice("training.optimizer", {"kind": "muon", "learning_rate": rate}, "learns more from as many updates")
    budget = 16_384 if large else CPU_BATCH_TOKENS
    yield from choose_training(tree, asked.training, preset=preset, tokens=size.tokens, budget=budget)


def _is_valid(tree: Tree, preset: str | None, chosen: Tree) -> bool:
    """Whether what is chosen goes with all that the tree says."""
    try:
        _parse_translation(merge({"preset": preset, **_separate_vocabularies(tree)}, merge(chosen, tree)))
    except ConfigError:
        return False
    return True


def vocab_size_for(pairs: int) -> int:
    """The entries of a vocabulary that is learnt from so many pairs."""
    return min(max(pairs // 300 * 100, 1000), 32_000)


def corpus_size(texts: PreparedData) -> CorpusSize:
    """Counted in pairs, and estimated in tokens from the first 2,000 of them."""
    pairs = len(texts.train)
    words = sum(len(target.split()) for _, (_, target) in zip(range(2000), texts.train.pairs(), strict=False))
    return CorpusSize(pairs, round(1.35 * words / min(pairs, 2000) + 1) * pairs)


def _eligible_presets(tree: Tree) -> Sequence[str | None]:
    """The presets among which a tree leaves the choice; it may have none by the name of none."""
    if is_set(tree, "preset"):
        return (tree["preset"],)
    return (RECURRENT_PRESET,) if get_value(tree, "model.kind") == "recurrent" else AUTO_PRESETS


def _choose_preset(pairs: int, *, large: bool) -> str:
    if pairs < 2_000:
        return "nano"
    if pairs < 200_000:
        return "tiny"
    return "base" if large and pairs >= 1_000_000 else "small"


def _separate_vocabularies(tree: Tree) -> Tree:
    """What must follow where a vocabulary for each side is asked for, and nothing is said of ties."""
    return {"model": {"tie_embeddings": "target"}} if get_value(tree, "tokenizer.shared") is False else {}


SMALLEST_PRESET = "gpt-nano"
CHARACTERS_PER_TOKEN = 3
"""A cautious guess for the vocabularies that are chosen."""


def auto_configure_text(tree: Tree, *, device: torch.device) -> tuple[LanguageModelingConfig, list[Choice]]:
    """The full experiment for a tree that names at least its text; what the tree says is left as it is.

    Raises ConfigError, before the text is read where that can be, and DataError as reading it does.
    """
    asked = _parse_language_modeling(merge({"preset": SMALLEST_PRESET}, tree))
    assert isinstance(asked.data, PlainTextConfig), "the caller gives text"
    prepared = prepare_text(asked.data)
    characters = sum(map(len, prepared.train.texts()))
    choices = [choice for choice in _text_choices(tree, asked, characters, device) if not is_set(tree, choice.key)]
    experiment = _parse_language_modeling(apply_choices(choices, tree))
    if asked.data.valid is None and asked.data.valid_size is None:
        choices.insert(0, Choice("data.valid_size", "the last tenth", "no validation text was given"))
    return experiment, choices


def _parse_language_modeling(tree: Tree) -> LanguageModelingConfig:
    task = tree.get("task", "language_modeling")
    experiment = parse_experiment(tree | {"task": "language_modeling"})
    if task != "language_modeling" or not isinstance(experiment, LanguageModelingConfig):
        raise ConfigError(f"task = {task}: --text is for language_modeling; give a configuration file for other tasks")
    return experiment


def _text_choices(tree: Tree, asked: LanguageModelingConfig, characters: int, device: torch.device) -> Iterator[Choice]:
    """A value for every key that is chosen, given or not; those that hang on others follow what is given of them."""
    large = device.type != "cpu"
    preset = tree["preset"] if is_set(tree, "preset") else _choose_text_preset(characters, large=large)
    yield Choice("preset", preset, f"{characters:,} characters to learn from, on {device.type}")
    if isinstance(asked.tokenizer, BpeConfig | UnigramConfig):
        vocabulary = min(max(characters // 100_000 * 100, 1000), 32_000)
        yield Choice("tokenizer.vocab_size", vocabulary, "a thousandth of the text, between 1,000 and 32,000")
    dropout = 0.2 if characters < 20_000_000 else 0.1 if characters < 200_000_000 else 0.0
    for place in ("embedding", "residual"):
        yield Choice(f"model.dropout.{place}", dropout, "the less text, the more is dropped")
    tokens, budget = max(1, characters // CHARACTERS_PER_TOKEN), 32_768 if large else CPU_BATCH_TOKENS
    yield from choose_training(tree, asked.training, preset=preset, tokens=tokens, budget=budget)


def _choose_text_preset(characters: int, *, large: bool) -> str:
    if characters < (2_000_000 if large else 20_000_000):
        return SMALLEST_PRESET
    return "gpt-small" if large and characters >= 500_000_000 else "gpt-tiny"
