"""Texts and ids on disk, mapped into memory, so that memory does not grow with the corpus.

A store is a folder: `header.json`, and for source and target a file of values and a file of lengths. It is written
streaming, beside its place, and renamed when it is whole.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, Self, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from dragoman.data.corpora.example import Example
from dragoman.errors import DataError
from dragoman.files import new_folder

CHUNK = 8192
"""Examples that are held in memory while a store is written."""

VERSION = 1
HEADER = "header.json"

Numbers = NDArray[Any]
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
        self.folder = folder
        self.header = _read_header(folder, self.format)
        self._source = Ragged(self._map("source.values"), self._map("source.lengths"))
        self._target = Ragged(self._map("target.values"), self._map("target.lengths"))
        self.origins = self._map("origins.values")
        for side in (self._source, self._target):
            if int(side.lengths.sum(dtype=np.int64)) != len(side.values) or len(side) != len(self.origins):
                raise _damaged(folder, "its files do not fit each other")

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

    def _map(self, name: str) -> Numbers:
        path, (dtype, count, _) = self.folder / name, self.header["files"][name]
        size = count * np.dtype(dtype).itemsize
        found = path.stat().st_size if path.is_file() else 0
        if found != size:
            raise _damaged(self.folder, f"{name} has {found:,} bytes instead of {size:,}")
        if not count:
            return np.zeros(0, dtype=dtype)
        return np.asarray(np.memmap(path, dtype=dtype, mode="r"))


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
        small = vocabulary is not None and vocabulary <= np.iinfo(np.uint16).max + 1
        header = {"format": cls.format, **(facts or {})}
        _write(folder, columns, dtype="uint16" if small else "int32", header=header)
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


def _write(folder: Path, columns: Iterable[Chunk], *, dtype: str, header: dict[str, Any]) -> None:
    kinds = {"source.values": dtype, "source.lengths": "int32", "target.values": dtype, "target.lengths": "int32"}
    kinds["origins.values"] = "int64"
    with new_folder(folder) as partial, ExitStack() as stack:
        files = {name: _Column(stack.enter_context((partial / name).open("wb")), kind) for name, kind in kinds.items()}
        for sources, targets, origins in columns:
            files["source.values"].extend(_flat(sources, dtype))
            files["source.lengths"].extend(_lengths(sources))
            files["target.values"].extend(_flat(targets, dtype))
            files["target.lengths"].extend(_lengths(targets))
            files["origins.values"].extend(np.asarray(origins, dtype=np.int64))
        described = {name: [column.dtype, column.count, column.digest()] for name, column in files.items()}
        contents = [described[name] for name in kinds if name != "origins.values"]
        fingerprint = hashlib.sha256(json.dumps(contents).encode()).hexdigest()
        tree = {"version": VERSION, "fingerprint": fingerprint, **header, "files": described}
        stack.close()
        (partial / HEADER).write_text(json.dumps(tree, indent=1) + "\n", encoding="utf-8")


@final
class _Column:
    """One file of numbers that grows, with the hash of its content."""

    def __init__(self, file: BinaryIO, dtype: str) -> None:
        self.dtype, self.count = dtype, 0
        self._file, self._hash = file, hashlib.sha256()

    def extend(self, numbers: Numbers) -> None:
        content = np.ascontiguousarray(numbers, dtype=self.dtype).tobytes()
        self._file.write(content)
        self._hash.update(content)
        self.count += len(numbers)

    def digest(self) -> str:
        return self._hash.hexdigest()


def _flat(sequences: Sequence[Sequence[int]], dtype: str) -> Numbers:
    if sequences and isinstance(sequences[0], bytes):
        return np.frombuffer(b"".join(sequences), dtype=np.uint8)  # type: ignore[arg-type]
    return np.fromiter(chain.from_iterable(sequences), dtype=dtype)


def _lengths(sequences: Sequence[Sequence[int]]) -> Numbers:
    return np.fromiter(map(len, sequences), dtype=np.int32, count=len(sequences))


def _read_header(folder: Path, wanted: str) -> dict[str, Any]:
    path = folder / HEADER
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); {_REMEDY}") from error
    except ValueError as error:
        raise _damaged(folder, f"{HEADER} is not valid JSON") from error
    if not isinstance(header, dict) or header.get("format") != wanted or header.get("version") != VERSION:
        raise _damaged(folder, f"{HEADER} is not that of {wanted}, version {VERSION}")
    return header


_REMEDY = "remove the folder; it is built again from the corpus"


def _damaged(folder: Path, reason: str) -> DataError:
    return DataError(f"{folder}: damaged store ({reason}); {_REMEDY}")
