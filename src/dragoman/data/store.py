"""Texts and ids on disk, mapped into memory, so that memory does not grow with the corpus.

A store of pairs is a folder with a column of values and a column of lengths for source and target. That of documents,
which may be too long to be held in memory, is `dragoman.data.document_store`.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, Self, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from dragoman.data.columns import ORIGINS, Columns, Numbers, write_columns
from dragoman.data.corpora.example import Example

CHUNK = 8192
"""Examples that are held in memory while a store is written."""

Chunk = tuple[Sequence[Sequence[int]], Sequence[Sequence[int]], Sequence[int]]
"""Sources, targets, and where each pair comes from."""

T = TypeVar("T")


def chunks(items: Iterable[T], size: int = CHUNK) -> Iterator[list[T]]:
    """Consecutive lists of `size` items; the last may be shorter."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk


@final
class Ragged:
    """Sequences of different lengths in one mapped array."""

    def __init__(self, values: Numbers, lengths: Numbers) -> None:
        self.values = values
        self.lengths = lengths
        self._starts = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths, dtype=np.int64)])

    def __len__(self) -> int:
        return len(self.lengths)

    def row(self, index: int) -> Numbers:
        """One sequence, a view of the file."""
        return self.values[self._starts[index] : self._starts[index + 1]]

    def fill(self, rows: NDArray[np.int64], into: Numbers) -> None:
        """Write each of `rows` from the left into its row of `into`; the rest of `into` stays as it is."""
        lengths = self.lengths[rows]
        columns = np.arange(into.shape[1])
        inside = columns < lengths[:, None]
        into[inside] = self.values[(self._starts[rows][:, None] + columns)[inside]]


class _Pairs:
    """What both stores share: the files and their checks."""

    format: str

    def __init__(self, folder: Path) -> None:
        """Open a store. Raises DataError where it is missing, damaged, cut off or of another version."""
        columns = Columns(folder, self.format)
        self.folder, self.header = folder, columns.header
        self._source = Ragged(columns.column("source.values"), columns.column("source.lengths"))
        self._target = Ragged(columns.column("target.values"), columns.column("target.lengths"))
        self.origins = columns.column(ORIGINS)
        for side in (self._source, self._target):
            if int(side.lengths.sum(dtype=np.int64)) != len(side.values) or len(side) != len(self.origins):
                raise columns.damaged("its files do not fit each other")

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open a store that was built before."""
        return cls(folder)

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.origins)

    @property
    def fingerprint(self) -> str:
        """Equal for stores with the same pairs in the same order."""
        return str(self.header["fingerprint"])


@final
class TextStore(_Pairs):
    """Cleaned pairs of texts. `origins` holds the line of each in its corpus."""

    format = "dragoman.texts"

    @classmethod
    def build(cls, folder: Path, examples: Iterable[Example]) -> Self:
        """Write the examples into `folder`, replacing what is there only when all of them are written."""

        def encoded() -> Iterator[Chunk]:
            for chunk in chunks(examples):
                sources = [example.source.encode("utf-8", "replace") for example in chunk]
                targets = [example.target.encode("utf-8", "replace") for example in chunk]
                yield sources, targets, [example.line for example in chunk]

        _write(folder, encoded(), dtype="uint8", header={"format": cls.format})
        return cls(folder)

    def pair(self, index: int) -> tuple[str, str]:
        """Source and target text."""
        return self._source.row(index).tobytes().decode(), self._target.row(index).tobytes().decode()

    def line(self, index: int) -> int:
        """The line, from 1, where the pair stands in its corpus."""
        return int(self.origins[index])

    def examples(self) -> Iterator[Example]:
        """All pairs with their lines."""
        return (Example(*self.pair(index), self.line(index)) for index in range(len(self)))

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """All pairs, read from the disk as they are asked for."""
        return (self.pair(index) for index in range(len(self)))

    def pairs(self) -> Iterator[tuple[str, str]]:
        """All pairs; the method is what `Tokenizer.train` wants, for it may be called many times."""
        return iter(self)


@final
class TokenStore(_Pairs):
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
        numbered = chunks(enumerate(pairs))
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
        _write(folder, columns, dtype=id_type(vocabulary), header={"format": cls.format, **(facts or {})})
        return cls(folder)

    @property
    def source_lengths(self) -> NDArray[np.int32]:
        """Ids of each source, without end."""
        return self._source.lengths

    @property
    def target_lengths(self) -> NDArray[np.int32]:
        """Ids of each target, without begin and end."""
        return self._target.lengths

    @property
    def source(self) -> Ragged:
        """The sources."""
        return self._source

    @property
    def target(self) -> Ragged:
        """The targets."""
        return self._target

    def pair(self, index: int) -> tuple[Numbers, Numbers]:
        """Source and target ids, views of the files."""
        return self._source.row(index), self._target.row(index)


def id_type(vocabulary: int | None) -> str:
    """The smallest type of number that holds the ids of a vocabulary."""
    return "uint16" if vocabulary is not None and vocabulary <= np.iinfo(np.uint16).max + 1 else "int32"


def _write(folder: Path, columns: Iterable[Chunk], *, dtype: str, header: dict[str, Any]) -> None:
    kinds = {"source.values": dtype, "source.lengths": "int32", "target.values": dtype, "target.lengths": "int32"}
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
    write_columns(folder, chunks, kinds={**kinds, ORIGINS: "int64"}, header=header)


def _flat(sequences: Sequence[Sequence[int]], dtype: str) -> Numbers:
    if sequences and isinstance(sequences[0], bytes):
        return np.frombuffer(b"".join(sequences), dtype=np.uint8)  # type: ignore[arg-type]
    return np.fromiter(chain.from_iterable(sequences), dtype=dtype)


def _lengths(sequences: Sequence[Sequence[int]]) -> Numbers:
    return np.fromiter(map(len, sequences), dtype=np.int32, count=len(sequences))
