"""A language model without a configuration: what is chosen from the text and the device, and why."""

from collections.abc import Iterator

import torch

from dragoman.config import Tree, merge
from dragoman.data.datasets.text import prepare_text
from dragoman.data.tokenizers import Bpe, Unigram
from dragoman.errors import ConfigError
from dragoman.runs.choices import SMALL_BUDGET, Choice, given, laid_under, training_choices
from dragoman.runs.config import to_experiment
from dragoman.tasks.config import LanguageModelling, RunningText

SMALLEST = "gpt-nano"
CHARACTERS_A_TOKEN = 3
"""A cautious guess for the vocabularies that are chosen."""


def complete_text(tree: Tree, *, device: torch.device) -> tuple[LanguageModelling, list[Choice]]:
    """The full experiment for a tree that names at least its text; what the tree says is left as it is.

    Raises ConfigError, before the text is read where that can be, and DataError as reading it does.
    """
    asked = _language_modelling(merge({"preset": SMALLEST}, tree))
    assert isinstance(asked.data, RunningText), "the caller gives text"
    prepared = prepare_text(asked.data)
    characters = sum(map(len, prepared.train.texts()))
    choices = [choice for choice in _choices(tree, asked, characters, device) if not given(tree, choice.key)]
    experiment = _language_modelling(laid_under(choices, tree))
    if asked.data.valid is None and asked.data.held_out is None:
        choices.insert(0, Choice("data.held_out", "the last tenth", "no validation text was given"))
    return experiment, choices


def _language_modelling(tree: Tree) -> LanguageModelling:
    task = tree.get("task", "language_modelling")
    experiment = to_experiment(tree | {"task": "language_modelling"})
    if task != "language_modelling" or not isinstance(experiment, LanguageModelling):
        raise ConfigError(f"task = {task}: --text is for language_modelling; give a configuration file for other tasks")
    return experiment


def _choices(tree: Tree, asked: LanguageModelling, characters: int, device: torch.device) -> Iterator[Choice]:
    """A value for every key that is chosen, given or not; those that hang on others follow what is given of them."""
    large = device.type != "cpu"
    preset = tree["preset"] if given(tree, "preset") else _preset(characters, large=large)
    yield Choice("preset", preset, f"{characters:,} characters to learn from, on {device.type}")
    if isinstance(asked.tokenizer, Bpe | Unigram):
        vocabulary = min(max(characters // 100_000 * 100, 1000), 32_000)
        yield Choice("tokenizer.vocabulary", vocabulary, "a thousandth of the text, between 1,000 and 32,000")
    dropout = 0.2 if characters < 20_000_000 else 0.1 if characters < 200_000_000 else 0.0
    for place in ("embedding", "residual"):
        yield Choice(f"model.dropout.{place}", dropout, "the less text, the more is dropped")
    tokens, budget = max(1, characters // CHARACTERS_A_TOKEN), 32_768 if large else SMALL_BUDGET
    yield from training_choices(tree, asked.training, preset=preset, tokens=tokens, budget=budget)


def _preset(characters: int, *, large: bool) -> str:
    if characters < (2_000_000 if large else 20_000_000):
        return SMALLEST
    return "gpt-small" if large and characters >= 500_000_000 else "gpt-tiny"
