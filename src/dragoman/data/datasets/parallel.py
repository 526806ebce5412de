"""Memory-mapped stores of text pairs and token pairs, whose memory does not grow with the corpus.

A store is a folder with a column of values and a column of lengths for source and target.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from dragoman.data.batching.corpus_mixing import permute_indices
from dragoman.data.datasets.memory_map import (
    CHUNK,
    ORIGINS,
    TEXT_DTYPES,
    Numbers,
    RaggedStore,
    chunked,
    id_dtype,
    ragged_columns,
)
from dragoman.data.readers.parallel import Example

Chunk = tuple[Sequence[Sequence[int]], Sequence[Sequence[int]], Sequence[int]]
"""Sources, targets and origins of several pairs."""


class _PairStore(RaggedStore):
    names = ("source", "target")

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.source, self.target = self.arrays

    @classmethod
    def concat(cls, folder: Path, shards: Sequence[Path], *, facts: Mapping[str, Any] | None = None) -> Self:
        """Write a store of the pairs of other stores, whose values stay in place, below the parent of `folder`."""
        opened = [cls(shard) for shard in shards]
        names = [[os.path.relpath(shard, folder), one.fingerprint] for shard, one in zip(shards, opened, strict=True)]
        digest = hashlib.sha256(json.dumps([name[1] for name in names]).encode()).hexdigest()
        chunks = (
            {"source.lengths": one.source.lengths, "target.lengths": one.target.lengths, ORIGINS: one.origins}
            for one in opened
        )
        dtypes = {"source.lengths": "int32", "target.lengths": "int32", ORIGINS: "int64"}
        header = {"fingerprint": digest, "shards": names, **(facts or {})}
        return cls.write(folder, chunks, dtypes=dtypes, facts=header)


@final
class TextStore(_PairStore):
    """Cleaned pairs of texts. `origins` holds the line of each pair in its corpus."""

    format = "dragoman.texts"
    value_dtypes = TEXT_DTYPES

    @classmethod
    def build(cls, folder: Path, examples: Iterable[Example]) -> Self:
        """Write the examples into `folder`; its previous content is replaced when all examples are written."""

        def chunks() -> Iterator[Chunk]:
            for chunk in chunked(examples):
                sources = [example.source.encode("utf-8", "replace") for example in chunk]
                targets = [example.target.encode("utf-8", "replace") for example in chunk]
                yield sources, targets, [example.line for example in chunk]

        return cls.write(folder, _columns(chunks(), "uint8"), dtypes=_dtypes("uint8"))

    def select(self, folder: Path, chosen: NDArray[np.bool_], *, before: int = 0) -> Self:
        """Write the chosen pairs into a new store; `before` is added to their lines."""

        def columns() -> Iterator[dict[str, Numbers]]:
            for start in range(0, len(self), CHUNK):
                rows = slice(start, start + CHUNK)
                kept = chosen[rows]
                yield {
                    **self.source.select_columns("source", start, kept),
                    **self.target.select_columns("target", start, kept),
                    ORIGINS: before + self.origins[rows][kept],
                }

        return self.write(folder, columns(), dtypes=_dtypes("uint8"))

    def pair(self, index: int) -> tuple[str, str]:
        """Return source and target text."""
        return self._decode(self.source.row(index)), self._decode(self.target.row(index))

    def line(self, index: int) -> int:
        """Return the line (from 1) of the pair in its corpus."""
        return int(self.origins[index])

    def example(self, index: int, *, before: int = 0) -> Example:
        """Return the pair with its line, to which `before` is added."""
        return Example(*self.pair(index), before + self.line(index))

    def examples(self) -> Iterator[Example]:
        """Yield all pairs with their lines."""
        return (Example(*pair, self.line(row)) for row, pair in enumerate(self))

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield all pairs, read from disk on demand."""
        return (pair for start in range(0, len(self), CHUNK) for pair in self.slice(start, start + CHUNK))

    def slice(self, start: int, stop: int) -> Iterator[tuple[str, str]]:
        """Yield the pairs from row `start` to row `stop`."""
        sides = (self.source.rows(start, stop), self.target.rows(start, stop))
        return ((self._decode(source), self._decode(target)) for source, target in zip(*sides, strict=True))

    def sample(self, max_pairs: int, *, seed: int) -> Callable[[], Iterator[tuple[str, str]]]:
        """Return a function that yields all pairs, or `max_pairs` of them drawn by `seed`, in order."""
        if len(self) <= max_pairs:
            return lambda: iter(self)
        rows = np.sort(permute_indices(np.arange(max_pairs), len(self), seed=(seed,)))
        return lambda: (self.pair(row) for row in rows.tolist())

    def _decode(self, text: Numbers) -> str:
        try:
            return text.tobytes().decode()
        except UnicodeDecodeError as error:
            raise self.damaged_error("a text is not UTF-8") from error


@final
class TokenStore(_PairStore):
    """Pairs of id sequences without BOS and EOS. `origins` holds the index of each pair in its `TextStore`."""

    format = "dragoman.tokens"

    @classmethod
    def build(
        cls, folder: Path, pairs: Iterable[tuple[Sequence[int], Sequence[int]]], *, vocab_size: int | None = None
    ) -> Self:
        """Write pairs of id sequences; `vocab_size` bounds the ids, so that two bytes per id may suffice."""
        chunks = (
            ([pair[0] for _, pair in chunk], [pair[1] for _, pair in chunk], [index for index, _ in chunk])
            for chunk in chunked(enumerate(pairs))
        )
        return cls.build_chunks(folder, chunks, vocab_size=vocab_size)

    @classmethod
    def build_chunks(
        cls, folder: Path, chunks: Iterable[Chunk], *, vocab_size: int | None, facts: Mapping[str, Any] | None = None
    ) -> Self:
        """Write chunks of sources, targets and origins, with `facts` in the header."""
        dtype = id_dtype(vocab_size)
        return cls.write(folder, _columns(chunks, dtype), dtypes=_dtypes(dtype), facts=facts)

    def pair(self, index: int) -> tuple[Numbers, Numbers]:
        """Return source and target ids, views of the files."""
        return self.source.row(index), self.target.row(index)


def _columns(chunks: Iterable[Chunk], dtype: str) -> Iterator[dict[str, Numbers]]:
    for sources, targets, origins in chunks:
        sides = {**ragged_columns("source", sources, dtype), **ragged_columns("target", targets, dtype)}
        yield {**sides, ORIGINS: np.asarray(origins, dtype=np.int64)}


def _dtypes(dtype: str) -> dict[str, str]:
    sides = {"source.values": dtype, "source.lengths": "int32", "target.values": dtype, "target.lengths": "int32"}
    return {**sides, ORIGINS: "int64"}
