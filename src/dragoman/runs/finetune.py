"""A translator that is trained further on other text: what is chosen where a person names only the run and the text."""

from collections.abc import Iterator
from pathlib import Path

from dragoman.config import Tree, merge
from dragoman.data.preprocessing.prepare import prepare
from dragoman.errors import ConfigError
from dragoman.runs.auto_config import size_of
from dragoman.runs.choices import SMALL_BUDGET, Choice, given, laid_under
from dragoman.runs.config import to_experiment
from dragoman.runs.init_from import begun_with, with_prepared
from dragoman.tasks.config import Translation
from dragoman.tasks.prepared_data import cache_folder
from dragoman.training.config import Epochs, Updates

UPDATES_WORTH = 1_000
"""Updates after which a network that knows the languages gains little from a small corpus."""
SLOWER = 5
"""By what the learning rate is divided where all weights are learnt, so that what they knew is not lost at once."""


def complete_start(tree: Tree) -> tuple[Translation, list[Choice]]:
    """The full experiment for a tree that names corpora and the run to `start` from; what the tree says stays.

    Network, tokenizer, search and scores are those of the run, and so is all of the training that no choice is about.
    Raises ConfigError and RunError, before any corpus is read where that can be, and DataError as reading them does.
    """
    begun = begun_with(Path(tree["start"]), task="translation")
    assert isinstance(begun, Translation)
    if "data" in tree:
        tree = {**tree, "data": with_prepared(tree)["data"]}  # the tokenizer stays that of the run
    under = _taken(begun)
    asked = _translation(merge(under, tree))
    texts = prepare(asked.data, cache_folder(), seed=asked.training.seed)
    tokens = size_of(texts).tokens
    choices = [choice for choice in _choices(tree, begun, asked, tokens) if not given(tree, choice.key)]
    return _translation(merge(merge(under, laid_under(choices, {})), tree)), choices


def _taken(begun: Translation) -> Tree:
    """What is as in the run that is begun with."""
    tree: Tree = begun.model_dump(mode="json", include={"tokenizer", "model", "training", "decoding", "metrics"})
    tree["training"] = {key: value for key, value in tree["training"].items() if key not in ("objective", "adapters")}
    limits = begun.data.model_dump(include={"longest_source", "longest_target"})
    return {**tree, "data": limits}


def _translation(tree: Tree) -> Translation:
    experiment = to_experiment(tree)
    if not isinstance(experiment, Translation):
        raise ConfigError(f"task = {experiment.task}: --from is for translation; give a configuration file with start")
    return experiment


def _choices(tree: Tree, begun: Translation, asked: Translation, tokens: int) -> Iterator[Choice]:
    training = asked.training
    budget = SMALL_BUDGET if training.batch_tokens == "auto" else training.batch_tokens
    an_update = budget * training.accumulate
    length: Epochs | Updates = Epochs(count=min(max(round(UPDATES_WORTH * an_update / tokens), 1), 10))
    if given(tree, "training.length"):
        length = training.length
    updates = length.count * max(1, tokens // an_update) if isinstance(length, Epochs) else length.count
    yield Choice("training.length", length.model_dump(), f"about {updates:,} updates of a network that knows much")
    if training.adapters is None:
        rate = float(f"{begun.training.optimiser.learning_rate / SLOWER:.3g}")
        yield Choice("training.optimiser.learning_rate", rate, "a fifth of the run's, so that little is forgotten")
    warmup = max(1, updates // 20)
    yield Choice("training.schedule", {"kind": "linear", "warmup": warmup}, "falls to nothing at the end")
