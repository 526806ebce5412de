"""Weights of Hugging Face models: safetensors, or `pytorch_model.bin` without arbitrary pickles, sharded or not.

Formats: https://huggingface.co/docs/safetensors and https://docs.pytorch.org/docs/stable/notes/serialization.html. A
model in several files has an index, `{"weight_map": {tensor: file}}`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dragoman.errors import DataError, shorten
from dragoman.interop.torch_files import float_arrays, read_torch_file
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
    integers: frozenset[str]
    """Names of tensors of integers, which are buffers such as position ids, or quantized weights."""


def find_weights(folder: Path) -> Path:
    """Return the file of the weights, or their index. Raises DataError if there is none."""
    for name in _NAMES:
        path = folder / name
        if path.is_symlink() or path.exists():
            return path
    raise DataError(f"{folder}: has no weights ({', '.join(_NAMES)}); download the whole model.")


def read_weights(folder: Path) -> ForeignWeights:
    """Read all floating-point tensors of a model, and the names of its tensors of integers.

    Raises DataError if a file is missing, damaged or contains other objects than tensors.
    """
    path = find_weights(folder)
    parts = _shards(path) if path.suffix == ".json" else {path: None}
    tensors, formats, integers = Tensors(), set[str](), set[str]()
    for part, names in parts.items():
        found, kinds = _read_safetensors(part) if part.suffix == ".safetensors" else _read_pickle(part)
        if names is not None and names != found.keys():
            name = min(names ^ found.keys())
            raise DataError(f"{part}: differs from the index {path.name} in {shorten(name)}; {REMEDY}.")
        tensors |= {name: array for name, array in found.items() if array is not None}
        integers |= {name for name, array in found.items() if array is None}
        formats |= kinds
    dtype = formats.pop() if len(formats) == 1 else "float32"
    return ForeignWeights(tensors, dtype, tuple(parts), frozenset(integers))


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
    """Read tensors of a file of `torch.save`; other objects than tensors and containers are refused."""
    tree = read_torch_file(path)
    tree = tree.get("state_dict", tree) if isinstance(tree, Mapping) else tree
    arrays, formats = float_arrays(path, tree)
    found: dict[str, np.ndarray | None] = {name: arrays.get(name) for name in tree}
    return found, {formats.get(name, "float32") for name in arrays}
