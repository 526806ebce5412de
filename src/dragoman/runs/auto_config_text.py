"""A language model without a configuration: what is chosen from the text and the device, and why."""

from collections.abc import Iterator

import torch

from dragoman.config import Tree, merge
from dragoman.data.datasets.text import prepare_text
from dragoman.data.tokenizers import BpeConfig, UnigramConfig
from dragoman.errors import ConfigError
from dragoman.runs.choices import CPU_BATCH_TOKENS, Choice, is_set, apply_choices, choose_training
from dragoman.runs.config import parse_experiment
from dragoman.tasks.config import LanguageModelingConfig, PlainTextConfig

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
    choices = [choice for choice in _choices(tree, asked, characters, device) if not is_set(tree, choice.key)]
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


def _choices(tree: Tree, asked: LanguageModelingConfig, characters: int, device: torch.device) -> Iterator[Choice]:
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
