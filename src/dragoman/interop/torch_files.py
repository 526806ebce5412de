"""Checkpoints of PyTorch, read without running code.

Since version 1.6, a file of `torch.save` is an archive of uncompressed members: `data.pkl`, a pickle, and the numbers
of the tensors (https://docs.pytorch.org/docs/stable/notes/serialization.html). Older files are five pickles and the
numbers. The pickles are searched for the names of functions and classes before they are read; all but those that build
tensors and plain values are refused. Then `torch.load(weights_only=True)`, which runs no others either, reads the file.
"""

import argparse
import pickletools
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import torch
from numpy._core.multiarray import scalar as numpy_scalar

from dragoman.errors import DataError, shorten, shorten_text
from dragoman.safetensors_files import MAX_TENSORS
from dragoman.untrusted_files import MEBIBYTE, FileKind

TORCH_FILES: Final = FileKind(2**40, "download it again")
MAX_PICKLE: Final = 64 * MEBIBYTE
"""Bytes of the pickle of a checkpoint, apart from its tensors."""
_FUNCTIONS: Final = frozenset(
    {
        "torch._utils _rebuild_tensor",
        "torch._utils _rebuild_tensor_v2",
        "torch._utils _rebuild_parameter",
        "torch Size",
        "torch device",
        "collections OrderedDict",
        "collections defaultdict",
        "argparse Namespace",
        "numpy dtype",
        "numpy.core.multiarray scalar",
        "numpy._core.multiarray scalar",
        "_codecs encode",
        *(f"__builtin__ {name}" for name in ("set", "dict", "list", "int", "float")),
        *(f"builtins {name}" for name in ("set", "dict", "list", "int", "float")),
        *(f"torch {name}Storage" for name in ("Double", "Float", "Half", "BFloat16", "Long", "Int", "Short", "Char")),
        *(f"torch {name}Storage" for name in ("Byte", "Bool")),
        *(f"torch {name}" for name in ("float64", "float32", "float16", "bfloat16", "int64", "int32", "uint8", "bool")),
    }
)
"""Functions and classes that a checkpoint may name: they build tensors, containers, numbers and argument lists."""
_NAMING: Final = frozenset({"GLOBAL", "STACK_GLOBAL", "INST", "OBJ", "EXT1", "EXT2", "EXT4"})
"""Operations of a pickle that name a function or class; `torch.load` accepts the first one only."""
_ARCHIVE: Final = b"PK\x03\x04"
"""First bytes of an archive."""
_PICKLES: Final = 5
"""Pickles of a file of PyTorch before 1.6: magic number, version, machine, content, and the keys of the numbers."""


def read_torch_file(path: Path) -> Any:
    """Return the content of a checkpoint: tensors on the CPU in containers and argument lists.

    Raises DataError if it is damaged or holds objects of other classes.
    """
    with TORCH_FILES.open(path) as file:
        _check_file(path, file)
        file.seek(0)
        allowed: list[Any] = [argparse.Namespace, (numpy_scalar, "numpy.core.multiarray.scalar"), np.dtype]
        allowed += [(numpy_scalar, "numpy._core.multiarray.scalar"), type(np.dtype("f8")), type(np.dtype("f4"))]
        allowed += [type(np.dtype("i8")), type(np.dtype("i4"))]
        try:
            with torch.serialization.safe_globals(allowed):
                return torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:  # the unpickler and the archive reader raise many classes
            raise TORCH_FILES.damaged(path, shorten_text(str(error).strip().partition("\n")[0], 150)) from error


def is_torch_file(path: Path) -> bool:
    """Return whether a file is one of `torch.save` whose pickles name no other functions and classes."""
    try:
        with TORCH_FILES.open(path) as file:
            _check_file(path, file)
    except (DataError, OSError):
        return False
    return True


