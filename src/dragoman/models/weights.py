"""The weights of a network as named tensors on disk (safetensors); a tied weight is stored once."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, assert_never

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from dragoman.atomic import write_atomically
from dragoman.errors import ConfigError, RunError

TieEmbeddings = Literal["all", "target", "none"]
"""What shares the unembedding's weight: both embeddings, the target's, or none (Press and Wolf, 2017)."""


def get_weights(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter by its first name, on the CPU; the tensors are the model's own where it lives there."""
    return {name: parameter.detach().cpu() for name, parameter in model.named_parameters()}


def set_weights(model: nn.Module, tensors: Mapping[str, Tensor], *, where: str = "these weights") -> None:
    """Copy `tensors` into the parameters of `model`; raises RunError where names or shapes differ."""
    own = dict(model.named_parameters())
    missing, unknown = own.keys() - tensors.keys(), tensors.keys() - own.keys()
    reshaped = {name for name in own.keys() & tensors.keys() if own[name].shape != tensors[name].shape}
    for names, fault in ((missing, "lacks"), (unknown, "has an unknown"), (reshaped, "has another shape of")):
        if names:
            raise RunError(
                f"{where}: {fault} {min(names)}; the weights belong to another configuration. "
                "Use the config.yaml they were trained with"
            )
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(place_like(tensors[name], parameter))


def place_like(tensor: Tensor, parameter: Tensor) -> Tensor:
    """The tensor where the parameter is: on its device, or in shards as it is."""
    if not hasattr(parameter, "device_mesh") or hasattr(tensor, "device_mesh"):
        return tensor.to(parameter.device)
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(tensor.to(parameter.device), parameter.device_mesh, parameter.placements)  # type: ignore[attr-defined]


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors atomically."""
    write_atomically(path, save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}))


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read tensors; raises RunError where the file is missing, truncated or not safetensors."""
    try:
        return load_file(path)
    except FileNotFoundError as error:
        raise RunError(f"{path}: no such file; is the folder a complete run or checkpoint?") from error
    except (SafetensorError, OSError, json.JSONDecodeError) as error:
        raise RunError(f"{path}: damaged or not a safetensors file ({error}); restore it from a copy") from error


def build_tied_embeddings(
    tie: TieEmbeddings, *, source_vocabulary: int, target_vocabulary: int, embedding_size: int, size: int
) -> tuple[nn.Embedding, nn.Embedding, nn.Embedding]:
    """The embeddings of source and target, of `embedding_size`, and the table of `size` whose weight unembeds.

    A table that is tied to an embedding has its size. Raises ConfigError where vocabularies that differ are to be one.
    """
    source = nn.Embedding(source_vocabulary, embedding_size)
    match tie:
        case "all":
            if source_vocabulary != target_vocabulary:
                raise ConfigError(
                    f"model.tie_embeddings = all needs one vocabulary for both sides, but they hold {source_vocabulary} and "
                    f"{target_vocabulary} entries; set tokenizer.shared=true or model.tie_embeddings=target"
                )
            return source, source, source
        case "target":
            target = nn.Embedding(target_vocabulary, embedding_size)
            return source, target, target
        case "none":
            target = nn.Embedding(target_vocabulary, embedding_size)
            return source, target, nn.Embedding(target_vocabulary, size)
        case _:
            assert_never(tie)
