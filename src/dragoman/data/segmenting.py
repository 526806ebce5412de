"""From stored texts to stored ids: once per corpus and tokenizer, or anew each epoch under BPE dropout."""

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.data.store import CHUNK, Chunk, TextStore, TokenStore
from dragoman.data.tokenizer import Side, Tokenizer
from dragoman.errors import DataError
from dragoman.files import in_turn

_VERSION = 1
"""Raised when the same texts and tokenizer would give another store."""


def segment(
    texts: TextStore, tokenizer: Tokenizer, cache: Path, *, longest_source: int, longest_target: int
) -> TokenStore:
    """The ids of the texts, from `cache` if they were stored there before; a damaged store is built again.

    Pairs with more than `longest_source` or `longest_target` ids are left out: `len(texts) - len(store)` of them.
    """
    facts = {"texts": texts.fingerprint, "tokenizer": tokenizer.fingerprint}
    limits = {"longest_source": longest_source, "longest_target": longest_target}
    folder = cache / f"tokens-{_key(facts | limits)}"
    try:
        return TokenStore.open(folder)
    except DataError:
        columns = _columns(texts, tokenizer, longest_source, longest_target)
        return TokenStore.build_chunks(folder, columns, vocabulary=_vocabulary(tokenizer), facts=facts | limits)


def segment_anew(
    store: TokenStore, texts: TextStore, tokenizer: Tokenizer, cache: Path, *, probability: float, seed: int, epoch: int
) -> TokenStore:
    """The pairs of `store` under BPE dropout, with draws from (seed, epoch); those of other epochs are removed.

    A pair that dropout makes longer than the limits of `store` keeps its plain ids, so that no epoch loses an example.
    """
    facts = {"store": store.fingerprint, "tokenizer": tokenizer.fingerprint, "probability": probability, "seed": seed}
    prefix = f"dropout-{_key(facts)}-"
    folder = cache / f"{prefix}{epoch}"
    with in_turn(cache / f".{prefix}lock"):  # the workers of a training want the same at the same time
        for other in cache.glob(f"{prefix}*"):
            if other != folder:
                shutil.rmtree(other, ignore_errors=True)
        try:
            return TokenStore.open(folder)
        except DataError:
            generator = np.random.default_rng([seed, epoch])
            columns = _dropped(store, texts, tokenizer, probability, generator)
            return TokenStore.build_chunks(folder, columns, vocabulary=_vocabulary(tokenizer), facts=facts)


def _columns(texts: TextStore, tokenizer: Tokenizer, longest_source: int, longest_target: int) -> Iterator[Chunk]:
    for start in range(0, len(texts), CHUNK):
        rows = range(start, min(start + CHUNK, len(texts)))
        pairs = [texts.pair(row) for row in rows]
        sources = tokenizer.source.encode_batch([source for source, _ in pairs])
        targets = tokenizer.target.encode_batch([target for _, target in pairs])
        kept = [
            place
            for place, (source, target) in enumerate(zip(sources, targets, strict=True))
            if len(source) <= longest_source and len(target) <= longest_target
        ]
        yield [sources[place] for place in kept], [targets[place] for place in kept], [rows[place] for place in kept]


def _dropped(
    store: TokenStore, texts: TextStore, tokenizer: Tokenizer, probability: float, generator: np.random.Generator
) -> Iterator[Chunk]:
    def draw(side: Side, which: int, pairs: list[tuple[str, str]], rows: range) -> list[list[int]]:
        longest = store.header["longest_target" if which else "longest_source"]
        drawn = side.encode_with_dropout([pair[which] for pair in pairs], probability=probability, generator=generator)
        return [
            ids if len(ids) <= longest else store.pair(row)[which].tolist()
            for row, ids in zip(rows, drawn, strict=True)
        ]

    for start in range(0, len(store), CHUNK):
        rows = range(start, min(start + CHUNK, len(store)))
        origins = store.origins[rows.start : rows.stop].tolist()
        pairs = [texts.pair(origin) for origin in origins]
        yield draw(tokenizer.source, 0, pairs, rows), draw(tokenizer.target, 1, pairs, rows), origins


def _vocabulary(tokenizer: Tokenizer) -> int:
    return max(len(tokenizer.source), len(tokenizer.target))


def _key(facts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps([_VERSION, facts], sort_keys=True).encode()).hexdigest()[:16]
