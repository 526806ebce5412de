"""Some of the examples that a training is judged by, so that a look at how long that takes need not take as long."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dragoman.data.batching.epochs import Rows
from dragoman.data.datasets.parallel import TextStore, TokenStore
from dragoman.tasks.parallel_data import ParallelData

SHORT, LONG = 4096, 2048
"""Tokens of the shortest examples that are taken, as many as are ever translated together, and of the longest."""
CHARACTERS: Final = 4
"""Of a token, as a cautious guess."""


def some_held_out(materials: Any, folder: Path) -> tuple[Any, Mapping[str, float]]:
    """The materials with fewer pairs to be judged by, and by set how many times as much there was before.

    Only texts that are translated take long; the others, those with trees, and small sets stay as they are. What is
    built for it goes into `folder`.
    """
    if not isinstance(materials, ParallelData) or materials.decoder_only or materials.trees:
        return materials, {}
    texts, times = materials.texts, {}
    valid, times["valid"] = _some_texts(texts.valid, folder / "valid")
    test, times["test"] = (None, 1.0) if texts.test is None else _some_texts(texts.test, folder / "test")
    judged = _some_tokens(materials.valid, folder / "judged")
    return replace(materials, texts=replace(texts, valid=valid, test=test), valid=judged), times


def shortest_and_longest(lengths: NDArray[Any]) -> Rows:
    """Some of the examples of these lengths in tokens: the shortest, of which the most go together, and the longest."""
    order = np.argsort(lengths, kind="stable").astype(np.int64)
    up, down = np.cumsum(lengths[order]), np.cumsum(lengths[order[::-1]])
    short, long = int(np.searchsorted(up, SHORT)) + 1, int(np.searchsorted(down, LONG)) + 1
    if short + long >= len(order):
        return order
    chosen: Rows = np.concatenate([order[:short], order[-long:]])
    return chosen


def _some_texts(store: TextStore, folder: Path) -> tuple[TextStore, float]:
    lengths = np.array([1 + len(source) // CHARACTERS for source, _ in store.pairs()])
    chosen = shortest_and_longest(lengths)
    examples = list(store.examples())
    return TextStore.build(folder, (examples[row] for row in chosen)), _share(lengths, chosen)


def _some_tokens(store: TokenStore, folder: Path) -> TokenStore:
    chosen = shortest_and_longest(store.source_lengths + 1)
    pairs = [store.pair(int(row)) for row in chosen]
    return TokenStore.build(folder, [(source.tolist(), target.tolist()) for source, target in pairs])


def _share(lengths: NDArray[Any], chosen: Rows) -> float:
    """How many times as long all are as the chosen ones."""
    return float(max(1, lengths.sum()) / max(1, lengths[chosen].sum()))
