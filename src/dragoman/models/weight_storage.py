"""Weights of a model as named tensors, in memory and on disk (safetensors); a tied weight is stored once."""

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor, nn

from dragoman.atomic_files import write_atomically
from dragoman.checksums import with_checksum
from dragoman.errors import RunError
from dragoman.models.weight_validation import check_shapes, non_finite_error
from dragoman.safetensors_files import WEIGHTS, TensorHeader, open_safetensors


def get_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return every parameter by its first name, on the CPU; tensors on the CPU are not copied."""
    return {name: parameter.detach().cpu() for name, parameter in model.named_parameters()}


def parameter_shapes(model: nn.Module) -> dict[str, tuple[int, ...]]:
    """Return the shape of every parameter by its first name."""
    return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}


def check_tensors(model: nn.Module, tensors: Mapping[str, Tensor], *, where: str) -> None:
    """Raise RunError if names, shapes or number formats differ from those of the parameters of a model."""
    check_shapes({name: tuple(one.shape) for name, one in tensors.items()}, parameter_shapes(model), where=where)
    for name, parameter in model.named_parameters():
        if tensors[name].dtype != parameter.dtype:
            raise RunError(f"{where}: {name} is {tensors[name].dtype}, and the model has {parameter.dtype}")


def set_weights(model: nn.Module, tensors: Mapping[str, Tensor], *, where: str = "these weights") -> None:
    """Copy tensors into the parameters of a model. Raises RunError if names, shapes or number formats differ."""
    check_tensors(model, tensors, where=where)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(place_like(tensors[name], parameter))


def check_finite(tensors: Mapping[str, Tensor], *, where: str) -> None:
    """Raise RunError on NaN and infinity."""
    for name, tensor in tensors.items():
        if not bool(tensor.isfinite().all()):
            raise non_finite_error(name, where=where)


def place_like(tensor: Tensor, parameter: Tensor) -> Tensor:
    """Move a tensor to the device of a parameter, sharded like the parameter."""
    if not hasattr(parameter, "device_mesh") or hasattr(tensor, "device_mesh"):
        return tensor.to(parameter.device)
    from torch.distributed.tensor import distribute_tensor  # takes a second to import

    return distribute_tensor(tensor.to(parameter.device), parameter.device_mesh, parameter.placements)  # type: ignore[attr-defined]


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors with a checksum atomically."""
    content = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    write_atomically(path, *with_checksum(content))


def load_tensors(path: Path, *, root: Path | None = None) -> dict[str, Tensor]:
    """Read tensors. Raises RunError if the file is missing or damaged.

    No folder between `root`, by default the folder of the file, and the file may be a symbolic link.
    """
    with open_safetensors(path, WEIGHTS, root=root) as file:
        return file.read(_allocate)


_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "BOOL": torch.bool,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U64": torch.uint64,
    "U32": torch.uint32,
    "U16": torch.uint16,
    "U8": torch.uint8,
}


def _allocate(header: TensorHeader) -> tuple[Tensor, memoryview]:
    tensor = torch.empty(header.shape, dtype=_DTYPES[header.dtype])
    return tensor, tensor.view(-1).view(torch.uint8).numpy().data
