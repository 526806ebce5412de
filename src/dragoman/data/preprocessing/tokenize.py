"""From stored texts to stored ids: once per corpus and tokenizer, or anew each epoch under noise and BPE dropout."""

import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, final

import numpy as np

from dragoman.atomic import in_turn, opened_or_made
from dragoman.config import Tree
from dragoman.data.augmentation import Noise, noisy
from dragoman.data.datasets.parallel import CHUNK, Chunk, TextStore, TokenStore
from dragoman.data.tokenizers import Side, Tokenizer
from dragoman.errors import DataError

_VERSION = 1
"""Raised when the same texts and tokenizer would give another store."""


def segment(
    texts: TextStore, tokenizer: Tokenizer, cache: Path, *, longest_source: int, longest_target: int
) -> TokenStore:
    """The ids of the texts, from `cache` if they were stored there before; a damaged store is built again.

    Pairs with more than `longest_source` or `longest_target` ids are left out: `len(texts) - len(store)` of them.
    """
    facts = segmented_by(texts, tokenizer, longest_source, longest_target)
    folder = cache / f"tokens-{_key(facts)}"

    def built() -> TokenStore:
        columns = _columns(texts, tokenizer, longest_source, longest_target)
        return TokenStore.build_chunks(folder, columns, vocabulary=_vocabulary(tokenizer), facts=facts)

    return opened_or_made(folder, lambda: TokenStore.open(folder), built)


@final
@dataclass(frozen=True)
class ShardTask:
    """A shard whose texts are to be turned into ids."""

    texts: Path
    ids: Path
    """Where they are put."""
    tokenizer: Path
    before: int
    """Texts of the shards before."""
    longest_source: int
    longest_target: int


def segment_shard(task: ShardTask) -> Tree:
    """What `segment` does, for a shard: the origins of its ids are rows of the texts of all shards."""
    texts, tokenizer = TextStore(task.texts), _loaded(task.tokenizer, task.tokenizer.stat().st_mtime_ns)
    facts = segmented_by(texts, tokenizer, task.longest_source, task.longest_target)
    try:
        store = TokenStore.open(task.ids)
        if not facts.items() <= store.header.items():
            raise DataError("of other texts, or of another tokenizer")
    except DataError:
        columns = (
            (sources, targets, [task.before + origin for origin in origins])
            for sources, targets, origins in _columns(texts, tokenizer, task.longest_source, task.longest_target)
        )
        store = TokenStore.build_chunks(task.ids, columns, vocabulary=_vocabulary(tokenizer), facts=facts)
    return {"pairs": len(store)}


@lru_cache(maxsize=1)
def _loaded(path: Path, _written: int) -> Tokenizer:
    """The tokenizer of a file, for all shards: what the library remembers of words outlives each that was used."""
    return Tokenizer.load(path)


def segmented_by(texts: TextStore, tokenizer: Tokenizer, longest_source: int, longest_target: int) -> Tree:
    """What the ids of texts hang on."""
    facts = {"texts": texts.fingerprint, "tokenizer": tokenizer.fingerprint}
    return {**facts, "longest_source": longest_source, "longest_target": longest_target}


def segment_anew(
    store: TokenStore,
    texts: TextStore,
    tokenizer: Tokenizer,
    cache: Path,
    *,
    seed: int,
    epoch: int,
    probability: float = 0.0,
    noise: Noise | None = None,
) -> TokenStore:
    """The pairs of `store` with noise in their sources and under BPE dropout.

    Those of other epochs are removed then, but for the first, which every training begins by counting: one that goes
    on finds both that and where it stood.

    Draws are from (seed, epoch). A side that either makes longer than the limits of `store` keeps its plain ids, so
    that no epoch loses an example.
    """
    facts: dict[str, Any] = {
        "store": store.fingerprint,
        "longest": [store.header["longest_source"], store.header["longest_target"]],
        "tokenizer": tokenizer.fingerprint,
        "probability": probability,
        "seed": seed,
    }
    if noise is not None:
        facts["noise"] = noise.model_dump()
    prefix = f"{'dropout' if noise is None else 'noise'}-{_key(facts)}-"
    folder = cache / f"{prefix}{epoch}"
    with in_turn(cache / f".{prefix}lock"):  # the workers of a training want the same at the same time
        for other in cache.glob(f"{prefix}*"):
            if epoch and other.name not in (f"{prefix}0", folder.name):
                shutil.rmtree(other, ignore_errors=True)
        try:
            return TokenStore.open(folder)
        except DataError:
            pairs = _pairs(store, texts) if noise is None else _noisy(store, texts, noise, seed=seed, epoch=epoch)
            columns = _anew(store, pairs, tokenizer, probability, np.random.default_rng([seed, epoch]))
            return TokenStore.build_chunks(folder, columns, vocabulary=_vocabulary(tokenizer), facts=facts)


def _columns(texts: TextStore, tokenizer: Tokenizer, longest_source: int, longest_target: int) -> Iterator[Chunk]:
    for start in range(0, len(texts), CHUNK):
        rows = range(start, min(start + CHUNK, len(texts)))
        pairs = list(texts.between(rows.start, rows.stop))
        sources = tokenizer.source.encode_batch([source for source, _ in pairs])
        targets = tokenizer.target.encode_batch([target for _, target in pairs])
        kept = [
            place
            for place, (source, target) in enumerate(zip(sources, targets, strict=True))
            if len(source) <= longest_source and len(target) <= longest_target
        ]
        yield [sources[place] for place in kept], [targets[place] for place in kept], [rows[place] for place in kept]


Texts = list[tuple[str, str]]


def _pairs(store: TokenStore, texts: TextStore) -> Iterator[Texts]:
    """The texts of the store, a chunk at a time."""
    for start in range(0, len(store), CHUNK):
        yield [texts.pair(origin) for origin in store.origins[start : start + CHUNK].tolist()]


def _noisy(store: TokenStore, texts: TextStore, noise: Noise, *, seed: int, epoch: int) -> Iterator[Texts]:
    row = 0
    for chunk in _pairs(store, texts):
        yield [noisy(pair, noise, seed=seed, epoch=epoch, row=row + place) for place, pair in enumerate(chunk)]
        row += len(chunk)


def _anew(
    store: TokenStore,
    pairs: Iterator[Texts],
    tokenizer: Tokenizer,
    probability: float,
    generator: np.random.Generator,
) -> Iterator[Chunk]:
    def draw(side: Side, which: int, chunk: Texts, rows: range) -> list[list[int]]:
        longest = store.header["longest_target" if which else "longest_source"]
        own = [pair[which] for pair in chunk]
        drawn = (
            side.encode_with_dropout(own, probability=probability, generator=generator)
            if probability
            else side.encode_batch(own)
        )
        return [
            ids if len(ids) <= longest else store.pair(row)[which].tolist()
            for row, ids in zip(rows, drawn, strict=True)
        ]

    start = 0
    for chunk in pairs:
        rows = range(start, start + len(chunk))
        origins = store.origins[rows.start : rows.stop].tolist()
        yield draw(tokenizer.source, 0, chunk, rows), draw(tokenizer.target, 1, chunk, rows), origins
        start += len(chunk)


def _vocabulary(tokenizer: Tokenizer) -> int:
    return max(len(tokenizer.source), len(tokenizer.target))


def _key(facts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps([_VERSION, facts], sort_keys=True).encode()).hexdigest()[:16]
