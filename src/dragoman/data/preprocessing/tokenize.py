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
from dragoman.data.augmentation import NoiseConfig, add_noise
from dragoman.data.datasets.parallel import CHUNK, Chunk, TextStore, TokenStore
from dragoman.data.tokenizers import LanguageTokenizer, Tokenizer
from dragoman.errors import DataError

_VERSION = 1
"""Raised when the same texts and tokenizer would give another store."""


def tokenize_texts(
    texts: TextStore, tokenizer: Tokenizer, cache: Path, *, max_source_length: int, max_target_length: int
) -> TokenStore:
    """The ids of the texts, from `cache` if they were stored there before; a damaged store is built again.

    Pairs with more than `max_source_length` or `max_target_length` ids are left out: `len(texts) - len(store)` of them.
    """
    facts = tokenization_facts(texts, tokenizer, max_source_length, max_target_length)
    folder = cache / f"tokens-{_key(facts)}"

    def built() -> TokenStore:
        columns = _columns(texts, tokenizer, max_source_length, max_target_length)
        return TokenStore.build_chunks(folder, columns, vocabulary=_vocabulary(tokenizer), facts=facts)

    return opened_or_made(folder, lambda: TokenStore.open(folder), built)


@final
@dataclass(frozen=True)
class TokenizeTask:
    """A shard whose texts are to be turned into ids."""

    texts: Path
    ids: Path
    """Where they are put."""
    tokenizer: Path
    before: int
    """Texts of the shards before."""
    max_source_length: int
    max_target_length: int


def tokenize_shard(task: TokenizeTask) -> Tree:
    """What `segment` does, for a shard: the origins of its ids are rows of the texts of all shards."""
    texts, tokenizer = TextStore(task.texts), _loaded(task.tokenizer, task.tokenizer.stat().st_mtime_ns)
    facts = tokenization_facts(texts, tokenizer, task.max_source_length, task.max_target_length)
    try:
        store = TokenStore.open(task.ids)
        if not facts.items() <= store.header.items():
            raise DataError("of other texts, or of another tokenizer")
    except DataError:
        columns = (
            (sources, targets, [task.before + origin for origin in origins])
            for sources, targets, origins in _columns(texts, tokenizer, task.max_source_length, task.max_target_length)
        )
        store = TokenStore.build_chunks(task.ids, columns, vocabulary=_vocabulary(tokenizer), facts=facts)
    return {"pairs": len(store)}


@lru_cache(maxsize=1)
def _loaded(path: Path, _written: int) -> Tokenizer:
    """The tokenizer of a file, for all shards: what the library remembers of words outlives each that was used."""
    return Tokenizer.load(path)


def tokenization_facts(texts: TextStore, tokenizer: Tokenizer, max_source_length: int, max_target_length: int) -> Tree:
    """What the ids of texts hang on."""
    facts = {"texts": texts.fingerprint, "tokenizer": tokenizer.fingerprint}
    return {**facts, "max_source_length": max_source_length, "max_target_length": max_target_length}


def retokenize_epoch(
    store: TokenStore,
    texts: TextStore,
    tokenizer: Tokenizer,
    cache: Path,
    *,
    seed: int,
    epoch: int,
    probability: float = 0.0,
    noise: NoiseConfig | None = None,
) -> TokenStore:
    """The pairs of `store` with noise in their sources and under BPE dropout.

    Those of other epochs are removed then, but for the first, which every training begins by counting: one that goes
    on finds both that and where it stood.

    Draws are from (seed, epoch). A side that either makes longer than the limits of `store` keeps its plain ids, so
    that no epoch loses an example.
    """
    facts: dict[str, Any] = {
        "store": store.fingerprint,
        "longest": [store.header["max_source_length"], store.header["max_target_length"]],
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


def _columns(texts: TextStore, tokenizer: Tokenizer, max_source_length: int, max_target_length: int) -> Iterator[Chunk]:
    for start in range(0, len(texts), CHUNK):
        rows = range(start, min(start + CHUNK, len(texts)))
        pairs = list(texts.slice(rows.start, rows.stop))
        sources = tokenizer.source.encode_batch([source for source, _ in pairs])
        targets = tokenizer.target.encode_batch([target for _, target in pairs])
        kept = [
            place
            for place, (source, target) in enumerate(zip(sources, targets, strict=True))
            if len(source) <= max_source_length and len(target) <= max_target_length
        ]
        yield [sources[place] for place in kept], [targets[place] for place in kept], [rows[place] for place in kept]


Texts = list[tuple[str, str]]


def _pairs(store: TokenStore, texts: TextStore) -> Iterator[Texts]:
    """The texts of the store, a chunk at a time."""
    for start in range(0, len(store), CHUNK):
        yield [texts.pair(origin) for origin in store.origins[start : start + CHUNK].tolist()]


def _noisy(store: TokenStore, texts: TextStore, noise: NoiseConfig, *, seed: int, epoch: int) -> Iterator[Texts]:
    row = 0
    for chunk in _pairs(store, texts):
        yield [add_noise(pair, noise, seed=seed, epoch=epoch, row=row + place) for place, pair in enumerate(chunk)]
        row += len(chunk)


def _anew(
    store: TokenStore,
    pairs: Iterator[Texts],
    tokenizer: Tokenizer,
    probability: float,
    generator: np.random.Generator,
) -> Iterator[Chunk]:
    def draw(side: LanguageTokenizer, which: int, chunk: Texts, rows: range) -> list[list[int]]:
        longest = store.header["max_target_length" if which else "max_source_length"]
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
