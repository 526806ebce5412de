"""Training without a configuration: what is chosen from the corpus and the device, and why."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from dragoman.config import Tree, merge
from dragoman.data.preprocessing.prepare import Prepared, prepare
from dragoman.data.tokenizers import Bpe, Unigram
from dragoman.errors import ConfigError
from dragoman.runs.choices import SMALL_BUDGET, Choice, given, laid_under, training_choices, value
from dragoman.runs.config import to_experiment
from dragoman.runs.presets import PRESETS
from dragoman.tasks.config import Translation
from dragoman.tasks.prepared_data import cache_folder

AUTOMATIC = ("nano", "tiny", "small", "base")
"""The presets that may be chosen."""
RECURRENT = "lstm"
"""The one for who asks for a recurrent network."""
LEARNT_BY_MUON = ("nano", "tiny")
"""What Muon was seen to gain with, `tiny` (`benchmarks/multi30k`), and what is smaller."""
ROTARY: Tree = {"model": {"positions": {"kind": "rotary"}}}


@dataclass(frozen=True)
class Size:
    """How large a corpus is; tokens are estimated target tokens."""

    pairs: int
    tokens: int


def complete(tree: Tree, *, device: torch.device) -> tuple[Translation, list[Choice]]:
    """The full experiment for a tree that names at least its corpora; what the tree says is left as it is.

    Raises ConfigError, before any corpus is read where that can be, and DataError as reading the corpora does.
    """
    asked = fitting_a_preset(tree)
    texts = prepare(asked.data, cache_folder(), seed=asked.training.seed)
    choices = [choice for choice in _choices(tree, asked, size_of(texts), device) if not given(tree, choice.key)]
    experiment = _translation(laid_under(choices, tree))
    if asked.data.valid is None and asked.data.held_out is None:
        choices.insert(0, Choice("data.held_out", f"{len(texts.valid):,} pairs", "no validation set was given"))
    return experiment, choices


def fitting_a_preset(tree: Tree) -> Translation:
    """What the tree asks for, laid over the first preset that it fits; raises ConfigError where it fits none."""
    faults: list[ConfigError] = []
    for preset in _eligible(tree):
        try:
            return _translation(merge({"preset": preset, **_two_vocabularies(tree)}, tree))
        except ConfigError as fault:
            faults.append(fault)
    raise faults[0]


def _translation(tree: Tree) -> Translation:
    task = tree.get("task", "translation")
    experiment = to_experiment(tree | {"task": "translation"})
    if task != "translation" or not isinstance(experiment, Translation):
        raise ConfigError(f"task = {task}: --source is for translation; give a configuration file for other tasks")
    return experiment


def _choices(tree: Tree, asked: Translation, size: Size, device: torch.device) -> Iterator[Choice]:
    """A value for every key that is chosen, given or not; those that hang on others follow what is given of them."""
    large = device.type != "cpu"
    corpus = f"{size.pairs:,} pairs of about {size.tokens // size.pairs} tokens"
    if len(eligible := _eligible(tree)) == 1:
        preset, because = eligible[0], f"model.kind is {asked.model.kind}"
    else:
        preset, because = _preset(size.pairs, large=large), f"{corpus} on {device.type}"
    yield Choice("preset", preset, because)
    if isinstance(asked.tokenizer, Bpe | Unigram):
        yield Choice(
            "tokenizer.vocabulary", vocabulary_for(size.pairs), "a third of the pairs, between 1,000 and 32,000"
        )
    if _two_vocabularies(tree):
        yield Choice("model.tie", "target", "two vocabularies cannot share one embedding")
    dropout = 0.3 if size.pairs < 100_000 else 0.2 if size.pairs < 500_000 else 0.1
    for place in ("embedding", "residual" if asked.model.kind == "transformer" else "output"):
        yield Choice(f"model.dropout.{place}", dropout, "the fewer pairs, the more is dropped")
    if _fits(tree, preset, ROTARY):
        yield Choice("model.positions", ROTARY["model"]["positions"], "learn sooner than sinusoids that are added")
    if preset in LEARNT_BY_MUON and asked.model.kind == "transformer":
        rate = PRESETS[preset].tree["training"]["optimiser"]["learning_rate"]
        yield Choice("training.optimiser", {"kind": "muon", "learning_rate": rate}, "learns more from as many updates")
    budget = 16_384 if large else SMALL_BUDGET
    yield from training_choices(tree, asked.training, preset=preset, tokens=size.tokens, budget=budget)


def _fits(tree: Tree, preset: str | None, chosen: Tree) -> bool:
    """Whether what is chosen goes with all that the tree says."""
    try:
        _translation(merge({"preset": preset, **_two_vocabularies(tree)}, merge(chosen, tree)))
    except ConfigError:
        return False
    return True


def vocabulary_for(pairs: int) -> int:
    """The entries of a vocabulary that is learnt from so many pairs."""
    return min(max(pairs // 300 * 100, 1000), 32_000)


def size_of(texts: Prepared) -> Size:
    """Counted in pairs, and estimated in tokens from the first 2,000 of them."""
    pairs = len(texts.train)
    words = sum(len(target.split()) for _, (_, target) in zip(range(2000), texts.train.pairs(), strict=False))
    return Size(pairs, round(1.35 * words / min(pairs, 2000) + 1) * pairs)


def _eligible(tree: Tree) -> Sequence[str | None]:
    """The presets among which a tree leaves the choice; it may have none by the name of none."""
    if given(tree, "preset"):
        return (tree["preset"],)
    return (RECURRENT,) if value(tree, "model.kind") == "recurrent" else AUTOMATIC


def _preset(pairs: int, *, large: bool) -> str:
    if pairs < 2_000:
        return "nano"
    if pairs < 200_000:
        return "tiny"
    return "base" if large and pairs >= 1_000_000 else "small"


def _two_vocabularies(tree: Tree) -> Tree:
    """What must follow where a vocabulary for each side is asked for, and nothing is said of ties."""
    return {"model": {"tie": "target"}} if value(tree, "tokenizer.shared") is False else {}
