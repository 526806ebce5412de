"""Settings that are chosen for a person, each with its reason; what the person said is left as it is."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from dragoman.config import Tree, merge
from dragoman.runs.presets import PRESETS
from dragoman.training.config import Epochs, Span, TrainingConfig

UPDATES_WORTH = 5_000
"""Updates of a small budget after which a small model on a small corpus gains little."""
SMALL_BUDGET = 4096
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


def laid_under(choices: Iterable[Choice], tree: Tree) -> Tree:
    """What was said over what was chosen."""
    chosen: Tree = {}
    for choice in choices:
        chosen = merge(chosen, nested(choice.key, choice.value))
    return merge(chosen, tree)


def given(tree: Tree, key: str) -> bool:
    """Whether a tree says something of a dotted key."""
    return value(tree, key) is not MISSING


def value(tree: Tree, key: str) -> Any:
    """What a tree says of a dotted key, or `MISSING`."""
    node: Any = tree
    for part in key.split("."):
        if not isinstance(node, dict) or part not in node:
            return MISSING
        node = node[part]
    return node


def nested(key: str, value: Any) -> Tree:
    """The tree that says this of a dotted key alone."""
    tree: Any = value
    for part in reversed(key.split(".")):
        tree = {part: tree}
    return dict(tree)


def training_choices(
    tree: Tree, asked: TrainingConfig, *, preset: str | None, tokens: int, budget: int
) -> Iterator[Choice]:
    """How long to learn from so many tokens, in batches of a budget; those that hang on others follow what is given."""
    yield Choice("training.batch_tokens", budget, f"what suits {'a GPU' if budget > SMALL_BUDGET else 'a CPU'}")
    budget = asked.budget if isinstance(value(tree, "training.batch_tokens"), int) else budget
    an_update = budget * asked.accumulate
    if given(tree, "training.length"):
        updates = _updates(asked.length, tokens, an_update)
    else:
        length = Epochs(count=min(max(round(UPDATES_WORTH * SMALL_BUDGET / tokens), 3), 60))
        updates = _updates(length, tokens, an_update)
        epochs = {"count": length.count, "kind": "epochs"}
        yield Choice("training.length", epochs, f"about {updates:,} updates, enough for a corpus of this size")
        yield Choice("training.patience", 8, "ends earlier after so many validations without gain")
    most = int(PRESETS[preset].tree["training"]["schedule"]["warmup"]) if preset in PRESETS else asked.schedule.warmup
    yield Choice("training.schedule.warmup", max(1, min(most, updates // 10)), "a tenth of the updates at most")


def _updates(length: Span, tokens: int, an_update: int) -> int:
    return max(1, length.count * tokens // an_update) if isinstance(length, Epochs) else length.count


MISSING = object()
"""What a tree that does not say is answered with; None may be said."""