def float_arrays(path: Path, tree: Any) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return the floating-point tensors of a mapping as float32, and each number format other than float32 by name.

    Other tensors are buffers, such as counters. Raises DataError if the tree is no mapping of names to dense tensors.
    """
    if not isinstance(tree, Mapping) or len(tree) > MAX_TENSORS:
        raise TORCH_FILES.damaged(path, f"no mapping of at most {MAX_TENSORS:,} tensors")
    arrays, formats = dict[str, np.ndarray](), dict[str, str]()
    for name, tensor in tree.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided:
            raise TORCH_FILES.damaged(path, f"{shorten(name)} is no tensor")
        if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes() or tensor.device.type != "cpu":
            raise TORCH_FILES.damaged(path, f"{shorten(name)} is larger than its numbers")
        if tensor.is_floating_point():
            arrays[name] = tensor.detach().float().contiguous().numpy()
            if tensor.dtype != torch.float32:
                formats[name] = str(tensor.dtype).removeprefix("torch.")
    return arrays, formats


def integer_tensors(tree: Any) -> dict[str, str]:
    """Return the reason for each tensor that `float_arrays` leaves out."""
    tensors = tree.items() if isinstance(tree, Mapping) else ()
    reason = "integers, which no part of the network reads"
    return {str(name): reason for name, one in tensors if isinstance(one, torch.Tensor) and not one.is_floating_point()}


def _check_file(path: Path, file: BinaryIO) -> None:
    """Raise DataError if a file is none of `torch.save`, or its pickles name other functions and classes."""
    size = file.seek(0, 2)
    file.seek(0)
    if file.read(len(_ARCHIVE)) == _ARCHIVE:
        _check_archive(path, file, size)
    else:
        _check_stream(path, file)


def _check_archive(path: Path, file: BinaryIO, size: int) -> None:
    """Raise DataError if a file is no archive of `torch.save`, or its pickle names other functions and classes."""
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            if any(one.compress_type != zipfile.ZIP_STORED for one in members):
                raise TORCH_FILES.damaged(path, "its members are compressed")
            if len({one.filename for one in members}) < len(members) or sum(one.file_size for one in members) > size:
                raise TORCH_FILES.damaged(path, "its members overlap")
            name = _pickle_name(archive)
            if name is None or archive.getinfo(name).file_size > MAX_PICKLE:
                raise TORCH_FILES.damaged(path, f"it has no data.pkl of at most {MAX_PICKLE // MEBIBYTE} MiB")
            content = archive.read(name)
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError, EOFError, RuntimeError) as error:
        raise TORCH_FILES.damaged(path, f"no archive of torch.save: {shorten_text(str(error), 100)}") from error
    _check_names(path, content)


def _check_stream(path: Path, file: BinaryIO) -> None:
    """Raise DataError if a file of PyTorch before 1.6 names other functions and classes."""
    file.seek(0)
    for _ in range(_PICKLES):
        _check_names(path, file)


def _pickle_name(archive: zipfile.ZipFile) -> str | None:
    """Return the name of the pickle, which is in the only folder of the archive."""
    return next((name for name in archive.namelist() if name.count("/") == 1 and name.endswith("/data.pkl")), None)


def _check_names(path: Path, content: bytes | BinaryIO) -> None:
    """Raise DataError if a pickle names functions or classes that do not build tensors and plain values."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of damaged texts
        try:
            named = [(one.name, argument) for one, argument, _ in pickletools.genops(content) if one.name in _NAMING]
        except (ValueError, IndexError, KeyError, UnicodeDecodeError, OverflowError) as error:
            raise TORCH_FILES.damaged(path, f"its pickle is invalid: {shorten_text(str(error), 100)}") from error
    for operation, argument in named:
        if operation != "GLOBAL" or argument not in _FUNCTIONS:
            what = shorten(str(argument).replace(" ", ".")) if operation == "GLOBAL" else operation
            raise DataError(
                f"{path}: holds objects of Python ({what}), which are not loaded. Save the weights and settings alone, "
                "where you trust the file."
            )
