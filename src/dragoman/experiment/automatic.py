"""Training without a configuration: what is chosen from the corpus and the device, and why."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from dragoman.config import Tree, merge
from dragoman.data.preparing import Prepared, prepare
from dragoman.data.tokenizer import Bpe, Unigram
from dragoman.errors import ConfigError
from dragoman.experiment.config import Experiment, to_experiment
from dragoman.experiment.materials import cache_folder
from dragoman.experiment.presets import PRESETS
from dragoman.models.transformer.config import TransformerConfig
from dragoman.training.config import Epochs, Span, TrainingConfig

AUTOMATIC = ("nano", "tiny", "small", "base")
"""The presets that may be chosen."""
UPDATES_WORTH = 5_000
"""Updates of a small budget after which a small model on a small corpus gains little."""
EFFICIENCY = 0.35
"""Share of the measured speed of large products that a training reaches here."""


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


@dataclass(frozen=True)
class Size:
    """How large a corpus is; tokens are estimated target tokens."""

    pairs: int
    tokens: int


def complete(tree: Tree, *, device: torch.device) -> tuple[Experiment, list[Choice]]:
    """The full experiment for a tree that names at least its corpora; what the tree says is left as it is.

    Raises ConfigError, before any corpus is read where that can be, and DataError as reading the corpora does.
    """
    asked = _check(tree)
    texts = prepare(asked.data, cache_folder(), seed=asked.training.seed)
    choices = [choice for choice in _choices(tree, asked, _size(texts), device) if not _given(tree, choice.key)]
    chosen: Tree = {}
    for choice in choices:
        chosen = merge(chosen, _nested(choice.key, choice.value))
    if asked.data.valid is None and asked.data.held_out is None:
        choices.insert(0, Choice("data.held_out", f"{len(texts.valid):,} pairs", "no validation set was given"))
    return to_experiment(merge(chosen, tree)), choices


def estimate_seconds(experiment: Experiment, *, tokens: int, device: torch.device) -> float:
    """How long the whole training takes at most, from the speed of one large product on this device.

    `tokens` are the target tokens of an epoch.
    """
    length = experiment.training.length
    seen = length.count * (tokens if isinstance(length, Epochs) else experiment.training.batch_tokens)
    return seen * training_flops(experiment.model, vocabulary=experiment.tokenizer.vocabulary) / _speed(device)


def training_flops(model: TransformerConfig, *, vocabulary: int) -> float:
    """Floating-point operations a target token of training, with a source as long as the target (6 a weight)."""
    feed_forward = (3 if model.gated else 2) * model.size * model.feed_forward
    attention = 4 * model.size * model.size
    weights = model.encoder_layers * (attention + feed_forward)
    weights += model.decoder_layers * (2 * attention + feed_forward)
    return 6.0 * (weights + model.size * vocabulary)


def _check(tree: Tree) -> Experiment:
    """What the tree asks for, laid over the first preset that it fits; raises ConfigError where it fits none."""
    faults: list[ConfigError] = []
    for preset in [tree["preset"]] if _given(tree, "preset") else AUTOMATIC:
        try:
            return to_experiment(merge({"preset": preset, **_two_vocabularies(tree)}, tree))
        except ConfigError as fault:
            faults.append(fault)
    raise faults[0]


def _choices(tree: Tree, asked: Experiment, size: Size, device: torch.device) -> Iterator[Choice]:
    """A value for every key that is chosen, given or not; those that hang on others follow what is given of them."""
    large = device.type != "cpu"
    corpus = f"{size.pairs:,} pairs of about {size.tokens // size.pairs} tokens"
    preset = tree["preset"] if _given(tree, "preset") else _preset(size.pairs, large=large)
    yield Choice("preset", preset, f"{corpus} on {device.type}")
    if isinstance(asked.tokenizer, Bpe | Unigram):
        vocabulary = min(max(size.pairs // 300 * 100, 1000), 32_000)
        yield Choice("tokenizer.vocabulary", vocabulary, "a third of the pairs, between 1,000 and 32,000")
    if _two_vocabularies(tree):
        yield Choice("model.tie", "target", "two vocabularies cannot share one embedding")
    dropout = 0.3 if size.pairs < 100_000 else 0.2 if size.pairs < 500_000 else 0.1
    for place in ("embedding", "residual"):
        yield Choice(f"model.dropout.{place}", dropout, "the fewer pairs, the more is dropped")
    yield from _training_choices(tree, asked.training, size, preset=preset, budget=16_384 if large else 4096)


def _training_choices(
    tree: Tree, asked: TrainingConfig, size: Size, *, preset: str | None, budget: int
) -> Iterator[Choice]:
    yield Choice("training.batch_tokens", budget, f"what suits {'a GPU' if budget > 4096 else 'a CPU'}")
    budget = asked.batch_tokens if _given(tree, "training.batch_tokens") else budget
    a_update = budget * asked.accumulate
    if _given(tree, "training.length"):
        updates = _updates(asked.length, size, a_update)
    else:
        length = Epochs(count=min(max(round(UPDATES_WORTH * 4096 / size.tokens), 3), 60))
        updates = _updates(length, size, a_update)
        value = {"count": length.count, "kind": "epochs"}
        yield Choice("training.length", value, f"about {updates:,} updates, enough for a corpus of this size")
        yield Choice("training.patience", 8, "ends earlier after so many validations without gain")
    most = int(PRESETS[preset]["training"]["schedule"]["warmup"]) if preset in PRESETS else asked.schedule.warmup
    yield Choice("training.schedule.warmup", max(1, min(most, updates // 10)), "a tenth of the updates at most")


def _updates(length: Span, size: Size, a_update: int) -> int:
    return max(1, length.count * size.tokens // a_update) if isinstance(length, Epochs) else length.count


def _size(texts: Prepared) -> Size:
    pairs = len(texts.train)
    words = sum(len(target.split()) for _, (_, target) in zip(range(2000), texts.train.pairs(), strict=False))
    return Size(pairs, round(1.35 * words / min(pairs, 2000) + 1) * pairs)


def _preset(pairs: int, *, large: bool) -> str:
    if pairs < 2_000:
        return "nano"
    if pairs < 200_000:
        return "tiny"
    return "base" if large and pairs >= 1_000_000 else "small"


def _two_vocabularies(tree: Tree) -> Tree:
    """What must follow where a vocabulary for each side is asked for, and nothing is said of ties."""
    return {"model": {"tie": "target"}} if _value(tree, "tokenizer.shared") is False else {}


def _given(tree: Tree, key: str) -> bool:
    return _value(tree, key) is not _MISSING


def _value(tree: Tree, key: str) -> Any:
    node: Any = tree
    for part in key.split("."):
        if not isinstance(node, dict) or part not in node:
            return _MISSING
        node = node[part]
    return node


def _nested(key: str, value: Any) -> Tree:
    tree: Any = value
    for part in reversed(key.split(".")):
        tree = {part: tree}
    return dict(tree)


def _speed(device: torch.device, *, seconds: float = 0.2) -> float:
    """Operations a second in training, measured on a product of a size that trainings have."""
    a, b = torch.randn(2048, 512, device=device), torch.randn(512, 2048, device=device)
    torch.mm(a, b)
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        float(torch.mm(a, b)[0, 0])
        count += 1
    return EFFICIENCY * count * 2 * 2048 * 512 * 2048 / (time.perf_counter() - began)


_MISSING = object()
