"""A translator that is trained further on other text: what is chosen where a person names only the run and the text."""

from collections.abc import Iterator
from pathlib import Path

from dragoman.config import Tree, merge
from dragoman.data.preprocessing.prepare import prepare_data
from dragoman.errors import ConfigError
from dragoman.runs.auto_config import corpus_size
from dragoman.runs.choices import CPU_BATCH_TOKENS, Choice, is_set, apply_choices
from dragoman.runs.config import parse_experiment
from dragoman.tasks.prepared_data import cache_dir
from dragoman.tasks.config import TranslationConfig
from dragoman.runs.init_from import read_initial_experiment, apply_prepared
from dragoman.training.config import Epochs, Updates

FINETUNING_STEPS = 1_000
"""Updates after which a network that knows the languages gains little from a small corpus."""
LEARNING_RATE_DIVISOR = 5
"""By what the learning rate is divided where all weights are learnt, so that what they knew is not lost at once."""


def auto_configure_finetuning(tree: Tree) -> tuple[TranslationConfig, list[Choice]]:
    """The full experiment for a tree that names corpora and the run to `init_from` from; what the tree says stays.

    Network, tokenizer, search and scores are those of the run, and so is all of the training that no choice is about.
    Raises ConfigError and RunError, before any corpus is read where that can be, and DataError as reading them does.
    """
    begun = read_initial_experiment(Path(tree["init_from"]), task="translation")
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
    tree["training"] = {key: value for key, value in tree["training"].items() if key not in ("objective", "adapters")}
    limits = begun.data.model_dump(include={"max_source_length", "max_target_length"})
    return {**tree, "data": limits}


def _translation(tree: Tree) -> TranslationConfig:
    experiment = parse_experiment(tree)
    if not isinstance(experiment, TranslationConfig):
        raise ConfigError(f"task = {experiment.task}: --init-from is for translation; give a configuration file with init_from")
    return experiment


def _choices(tree: Tree, begun: TranslationConfig, asked: TranslationConfig, tokens: int) -> Iterator[Choice]:
    training = asked.training
    budget = CPU_BATCH_TOKENS if training.batch_tokens == "auto" else training.batch_tokens
    an_update = budget * training.grad_accumulation
    length: Epochs | Updates = Epochs(count=min(max(round(FINETUNING_STEPS * an_update / tokens), 1), 10))
    if is_set(tree, "training.length"):
        length = training.length
    updates = length.count * max(1, tokens // an_update) if isinstance(length, Epochs) else length.count
    yield Choice("training.length", length.model_dump(), f"about {updates:,} updates of a network that knows much")
    if training.lora is None:
        rate = float(f"{begun.training.optimizer.learning_rate / LEARNING_RATE_DIVISOR:.3g}")
        yield Choice("training.optimiser.learning_rate", rate, "a fifth of the run's, so that little is forgotten")
    warmup = max(1, updates // 20)
    yield Choice("training.schedule", {"kind": "linear", "warmup": warmup}, "falls to nothing at the end")
