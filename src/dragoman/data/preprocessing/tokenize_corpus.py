"""Tokenization of stored texts: once per corpus and tokenizer, or in each epoch with augmentation or BPE dropout."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final, final

import numpy as np

from dragoman.atomic_files import file_lock, open_or_build
from dragoman.config_trees import Tree
from dragoman.data.augmentation.pair_augmentation import PairAugmentation
from dragoman.data.batching.corpus_mixing import locate_line
from dragoman.data.datasets.memory_map import CHUNK, RaggedArray
from dragoman.data.datasets.parallel import Chunk, TextStore, TokenStore
from dragoman.data.document_context import drop_oldest_sentence, has_context
from dragoman.data.fingerprints import json_fingerprint
from dragoman.data.tokenizers import Direction, LanguageTokenizer, Tokenizer
from dragoman.data.tokenizers.prefixes import NO_DIRECTION
from dragoman.errors import DataError

_VERSION = 1
"""Version of the tokenization; raise it if the same texts and tokenizer would give another store."""

_Ids = list[int]
Encode = Callable[[Sequence[str]], list[_Ids]]
"""Function from texts to their ids."""


@final
@dataclass(frozen=True)
class CorpusDirections:
    """Prefixes of the pairs of each corpus of a mixture, whose lines continue from corpus to corpus."""

    directions: tuple[Direction, ...] = (NO_DIRECTION,)
    ends: tuple[int, ...] = ()
    """Last line of each corpus; empty for one corpus."""

    def of(self, line: int) -> Direction:
        """Return the prefixes of the pair at a line of the mixture."""
        return self.directions[locate_line(line, self.ends)[0] if self.ends else 0]

    def facts(self) -> Tree:
        """Return what the ids depend on; nothing without prefixes."""
        if all(one == NO_DIRECTION for one in self.directions):
            return {}
        return {"directions": [asdict(one) for one in self.directions], "corpus_ends": list(self.ends)}


ONE_DIRECTION: Final = CorpusDirections()
"""No prefixes."""


def tokenize_texts(
    texts: TextStore,
    tokenizer: Tokenizer,
    cache: Path,
    *,
    max_source_length: int,
    max_target_length: int,
    directions: CorpusDirections = ONE_DIRECTION,
) -> TokenStore:
    """Return the ids of the texts, from `cache` if they are there; a damaged store is built again.

    Pairs with more ids than a limit are left out: `len(texts) - len(store)` of them.
    """
    limits = max_source_length, max_target_length
    facts = tokenization_facts(texts, tokenizer, *limits) | directions.facts()
    folder = cache / f"tokens-{_cache_key(facts)}"

    def build(folder: Path) -> TokenStore:
        texts.verify()
        chunks = _tokenize(texts, tokenizer, *limits, directions)
        return TokenStore.build_chunks(folder, chunks, vocab_size=_vocab_size(tokenizer), facts=facts)

    return open_or_build(folder, TokenStore.open_verified, build)


@final
@dataclass(frozen=True)
class TokenizeTask:
    """Shard to tokenize."""

    texts: Path
    ids: Path
    """Folder of the result."""
    tokenizer: Path
    before: int
    """Number of texts in earlier shards."""
    max_source_length: int
    max_target_length: int


def tokenize_shard(task: TokenizeTask) -> Tree:
    """Tokenize a shard as `tokenize_texts` does; the origins are rows of the texts of all shards."""
    limits = task.max_source_length, task.max_target_length
    texts, tokenizer = TextStore(task.texts), _load_tokenizer(task.tokenizer, task.tokenizer.stat().st_mtime_ns)
    directions = default_direction(tokenizer)
    facts = tokenization_facts(texts, tokenizer, *limits) | directions.facts()
    try:
        store = TokenStore(task.ids)
        if not facts.items() <= store.header.items():
            raise DataError("of other texts, or of another tokenizer")
    except DataError:
        chunks = (
            (sources, targets, [task.before + origin for origin in origins])
            for sources, targets, origins in _tokenize(texts, tokenizer, *limits, directions)
        )
        store = TokenStore.build_chunks(task.ids, chunks, vocab_size=_vocab_size(tokenizer), facts=facts)
    return {"pairs": len(store)}


def default_direction(tokenizer: Tokenizer) -> CorpusDirections:
    """Return the prefixes of corpora that name no languages. Raises ConfigError if the tokenizer needs languages."""
    return CorpusDirections((tokenizer.prefixes.resolve(),))


@lru_cache(maxsize=1)
def _load_tokenizer(path: Path, _written: int) -> Tokenizer:
    """Load one tokenizer for all shards: the word cache of the library outlives each loaded tokenizer."""
    return Tokenizer.load(path)


def tokenization_facts(texts: TextStore, tokenizer: Tokenizer, max_source_length: int, max_target_length: int) -> Tree:
    """Return everything that determines the ids of texts."""
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
    augmentation: PairAugmentation | None = None,
    directions: CorpusDirections = ONE_DIRECTION,
) -> TokenStore:
    """Return the pairs of `store` with augmentation and BPE dropout, drawn from (seed, epoch).

    Stores of other epochs are removed, except epoch 0, whose batches every training counts at its start. A side that
    becomes longer than the limits of `store` keeps its plain ids, so that no epoch loses an example.
    """
    facts: dict[str, Any] = directions.facts() | {
        "store": store.fingerprint,
        "longest": [store.header["max_source_length"], store.header["max_target_length"]],
        "tokenizer": tokenizer.fingerprint,
        "probability": probability,
        "seed": seed,
    }
    if augmentation is not None:
        facts |= augmentation.facts()
    prefix = f"{'dropout' if augmentation is None else 'augmented'}-{_cache_key(facts)}-"
    folder = cache / f"{prefix}{epoch}"
    with file_lock(cache / f".{prefix}lock"):  # all workers of a training need the same store at the same time
        for other in cache.glob(f"{prefix}*"):
            if epoch and other.name not in (f"{prefix}0", folder.name):
                shutil.rmtree(other, ignore_errors=True)
        try:
            return TokenStore(folder)
        except DataError:
            encoder = _PairEncoder(texts, tokenizer, directions)
            chunks = _retokenize(store, encoder, augmentation, probability, seed=seed, epoch=epoch)
            return TokenStore.build_chunks(folder, chunks, vocab_size=_vocab_size(tokenizer), facts=facts)


@final
@dataclass(frozen=True)
class _PairEncoder:
    """Texts of a store to ids with the prefixes of their languages."""

    texts: TextStore
    tokenizer: Tokenizer
    directions: CorpusDirections

    def sources(self, texts: Sequence[str], rows: Sequence[int], encode: Encode) -> list[_Ids]:
        """Return the ids of sources, given the rows of their pairs in the store."""
        own = self._directions(rows)
        ids = encode([direction.surround(text) for direction, text in zip(own, texts, strict=True)])
        return [direction.wrap_source(one) for direction, one in zip(own, ids, strict=True)]

    def targets(self, texts: Sequence[str], rows: Sequence[int], encode: Encode) -> list[_Ids]:
        """Return the ids of targets, given the rows of their pairs in the store."""
        ids = encode(texts)
        return [[*direction.target, *one] for direction, one in zip(self._directions(rows), ids, strict=True)]

    def encode(self, pairs: Sequence[tuple[str, str]], rows: Sequence[int]) -> tuple[list[_Ids], list[_Ids]]:
        """Return the ids of sources and targets, given the rows of their pairs in the store."""
        sources = self.sources([source for source, _ in pairs], rows, self.tokenizer.source.encode_batch)
        return sources, self.targets([target for _, target in pairs], rows, self.tokenizer.target.encode_batch)

    def _directions(self, rows: Sequence[int]) -> list[Direction]:
        if len(self.directions.directions) == 1:
            return list(self.directions.directions) * len(rows)
        return [self.directions.of(self.texts.line(row)) for row in rows]


def _tokenize(
    texts: TextStore,
    tokenizer: Tokenizer,
    max_source_length: int,
    max_target_length: int,
    directions: CorpusDirections,
) -> Iterator[Chunk]:
    encoder = _PairEncoder(texts, tokenizer, directions)
    for start in range(0, len(texts), CHUNK):
        pairs = list(texts.slice(start, min(start + CHUNK, len(texts))))
        rows = range(start, start + len(pairs))
        sources, targets = encoder.encode(pairs, rows)
        long = _too_long(sources, targets, max_source_length, max_target_length)
        while context := [place for place in long if has_context(pairs[place][0])]:
            for place in context:
                pairs[place] = drop_oldest_sentence(pairs[place])
            found = encoder.encode([pairs[place] for place in context], [rows[place] for place in context])
            for place, source, target in zip(context, *found, strict=True):
                sources[place], targets[place] = source, target
            long = _too_long(sources, targets, max_source_length, max_target_length)
        kept = sorted(set(range(len(pairs))) - set(long))
        yield [sources[place] for place in kept], [targets[place] for place in kept], [start + place for place in kept]


def _too_long(sources: Sequence[_Ids], targets: Sequence[_Ids], max_source: int, max_target: int) -> list[int]:
    """Return the places of the pairs with more ids than a limit."""
    lengths = enumerate(zip(map(len, sources), map(len, targets), strict=True))
    return [place for place, (source, target) in lengths if source > max_source or target > max_target]


def _retokenize(
    store: TokenStore,
    encoder: _PairEncoder,
    augmentation: PairAugmentation | None,
    probability: float,
    *,
    seed: int,
    epoch: int,
) -> Iterator[Chunk]:
    generator = np.random.default_rng([seed, epoch])

    def encode(side: LanguageTokenizer) -> Encode:
        if not probability:
            return side.encode_batch
        return partial(side.encode_with_dropout, probability=probability, generator=generator)

    def fit(encoded: list[_Ids], name: str, plain: RaggedArray, start: int) -> list[_Ids]:
        longest = store.header[f"max_{name}_length"]
        return [ids if len(ids) <= longest else plain.row(row).tolist() for row, ids in enumerate(encoded, start)]

    tokenizer = encoder.tokenizer
    for start in range(0, len(store), CHUNK):
        origins = store.origins[start : start + CHUNK].tolist()
        pairs = [encoder.texts.pair(origin) for origin in origins]
        if augmentation is not None:
            pairs = [augmentation(pair, seed=seed, epoch=epoch, row=row) for row, pair in enumerate(pairs, start)]
        sources, targets = zip(*pairs, strict=True)
        source = encoder.sources(sources, origins, encode(tokenizer.source))
        target = encoder.targets(targets, origins, encode(tokenizer.target))
        yield fit(source, "source", store.source, start), fit(target, "target", store.target, start), origins


def _vocab_size(tokenizer: Tokenizer) -> int:
    return max(len(tokenizer.source), len(tokenizer.target))


def _cache_key(facts: Tree) -> str:
    return json_fingerprint([_VERSION, facts])[:16]
