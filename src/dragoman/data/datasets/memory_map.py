"""Memory-mapped columns of numbers, the format of every store on disk.

A folder holds `header.json` and one file per column. It is written as a stream under a temporary name and renamed when
it is complete.
"""

import hashlib
import json
import mmap
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, Self, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from dragoman.atomic_files import new_folder
from dragoman.checksums import check_json, to_checked_json
from dragoman.errors import DataError, shorten
from dragoman.untrusted_files import MEBIBYTE, FileKind

_FORMAT_VERSION = 1
HEADER = "header.json"

ORIGINS = "origins.values"
"""Column that says where rows come from; it is not part of the fingerprint."""

CHUNK = 8192
"""Examples in memory while a store is written."""

_STRIDE = 16
"""Rows between stored start positions: storing all would take more memory than some corpora leave."""
_MAX_TAKEN = 2**16
"""Numbers read at random positions before pages are released."""
_REMEDY = "prepare the corpus again, or copy the whole folder again"
_HEADER = FileKind(16 * MEBIBYTE, _REMEDY)
_COLUMN = FileKind(2**44, _REMEDY)
TEXT_DTYPES, ID_DTYPES, LENGTH_DTYPES = ("uint8",), ("uint16", "int32"), ("int32", "int64")
"""Types of columns: texts in UTF-8, ids, and lengths."""
_MAX_PATH = 1_000
"""Characters of the path of a shard in a header."""
_DTYPES = (*TEXT_DTYPES, *ID_DTYPES, "int64", "uint64")
"""All types of columns; others, such as Python objects, are no numbers."""

Numbers = NDArray[Any]
_T = TypeVar("_T")


