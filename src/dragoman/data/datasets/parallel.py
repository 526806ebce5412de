"""Texts and ids on disk, mapped into memory, so that memory does not grow with the corpus.

A store of pairs is a folder with a column of values and a column of lengths for source and target. That of documents,
which may be too long to be held in memory, is `dragoman.data.datasets.documents`.
"""

import hashlib
import json
import mmap
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, Self, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from dragoman.data.batching.permutation import permute_indices
from dragoman.data.datasets.memory_map import ORIGINS, Columns, Numbers, write_columns
from dragoman.data.readers.parallel import Example

CHUNK = 8192
"""Examples that are held in memory while a store is written."""

_STRIDE = 16
_MANY = 2**16
"""Numbers taken here and there after which pages are given back."""

Chunk = tuple[Sequence[Sequence[int]], Sequence[Sequence[int]], Sequence[int]]
"""Sources, targets, and where each pair comes from."""

T = TypeVar("T")


def chunked(items: Iterable[T], size: int = CHUNK) -> Iterator[list[T]]:
    """Consecutive lists of `size` items; the last may be shorter."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk


@final
class ConcatenatedArray:
    """Several mapped arrays, one after the other."""

    def __init__(self, parts: Sequence[Numbers]) -> None:
        """There is one part at least; all have numbers of one type."""
        self._parts = parts
        self._maps = [found for part in parts if (found := _map_of(part)) is not None]
        self._taken = 0
        self._ends = np.cumsum([len(part) for part in parts], dtype=np.int64)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def take(self, places: NDArray[np.int64]) -> Numbers:
        """The numbers at some places."""
        self._let_go(places.size)
        if len(self._parts) == 1:
            return self._parts[0][places]
        taken = np.empty(places.shape, dtype=self._parts[0].dtype)
        numbers = np.searchsorted(self._ends, places, side="right")
        for number in np.unique(numbers).tolist():
            here = numbers == number
            taken[here] = self._parts[number][places[here] - self._start(number)]
        return taken

    def slice(self, start: int, stop: int) -> Numbers:
        """The numbers from one place up to another, a view of the file where they lie in one."""
        first, last = np.searchsorted(self._ends, [start, max(start, stop - 1)], side="right").tolist()
        found = [
            self._parts[number][max(0, start - self._start(number)) : stop - self._start(number)]
            for number in range(first, min(last, len(self._parts) - 1) + 1)
        ]
        return found[0] if len(found) == 1 else np.concatenate([self._parts[0][:0], *found])

    def _start(self, number: int) -> int:
        return int(self._ends[number - 1]) if number else 0

    def _let_go(self, count: int) -> None:
        """Give pages back from time to time, for what is taken here and there is hardly taken again soon.

        They would be taken back where memory is short; until then, they look like memory of this process.
        """
        self._taken += count
        if self._taken >= _MANY:
            self._taken = 0
            for one in self._maps:
                one.madvise(mmap.MADV_DONTNEED)


@final
class RaggedArray:
    """Sequences of different lengths in one mapped array, or in several that follow each other."""

    def __init__(self, values: Numbers | ConcatenatedArray, lengths: Numbers) -> None:
        self.values = values if isinstance(values, ConcatenatedArray) else ConcatenatedArray([values])
        self.lengths = lengths
        self._starts = np.zeros(1 + -(-len(lengths) // _STRIDE), dtype=np.int64)
        if len(lengths):
            sums = np.add.reduceat(lengths, np.arange(0, len(lengths), _STRIDE), dtype=np.int64)
            np.cumsum(sums, out=self._starts[1:])
        """Where every so manieth row begins: of all rows, that would be more than some corpora leave room for."""

    def __len__(self) -> int:
        return len(self.lengths)

    def row(self, index: int) -> Numbers:
        """One sequence, a view of the file."""
        start = self._start(index)
        return self.values.slice(start, start + int(self.lengths[index]))

    def rows(self, start: int, stop: int) -> Iterator[Numbers]:
        """The sequences from one row up to another."""
        ends = self._start(start) + np.cumsum(self.lengths[start:stop], dtype=np.int64)
        first = self._start(start)
        values = self.values.slice(first, int(ends[-1]) if len(ends) else first)
        begin = 0
        for end in (ends - first).tolist():
            yield values[begin:end]
            begin = end

    def select_columns(self, name: str, start: int, kept: NDArray[np.bool_]) -> dict[str, Numbers]:
        """Those of the rows from `start` on that are kept, as the columns of a store."""
        lengths = self.lengths[start : start + len(kept)]
        first = self._start(start)
        values = self.values.slice(first, first + int(lengths.sum(dtype=np.int64)))
        return {f"{name}.values": values[np.repeat(kept, lengths)], f"{name}.lengths": lengths[kept]}

    def fill(self, rows: NDArray[np.int64], into: Numbers) -> None:
        """Write each of `rows` from the left into its row of `into`; the rest of `into` stays as it is."""
        lengths = self.lengths[rows]
        columns = np.arange(into.shape[1])
        inside = columns < lengths[:, None]
        into[inside] = self.values.take((self._starts_of(rows)[:, None] + columns)[inside])

    def _start(self, index: int) -> int:
        first = index // _STRIDE * _STRIDE
        return int(self._starts[index // _STRIDE]) + int(self.lengths[first:index].sum(dtype=np.int64))

    def _starts_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        places = (rows // _STRIDE * _STRIDE)[:, None] + np.arange(_STRIDE - 1)
        before = np.where(places < rows[:, None], self.lengths.take(places, mode="clip"), 0)
        starts: NDArray[np.int64] = self._starts[rows // _STRIDE] + before.sum(axis=1, dtype=np.int64)
        return starts


def _map_of(numbers: Numbers) -> mmap.mmap | None:
    """The mapped file that an array is a view of, where the system can be advised about it."""
    base: Any = numbers
    while base is not None and not isinstance(base, mmap.mmap):
        base = getattr(base, "base", None)
    return base if hasattr(mmap, "MADV_DONTNEED") else None


class _PairStore:
    """What both stores share: the files and their checks."""

    format: str

    def __init__(self, folder: Path) -> None:
        """Open a store. Raises DataError where it is missing, damaged, cut off or of another version."""
        columns = Columns(folder, self.format)
        self.folder, self.header = folder, columns.header
        shards = [columns] if "shards" not in columns.header else _shards(columns, self.format)
        self._source, self._target = (
            RaggedArray(
                ConcatenatedArray([one.column(f"{side}.values") for one in shards]), columns.column(f"{side}.lengths")
            )
            for side in ("source", "target")
        )
        self.origins = columns.column(ORIGINS)
        for side in (self._source, self._target):
            if int(side.lengths.sum(dtype=np.int64)) != len(side.values) or len(side) != len(self.origins):
                raise columns.damaged_error("its files do not fit each other")

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open a store that was built before."""
        return cls(folder)

    @classmethod
    def concat(cls, folder: Path, shards: Sequence[Path], *, facts: dict[str, Any] | None = None) -> Self:
        """Write a store of the pairs of other stores, which stay where they are, below the parent of `folder`.

        It holds what there is to know of each pair but its values.
        """
        opened = [cls(shard) for shard in shards]
        names = [[os.path.relpath(shard, folder), one.fingerprint] for shard, one in zip(shards, opened, strict=True)]
        digest = hashlib.sha256(json.dumps([name[1] for name in names]).encode()).hexdigest()
        chunks = (
            {"source.lengths": one.source.lengths, "target.lengths": one.target.lengths, ORIGINS: one.origins}
            for one in opened
        )
        kinds = {"source.lengths": "int32", "target.lengths": "int32", ORIGINS: "int64"}
        header = {"format": cls.format, "fingerprint": digest, "shards": names, **(facts or {})}
        write_columns(folder, chunks, dtypes=kinds, header=header)
        return cls(folder)

    @property
    def source(self) -> RaggedArray:
        """The sources."""
        return self._source

    @property
    def target(self) -> RaggedArray:
        """The targets."""
        return self._target

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.origins)

    @property
    def fingerprint(self) -> str:
        """Equal for stores with the same pairs in the same order."""
        return str(self.header["fingerprint"])


