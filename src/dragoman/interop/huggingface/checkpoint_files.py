"""Weights of Hugging Face models: safetensors, or `pytorch_model.bin` without arbitrary pickles, sharded or not.

Formats: https://huggingface.co/docs/safetensors and https://docs.pytorch.org/docs/stable/notes/serialization.html. A
model in several files has an index, `{"weight_map": {tensor: file}}`.
"""

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dragoman.errors import DataError, shorten, shorten_text
from dragoman.safetensors_files import ITEM_SIZES, MAX_HEADER, MAX_TENSORS, allocate_array, open_safetensors
from dragoman.untrusted_files import FileKind

REMEDY = "download it again"
WEIGHT_FILES = FileKind(2**42, REMEDY, error=DataError)
INDEX_FILES = FileKind(MAX_HEADER, REMEDY, error=DataError)
MAX_FILES = 1000
FLOAT_FORMATS = {"F32": "float32", "F16": "float16", "BF16": "bfloat16", "F64": "float64"}
"""Number formats that are read as float32, by their names in safetensors."""
_NAMES = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")

Tensors = dict[str, np.ndarray]


@dataclass(frozen=True)
class ForeignWeights:
    """Tensors by their names as float32, with the number format and the files that they were read from."""

    tensors: Tensors
    dtype: str
    files: tuple[Path, ...]


def find_weights(folder: Path) -> Path:
    """Return the file of the weights, or their index. Raises DataError if there is none."""
    for name in _NAMES:
        path = folder / name
        if path.is_symlink() or path.exists():
            return path
    raise DataError(f"{folder}: has no weights ({', '.join(_NAMES)}); download the whole model.")


def read_weights(folder: Path) -> ForeignWeights:
    """Read all floating-point tensors of a model; integers, which are buffers such as position ids, are left out.

    Raises DataError if a file is missing, damaged or contains other objects than tensors.
    """
    path = find_weights(folder)
    parts = _shards(path) if path.suffix == ".json" else {path: None}
    tensors, formats = Tensors(), set[str]()
    for part, names in parts.items():
        found, kinds = _read_safetensors(part) if part.suffix == ".safetensors" else _read_pickle(part)
        if names is not None and names != found.keys():
            name = min(names ^ found.keys())
            raise DataError(f"{part}: differs from the index {path.name} in {shorten(name)}; {REMEDY}.")
        tensors |= {name: array for name, array in found.items() if array is not None}
        formats |= kinds
    dtype = formats.pop() if len(formats) == 1 else "float32"
    return ForeignWeights(tensors, dtype, tuple(parts))


def _shards(index: Path) -> dict[Path, set[str] | None]:
    """Return the files of a sharded model, with the names of their tensors."""
    names = INDEX_FILES.read_json_object(index).get("weight_map")
    if not isinstance(names, Mapping) or not 0 < len(names) <= MAX_TENSORS:
        raise INDEX_FILES.damaged(index, f"weight_map is no mapping of at most {MAX_TENSORS:,} tensors")
    suffix = "".join(index.suffixes[:-2])
    shards: dict[str, set[str]] = {}
    for name, file in names.items():
        if not isinstance(file, str) or not file.endswith(suffix) or Path(file).name != file:
            raise INDEX_FILES.damaged(index, f"{shorten(name)} is in {shorten(file)}, no {suffix} file next to it")
        shards.setdefault(file, set()).add(name)
    if len(shards) > MAX_FILES:
        raise INDEX_FILES.damaged(index, f"more than {MAX_FILES:,} files")
    return {index.parent / file: found for file, found in sorted(shards.items())}


def _read_safetensors(path: Path) -> tuple[dict[str, np.ndarray | None], set[str]]:
    with open_safetensors(path, WEIGHT_FILES) as file:
        headers = file.tensors
        for name, header in headers.items():
            if header.dtype not in ITEM_SIZES:
                raise ValueError(f"{shorten(name)} is of the type {header.dtype}")
        arrays = file.read(allocate_array)
    found: dict[str, np.ndarray | None] = {}
    for name, header in headers.items():
        found[name] = _as_float32(arrays.pop(name), header.dtype) if header.dtype in FLOAT_FORMATS else None
    return found, {FLOAT_FORMATS[one.dtype] for one in headers.values() if one.dtype in FLOAT_FORMATS}


def _as_float32(array: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "BF16":
        return (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return array.astype(np.float32, copy=False)


def _read_pickle(path: Path) -> tuple[dict[str, np.ndarray | None], set[str]]:
    """Read tensors by `torch.load(weights_only=True)`, which builds tensors and plain containers only."""
    with WEIGHT_FILES.open(path) as file:
        size = file.seek(0, 2)
        file.seek(0)
        if zipfile.is_zipfile(file):
            _check_stored(path, file)
        file.seek(0)
        try:
            tree: Any = torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:  # the unpickler and the archive reader raise many classes
            reason = shorten_text(str(error).strip().partition("\n")[0], 150)
            raise DataError(
                f"{path}: is no file of tensors, or contains other objects, which are not loaded ({reason}); "
                "convert it to safetensors where you trust it."
            ) from error
    tree = tree.get("state_dict", tree) if isinstance(tree, Mapping) else tree
    if not isinstance(tree, Mapping) or len(tree) > MAX_TENSORS:
        raise WEIGHT_FILES.damaged(path, f"no mapping of at most {MAX_TENSORS:,} tensors")
    found: dict[str, np.ndarray | None] = {}
    formats = set[str]()
    for name, tensor in tree.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided:
            raise WEIGHT_FILES.damaged(path, f"{shorten(name)} is no tensor")
        if tensor.numel() * tensor.element_size() > size:
            raise WEIGHT_FILES.damaged(path, f"{shorten(name)} is larger than the file")
        found[name] = tensor.detach().float().contiguous().numpy() if tensor.is_floating_point() else None
        if tensor.is_floating_point():
            formats.add(str(tensor.dtype).removeprefix("torch."))
    return found, formats


def _check_stored(path: Path, file: Any) -> None:
    """Raise DataError if the members of an archive are compressed, or larger than the archive."""
    size = file.seek(0, 2)
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
        raise WEIGHT_FILES.damaged(path, str(error)) from error
    if any(one.compress_type != zipfile.ZIP_STORED for one in members) or sum(one.file_size for one in members) > size:
        raise WEIGHT_FILES.damaged(path, "its members are compressed or larger than the file")
