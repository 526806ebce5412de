"""NumPy's `.npz` files of Marian and g2p-en: a zip archive of arrays, which may hold no objects."""

import io
import math
import zipfile
import zlib
from pathlib import Path
from typing import Final

import numpy as np

from dragoman.errors import shorten_text
from dragoman.untrusted_files import MEBIBYTE, FileKind

ARRAY_FILES: Final = FileKind(8192 * MEBIBYTE, "get the file again from where it came")
_MAX_ARRAYS: Final = 100_000
_MAX_HEADER: Final = 65_536
"""Bytes before the numbers of an array."""
_MAX_EXPANSION: Final = 1100
"""Maximum ratio of an array and its compressed bytes; deflate reaches 1,032."""
_STORED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a file by name, numbers in float32 and texts as int8.

    Raises DataError if the file is damaged, or an array is larger than its bytes or holds objects.
    """
    with ARRAY_FILES.open(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
                if len(members) > _MAX_ARRAYS:
                    raise ValueError(f"it has {len(members):,} arrays")
                found: dict[str, np.ndarray] = {}
                for member in members:
                    name = member.filename.removesuffix(".npy")
                    if name in found:
                        raise ValueError(f"the array {shorten_text(name)} is there twice")
                    found[name] = _read_array(archive, member)
                return found
        except (ValueError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as error:
            raise ARRAY_FILES.damaged(path, " ".join(str(error).split())) from error
        except (OSError, SyntaxError, TypeError, KeyError) as error:
            raise ARRAY_FILES.damaged(path, f"{type(error).__name__} in an array") from error


def _read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """Read an array. Raises ValueError before memory is allocated if its size is not that of its bytes."""
    name = shorten_text(member.filename)
    if member.compress_type not in _STORED or member.file_size > _MAX_EXPANSION * member.compress_size + _MAX_HEADER:
        raise ValueError(f"the array {name} is compressed in an unknown way")
    with archive.open(member) as stream:
        start = io.BytesIO(stream.read(_MAX_HEADER))
        version = np.lib.format.read_magic(start)
        if version not in {(1, 0), (2, 0)}:
            raise ValueError(f"the array {name} has the version {version}")
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, by_columns, dtype = read(start)
        if dtype.hasobject or dtype.names is not None or dtype.kind not in "fiu":
            raise ValueError(f"the array {name} holds {dtype.kind!r}, not numbers")
        if min(shape, default=0) < 0 or start.tell() + math.prod(shape) * dtype.itemsize != member.file_size:
            raise ValueError(f"the array {name} has another size than its bytes")
        data = start.read() + stream.read(member.file_size)
    array = np.frombuffer(data, dtype).reshape(shape, order="F" if by_columns else "C")
    return array.astype(np.int8 if dtype.itemsize == 1 else np.float32)
