"""Training without a configuration: what is chosen from the corpus and the device, and why."""

import time
from dataclasses import dataclass
from typing import Any

import torch

from dragoman.config import Tree, merge, parse
from dragoman.data.config import DataSettings
from dragoman.data.preparing import prepare
from dragoman.experiment.config import Experiment, to_experiment
from dragoman.experiment.materials import cache_folder
from dragoman.experiment.presets import PRESETS
from dragoman.models.transformer.config import TransformerConfig
from dragoman.training.config import Epochs

UPDATES_WORTH = 10_000
"""Updates of a small budget after which a small model on a small corpus gains little."""
EFFICIENCY = 0.35
"""Share of the measured speed of large products that a training reaches here."""


@dataclass(frozen=True)
class Choice:
    """One setting that was chosen, and the reason."""

    key: str
    value: str
    reason: str


def complete(tree: Tree, *, device: torch.device) -> tuple[Experiment, list[Choice]]:
    """The full experiment for a tree that names at least its corpora; what the tree says is left as it is.

    Raises ConfigError and DataError as reading the corpora does.
    """
    data = parse(DataSettings, tree.get("data", {}), where="data")
    texts = prepare(data, cache_folder(), seed=int(tree.get("training", {}).get("seed", 1)))
    pairs = len(texts.train)
    words = sum(len(target.split()) for _, (_, target) in zip(range(2000), texts.train.pairs(), strict=False))
    tokens = round(1.35 * words / min(pairs, 2000) + 1) * pairs
    chosen, choices = _choose(pairs, tokens, device)
    if data.valid is None:
        held = len(texts.valid)
        choices.insert(0, Choice("data.held_out", f"{held:,} pairs", "no validation set was given"))
    given = [choice for choice in choices if not _has(tree, choice.key)]
    return to_experiment(merge(chosen, tree)), given


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


def _choose(pairs: int, tokens: int, device: torch.device) -> tuple[Tree, list[Choice]]:
    large = device.type != "cpu"
    preset = _preset(pairs, large=large)
    vocabulary = min(max(round(pairs / 3, -2), 1000), 32_000)
    dropout = 0.3 if pairs < 100_000 else 0.2 if pairs < 500_000 else 0.1
    budget = 16_384 if large else 4096
    epochs = min(max(round(UPDATES_WORTH * 4096 / tokens), 3), 60)
    updates = max(1, epochs * tokens // budget)
    warmup = max(1, min(int(PRESETS[preset]["training"]["schedule"]["warmup"]), updates // 10))
    tree: dict[str, Any] = {
        "preset": preset,
        "tokenizer": {"kind": "bpe", "vocabulary": vocabulary},
        "model": {"dropout": {"embedding": dropout, "residual": dropout}},
        "training": {
            "length": {"kind": "epochs", "count": epochs},
            "batch_tokens": budget,
            "patience": 8,
            "schedule": {"kind": "inverse_sqrt", "warmup": warmup},
        },
    }
    corpus = f"{pairs:,} pairs of about {tokens // pairs} tokens"
    choices = [
        Choice("preset", preset, f"{corpus} on {device.type}"),
        Choice("tokenizer.vocabulary", f"{vocabulary:,}", "a third of the pairs, between 1,000 and 32,000"),
        Choice("model.dropout", f"{dropout}", "the fewer pairs, the more is dropped"),
        Choice("training.batch_tokens", f"{budget:,}", f"what suits {device.type}"),
        Choice("training.length", f"{epochs} epochs", f"about {updates:,} updates; ends earlier after 8 without gain"),
        Choice("training.schedule", f"inverse_sqrt, warm-up {warmup:,}", "a tenth of the updates at most"),
    ]
    return tree, choices


def _preset(pairs: int, *, large: bool) -> str:
    if pairs < 2_000:
        return "nano"
    if pairs < 200_000:
        return "tiny"
    return "base" if large and pairs >= 1_000_000 else "small"


def _has(tree: Tree, key: str) -> bool:
    node: Any = tree
    for part in key.split("."):
        if not isinstance(node, dict) or part not in node:
            return False
        node = node[part]
    return True


def _speed(device: torch.device, *, seconds: float = 0.2) -> float:
    """Operations a second in training, measured on a product of a size that trainings have."""
    a, b = torch.randn(2048, 512, device=device), torch.randn(512, 2048, device=device)
    torch.mm(a, b)
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        float(torch.mm(a, b)[0, 0])
        count += 1
    return EFFICIENCY * count * 2 * 2048 * 512 * 2048 / (time.perf_counter() - began)