def chunked(items: Iterable[_T], size: int = CHUNK) -> Iterator[list[_T]]:
    """Yield consecutive lists of `size` items; the last may be shorter."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk


def write_columns(
    folder: Path, chunks: Iterable[Mapping[str, Numbers]], *, dtypes: Mapping[str, str], header: Mapping[str, Any]
) -> None:
    """Write columns chunk by chunk; the previous content of `folder` is replaced when all chunks are written.

    `dtypes` holds the type of each column, `header` additional entries of `header.json`.
    """
    with new_folder(folder) as partial, ExitStack() as stack:
        files = {
            name: _Column(stack.enter_context((partial / name).open("wb")), dtype) for name, dtype in dtypes.items()
        }
        for chunk in chunks:
            for name, numbers in chunk.items():
                files[name].extend(numbers)
        described = {name: [column.dtype, column.count, column.hash.hexdigest()] for name, column in files.items()}
        contents = [described[name] for name in dtypes if name != ORIGINS]
        fingerprint = hashlib.sha256(json.dumps(contents).encode()).hexdigest()
        tree = {"format_version": _FORMAT_VERSION, "fingerprint": fingerprint, **header, "files": described}
        stack.close()
        (partial / HEADER).write_text(to_checked_json(tree), encoding="utf-8")


@final
class Columns:
    """Columns of a folder, whose header and files may be damaged or made by someone else."""

    def __init__(self, folder: Path, format_name: str, *, root: Path | None = None) -> None:
        """Read the header. Raises DataError if it is missing or not of this format.

        Files and shards lie below `root`, by default the folder that contains this one, without symbolic links.
        """
        self.folder, self.root = folder, folder.parent if root is None else root
        tree = _HEADER.read_versioned_json(
            folder / HEADER, format_name=format_name, version=_FORMAT_VERSION, root=self.root
        )
        try:
            self.header = check_json(tree)
        except ValueError as error:
            raise _HEADER.damaged(folder / HEADER, str(error)) from error
        files = self.header.get("files")
        if not isinstance(files, dict) or not isinstance(self.header.get("fingerprint"), str):
            raise self.damaged_error(f"{HEADER} has no fingerprint or no files")
        self._files: dict[str, Any] = files

    def column(self, name: str, dtypes: Collection[str] = _DTYPES) -> Numbers:
        """Return a memory-mapped column of one of these types. Raises DataError if its file is incomplete."""
        match self._files.get(name):
            case [str(dtype), int(count), _] if dtype in dtypes and count >= 0:
                size = count * np.dtype(dtype).itemsize
            case _:
                raise self.damaged_error(f"{HEADER} has no type and number of the values of {name}")
        with _COLUMN.open(self.folder / name, root=self.root) as file:
            found = os.fstat(file.fileno()).st_size
            if found != size:
                raise self.damaged_error(f"{name} has {found:,} bytes instead of {size:,}")
            if not count:
                return np.zeros(0, dtype=dtype)
            try:
                return np.asarray(np.memmap(file, dtype=dtype, mode="r"))
            except OSError as error:
                raise self.damaged_error(f"{name} cannot be mapped: {error.strerror}") from error

    def verify(self) -> None:
        """Raise DataError if a file differs from its hash in the header."""
        for name, entry in self._files.items():
            with _COLUMN.open(self.folder / name, root=self.root) as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
            if not isinstance(entry, list) or entry[-1:] != [found]:
                raise self.damaged_error(f"{name} differs from its hash in {HEADER}")

    def open_shards(self, format_name: str) -> list["Columns"]:
        """Open the stores that this one concatenates. Raises DataError if they are missing, or not below `root`."""
        found: dict[Path, Columns] = {}
        shards = self.header["shards"]
        for entry in shards if isinstance(shards, list) else [None]:
            match entry:
                case [str(name), str(fingerprint)] if len(name) < _MAX_PATH:
                    folder = Path(os.path.normpath(self.folder / name))
                case _:
                    raise self.damaged_error(f"{HEADER} has no names and fingerprints of shards")
            if folder in found or not folder.is_relative_to(os.path.normpath(self.root)):
                raise self.damaged_error(f"the shard {shorten(name)} is repeated, or outside of the prepared folder")
            shard = found[folder] = Columns(folder, format_name, root=Path(os.path.normpath(self.root)))
            if shard.header["fingerprint"] != fingerprint:
                raise self.damaged_error(f"{name} is not the shard that was concatenated")
        return list(found.values())

    def damaged_error(self, reason: str) -> DataError:
        """Return the error for columns with wrong contents."""
        return DataError(f"{self.folder}: damaged store ({reason}); {_REMEDY}")


@final
class _Column:
    """File of numbers under construction, with the hash of its content."""

    def __init__(self, file: BinaryIO, dtype: str) -> None:
        self.dtype, self.count = dtype, 0
        self.file, self.hash = file, hashlib.sha256()

    def extend(self, numbers: Numbers) -> None:
        content = np.ascontiguousarray(numbers, dtype=self.dtype).tobytes()
        self.file.write(content)
        self.hash.update(content)
        self.count += len(numbers)


@final
class ConcatenatedArray:
    """Concatenation of one or several mapped arrays of one type."""

    def __init__(self, parts: Sequence[Numbers]) -> None:
        self._parts = parts
        self._maps = [found for part in parts if (found := _find_mmap(part)) is not None]
        self._taken = 0
        self._ends = np.cumsum([len(part) for part in parts], dtype=np.int64)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def take(self, places: NDArray[np.int64]) -> Numbers:
        """Return the numbers at any places."""
        self._release_pages(places.size)
        if len(self._parts) == 1:
            return self._parts[0][places]
        taken = np.empty(places.shape, dtype=self._parts[0].dtype)
        numbers = np.searchsorted(self._ends, places, side="right")
        for number in np.unique(numbers).tolist():
            here = numbers == number
            taken[here] = self._parts[number][places[here] - self._start(number)]
        return taken

    def slice(self, start: int, stop: int) -> Numbers:
        """Return the numbers from `start` to `stop`, as a view if one part holds all of them."""
        first, last = np.searchsorted(self._ends, [start, max(start, stop - 1)], side="right").tolist()
        found = [
            self._parts[number][max(0, start - self._start(number)) : stop - self._start(number)]
            for number in range(first, min(last, len(self._parts) - 1) + 1)
        ]
        return found[0] if len(found) == 1 else np.concatenate([self._parts[0][:0], *found])

    def _start(self, number: int) -> int:
        return int(self._ends[number - 1]) if number else 0

    def _release_pages(self, count: int) -> None:
        """Release mapped pages regularly: pages read at random rarely serve again, but count as memory."""
        self._taken += count
        if self._taken >= _MAX_TAKEN:
            self._taken = 0
            for one in self._maps:
                one.madvise(mmap.MADV_DONTNEED)


def _find_mmap(numbers: Numbers) -> mmap.mmap | None:
    """Return the mapped file behind an array, on systems that accept advice about it."""
    base: Any = numbers
    while base is not None and not isinstance(base, mmap.mmap):
        base = getattr(base, "base", None)
    return base if hasattr(mmap, "MADV_DONTNEED") else None


@final
class RaggedArray:
    """Sequences of different lengths, stored as concatenated values and lengths."""

    def __init__(self, values: Numbers | ConcatenatedArray, lengths: Numbers) -> None:
        self.values = values if isinstance(values, ConcatenatedArray) else ConcatenatedArray([values])
        self.lengths = lengths
        self.limit: int | None = None
        """Number of ids of the vocabulary, above which `fill` raises DataError."""
        self._starts = np.zeros(1 + -(-len(lengths) // _STRIDE), dtype=np.int64)
        if len(lengths):
            sums = np.add.reduceat(lengths, np.arange(0, len(lengths), _STRIDE), dtype=np.int64)
            np.cumsum(sums, out=self._starts[1:])

    def __len__(self) -> int:
        return len(self.lengths)

    def is_consistent(self, rows: int) -> bool:
        """Return whether there are so many rows and the lengths, none negative, add up to the number of values."""
        shortest, longest = int(self.lengths.min(initial=0)), int(self.lengths.max(initial=0))
        total = int(self.lengths.sum(dtype=np.int64))  # does not overflow if no length is too large
        return shortest >= 0 and longest <= len(self.values) == total and len(self) == rows

    def row(self, index: int) -> Numbers:
        """Return one sequence, a view of the file."""
        start = self._start(index)
        return self.values.slice(start, start + int(self.lengths[index]))

    def rows(self, start: int, stop: int) -> Iterator[Numbers]:
        """Yield the sequences from row `start` to row `stop`."""
        first = self._start(start)
        ends = np.cumsum(self.lengths[start:stop], dtype=np.int64).tolist()
        values = self.values.slice(first, first + (ends[-1] if ends else 0))
        begin = 0
        for end in ends:
            yield values[begin:end]
            begin = end

    def select_columns(self, name: str, start: int, kept: NDArray[np.bool_]) -> dict[str, Numbers]:
        """Return the rows from `start` on that are kept, as the columns of a store."""
        lengths = self.lengths[start : start + len(kept)]
        first = self._start(start)
        values = self.values.slice(first, first + int(lengths.sum(dtype=np.int64)))
        return {f"{name}.values": values[np.repeat(kept, lengths)], f"{name}.lengths": lengths[kept]}

    def fill(self, rows: NDArray[np.int64], into: Numbers) -> None:
        """Write each of `rows` left-aligned into its row of `into`; other entries of `into` stay unchanged."""
        lengths = self.lengths[rows]
        columns = np.arange(into.shape[1])
        inside = columns < lengths[:, None]
        values = self.values.take((self._row_starts(rows)[:, None] + columns)[inside])
        if self.limit is not None and values.size and not 0 <= values.min() <= values.max() < self.limit:
            raise DataError(f"the corpus contains an id beyond the vocabulary of {self.limit:,} tokens; {_REMEDY}")
        into[inside] = values

    def _start(self, index: int) -> int:
        first = index // _STRIDE * _STRIDE
        return int(self._starts[index // _STRIDE]) + int(self.lengths[first:index].sum(dtype=np.int64))

    def _row_starts(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        places = (rows // _STRIDE * _STRIDE)[:, None] + np.arange(_STRIDE - 1)
        before = np.where(places < rows[:, None], self.lengths.take(places, mode="clip"), 0)
        starts: NDArray[np.int64] = self._starts[rows // _STRIDE] + before.sum(axis=1, dtype=np.int64)
        return starts


class RaggedStore:
    """Base class of stores: named columns of sequences, and where each row comes from."""

    format: str
    names: tuple[str, ...]
    value_dtypes: tuple[str, ...] = ID_DTYPES

    def __init__(self, folder: Path) -> None:
        """Open a store. Raises DataError if it is missing, damaged, cut off or of another version."""
        columns = Columns(folder, self.format)
        self.folder, self.header, self._columns = folder, columns.header, columns
        shards = columns.open_shards(self.format) if "shards" in columns.header else [columns]
        self._shards = shards
        values = [[shard.column(f"{name}.values", self.value_dtypes) for shard in shards] for name in self.names]
        if len({part.dtype for parts in values for part in parts}) > 1:
            raise columns.damaged_error("its values are of several types")
        self.arrays = tuple(
            RaggedArray(ConcatenatedArray(parts), columns.column(f"{name}.lengths", LENGTH_DTYPES))
            for name, parts in zip(self.names, values, strict=True)
        )
        self.origins = columns.column(ORIGINS, ("int64",))
        if not all(array.is_consistent(len(self.origins)) for array in self.arrays):
            raise columns.damaged_error("its files do not fit each other")

    @classmethod
    def write(
        cls,
        folder: Path,
        chunks: Iterable[Mapping[str, Numbers]],
        *,
        dtypes: Mapping[str, str],
        facts: Mapping[str, Any] | None = None,
    ) -> Self:
        """Write columns into `folder`, as `write_columns` does, with `facts` in the header."""
        write_columns(folder, chunks, dtypes=dtypes, header={"format": cls.format, **(facts or {})})
        return cls(folder)

    @classmethod
    def open_verified(cls, folder: Path) -> Self:
        """Open a store, and verify its files. Raises DataError if it is missing or damaged."""
        store = cls(folder)
        store.verify()
        return store

    def verify(self) -> None:
        """Raise DataError if a file differs from its hash, at a few gigabytes per second."""
        for columns in dict.fromkeys([self._columns, *self._shards]):
            columns.verify()

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.origins)

    def damaged_error(self, reason: str) -> DataError:
        """Return the error for a store with wrong contents."""
        return self._columns.damaged_error(reason)

    @property
    def fingerprint(self) -> str:
        """Hash that is equal for stores with the same rows in the same order."""
        return str(self.header["fingerprint"])


def ragged_columns(name: str, sequences: Sequence[Sequence[int]], dtype: str) -> dict[str, Numbers]:
    """Return sequences as the columns of a store."""
    if sequences and isinstance(sequences[0], bytes):
        values: Numbers = np.frombuffer(b"".join(sequences), dtype=np.uint8)  # type: ignore[arg-type]
    else:
        values = np.fromiter(chain.from_iterable(sequences), dtype=dtype)
    lengths = np.fromiter(map(len, sequences), dtype=np.int32, count=len(sequences))
    return {f"{name}.values": values, f"{name}.lengths": lengths}


def id_dtype(vocab_size: int | None) -> str:
    """Return the smallest type that holds the ids of a vocabulary."""
    return "uint16" if vocab_size is not None and vocab_size <= np.iinfo(np.uint16).max + 1 else "int32"