@final
class TextStore(_PairStore):
    """Cleaned pairs of texts. `origins` holds the line of each in its corpus."""

    format = "dragoman.texts"

    @classmethod
    def build(cls, folder: Path, examples: Iterable[Example]) -> Self:
        """Write the examples into `folder`, replacing what is there only when all of them are written."""

        def encoded() -> Iterator[Chunk]:
            for chunk in chunked(examples):
                sources = [example.source.encode("utf-8", "replace") for example in chunk]
                targets = [example.target.encode("utf-8", "replace") for example in chunk]
                yield sources, targets, [example.line for example in chunk]

        _write(folder, encoded(), dtype="uint8", header={"format": cls.format})
        return cls(folder)

    def select(self, folder: Path, chosen: NDArray[np.bool_], *, before: int = 0) -> Self:
        """Write the pairs that are chosen into a store of their own; their lines count on from those `before`."""

        def columns() -> Iterator[dict[str, Numbers]]:
            for start in range(0, len(self), CHUNK):
                rows = slice(start, start + CHUNK)
                kept = chosen[rows]
                yield {
                    **self._source.select_columns("source", start, kept),
                    **self._target.select_columns("target", start, kept),
                    ORIGINS: before + self.origins[rows][kept],
                }

        write_columns(folder, columns(), dtypes=_kinds("uint8"), header={"format": self.format})
        return type(self)(folder)

    def pair(self, index: int) -> tuple[str, str]:
        """Source and target text."""
        return self._source.row(index).tobytes().decode(), self._target.row(index).tobytes().decode()

    def line(self, index: int) -> int:
        """The line, from 1, where the pair stands in its corpus."""
        return int(self.origins[index])

    def examples(self) -> Iterator[Example]:
        """All pairs with their lines."""
        return (Example(*pair, self.line(row)) for row, pair in enumerate(self))

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """All pairs, read from the disk as they are asked for."""
        return (pair for start in range(0, len(self), CHUNK) for pair in self.slice(start, start + CHUNK))

    def slice(self, start: int, stop: int) -> Iterator[tuple[str, str]]:
        """The pairs from one row up to another."""
        sides = (self._source.rows(start, stop), self._target.rows(start, stop))
        return ((source.tobytes().decode(), target.tobytes().decode()) for source, target in zip(*sides, strict=True))

    def pairs(self) -> Iterator[tuple[str, str]]:
        """All pairs; the method is what `Tokenizer.train` wants, for it may be called many times."""
        return iter(self)

    def sample(self, max_pairs: int, *, seed: int) -> Callable[[], Iterator[tuple[str, str]]]:
        """What gives all pairs, or `most` of them that `seed` draws, in their order."""
        if len(self) <= max_pairs:
            return self.pairs
        rows = np.sort(permute_indices(np.arange(max_pairs), len(self), seed=(seed,)))
        return lambda: (self.pair(row) for row in rows.tolist())


