"""Columns of numbers in a folder, mapped into memory: what every store on disk is made of.

A folder holds `header.json` and a file a column. It is written streaming, beside its place, and renamed when it is
whole.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, final

import numpy as np
from numpy.typing import NDArray

from dragoman.atomic import new_folder
from dragoman.errors import DataError

FORMAT_VERSION = 1
HEADER = "header.json"

ORIGINS = "origins.values"
"""The column that says where rows come from; it is no part of what they are."""

Numbers = NDArray[Any]


def write_columns(
    folder: Path, chunks: Iterable[Mapping[str, Numbers]], *, dtypes: Mapping[str, str], header: Mapping[str, Any]
) -> None:
    """Write columns, chunk after chunk, replacing what is in `folder` only when all of them are written.

    `kinds` gives the type of the numbers of each column, `header` what is said of them beside their size and hash.
    """
    with new_folder(folder) as partial, ExitStack() as stack:
        files = {name: _Column(stack.enter_context((partial / name).open("wb")), kind) for name, kind in dtypes.items()}
        for chunk in chunks:
            for name, numbers in chunk.items():
                files[name].extend(numbers)
        described = {name: [column.dtype, column.count, column.digest()] for name, column in files.items()}
        contents = [described[name] for name in dtypes if name != ORIGINS]
        fingerprint = hashlib.sha256(json.dumps(contents).encode()).hexdigest()
        tree = {"format_version": FORMAT_VERSION, "fingerprint": fingerprint, **header, "files": described}
        stack.close()
        (partial / HEADER).write_text(json.dumps(tree, indent=1) + "\n", encoding="utf-8")


@final
class Columns:
    """A folder that was written before."""

    def __init__(self, folder: Path, wanted: str) -> None:
        """`wanted` is the format that the header must name. Raises DataError where it does not, or there is none."""
        self.folder = folder
        self.header = _read_header(folder, wanted)

    def column(self, name: str) -> Numbers:
        """The numbers of a column, from the disk as they are asked for. Raises DataError where some are missing."""
        path, (dtype, count, _) = self.folder / name, self.header["files"][name]
        size = count * np.dtype(dtype).itemsize
        found = path.stat().st_size if path.is_file() else 0
        if found != size:
            raise self.damaged_error(f"{name} has {found:,} bytes instead of {size:,}")
        if not count:
            return np.zeros(0, dtype=dtype)
        return np.asarray(np.memmap(path, dtype=dtype, mode="r"))

    def damaged_error(self, reason: str) -> DataError:
        """What to raise where the columns do not say what they should."""
        return _damaged(self.folder, reason)


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


def _read_header(folder: Path, wanted: str) -> dict[str, Any]:
    path = folder / HEADER
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); {_REMEDY}") from error
    except ValueError as error:
        raise _damaged(folder, f"{HEADER} is not valid JSON") from error
    if not isinstance(header, dict) or header.get("format") != wanted or header.get("format_version") != FORMAT_VERSION:
        raise _damaged(folder, f"{HEADER} is not that of {wanted}, version {FORMAT_VERSION}")
    return header


_REMEDY = "remove the folder; it is built again from the corpus, by dragoman data prepare if that wrote it"


def _damaged(folder: Path, reason: str) -> DataError:
    return DataError(f"{folder}: damaged store ({reason}); {_REMEDY}")
