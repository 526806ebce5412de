"""Weights of a model as named tensors, in memory and on disk (safetensors); a tied weight is stored once."""

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from dragoman.atomic_files import write_atomically
from dragoman.checksums import ChecksumError, check_data, with_checksum
from dragoman.errors import RunError


def get_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return every parameter by its first name, on the CPU; tensors on the CPU are not copied."""
    return {name: parameter.detach().cpu() for name, parameter in model.named_parameters()}


def set_weights(model: nn.Module, tensors: Mapping[str, Tensor], *, where: str = "these weights") -> None:
    """Copy tensors into the parameters of a model. Raises RunError if names or shapes differ."""
    own = dict(model.named_parameters())
    missing, unknown = own.keys() - tensors.keys(), tensors.keys() - own.keys()
    reshaped = {name for name in own.keys() & tensors.keys() if own[name].shape != tensors[name].shape}
    for names, problem in ((missing, "lacks"), (unknown, "has an unknown"), (reshaped, "has another shape of")):
        if names:
            raise RunError(
                f"{where}: {problem} {min(names)}; the weights belong to another configuration. "
                "Use the config.yaml they were trained with"
            )
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(place_like(tensors[name], parameter))


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


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read tensors. Raises RunError if the file is missing or damaged."""
    try:
        tensors = load_file(path)
        check_data(path)
        return tensors
    except FileNotFoundError as error:
        raise RunError(f"{path}: no such file; is the folder a complete run or checkpoint?") from error
    except (SafetensorError, ChecksumError, OSError, json.JSONDecodeError) as error:
        raise RunError(f"{path}: damaged or not a safetensors file ({error}); restore it from a copy") from error