@final
class TokenStore(_PairStore):
    """Pairs of id sequences, without begin and end. `origins` holds the index of each pair in its `TextStore`."""

    format = "dragoman.tokens"

    @classmethod
    def build(
        cls,
        folder: Path,
        pairs: Iterable[tuple[Sequence[int], Sequence[int]]],
        *,
        vocabulary: int | None = None,
    ) -> Self:
        """Write pairs of id sequences; `vocabulary` bounds the ids, so that two bytes an id may do."""
        numbered = chunked(enumerate(pairs))
        columns = (
            ([pair[0] for _, pair in chunk], [pair[1] for _, pair in chunk], [index for index, _ in chunk])
            for chunk in numbered
        )
        return cls.build_chunks(folder, columns, vocabulary=vocabulary)

    @classmethod
    def build_chunks(
        cls,
        folder: Path,
        columns: Iterable[Chunk],
        *,
        vocabulary: int | None,
        facts: dict[str, Any] | None = None,
    ) -> Self:
        """Write chunks of sources, targets and origins, with `facts` in the header."""
        _write(folder, columns, dtype=id_dtype(vocabulary), header={"format": cls.format, **(facts or {})})
        return cls(folder)

    @property
    def source_lengths(self) -> NDArray[np.int32]:
        """Ids of each source, without end."""
        return self._source.lengths

    @property
    def target_lengths(self) -> NDArray[np.int32]:
        """Ids of each target, without begin and end."""
        return self._target.lengths

    def pair(self, index: int) -> tuple[Numbers, Numbers]:
        """Source and target ids, views of the files."""
        return self._source.row(index), self._target.row(index)


def _shards(columns: Columns, wanted: str) -> list[Columns]:
    """Where the values of a joined store are."""
    found = []
    for name, fingerprint in columns.header["shards"]:
        one = Columns(Path(os.path.normpath(columns.folder / name)), wanted)
        if one.header["fingerprint"] != fingerprint:
            raise columns.damaged_error(f"{name} is another shard than that which was joined")
        found.append(one)
    return found


def id_dtype(vocabulary: int | None) -> str:
    """The smallest type of number that holds the ids of a vocabulary."""
    return "uint16" if vocabulary is not None and vocabulary <= np.iinfo(np.uint16).max + 1 else "int32"


def _write(folder: Path, columns: Iterable[Chunk], *, dtype: str, header: dict[str, Any]) -> None:
    chunks = (
        {
            "source.values": _flat(sources, dtype),
            "source.lengths": _lengths(sources),
            "target.values": _flat(targets, dtype),
            "target.lengths": _lengths(targets),
            ORIGINS: np.asarray(origins, dtype=np.int64),
        }
        for sources, targets, origins in columns
    )
    write_columns(folder, chunks, dtypes=_kinds(dtype), header=header)


def _kinds(dtype: str) -> dict[str, str]:
    sides = {"source.values": dtype, "source.lengths": "int32", "target.values": dtype, "target.lengths": "int32"}
    return {**sides, ORIGINS: "int64"}


def _flat(sequences: Sequence[Sequence[int]], dtype: str) -> Numbers:
    if sequences and isinstance(sequences[0], bytes):
        return np.frombuffer(b"".join(sequences), dtype=np.uint8)  # type: ignore[arg-type]
    return np.fromiter(chain.from_iterable(sequences), dtype=dtype)


def _lengths(sequences: Sequence[Sequence[int]]) -> Numbers:
    return np.fromiter(map(len, sequences), dtype=np.int32, count=len(sequences))
