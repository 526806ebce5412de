"""Weights of a model: tied embeddings, initialization, and named tensors on disk (safetensors).

A tied weight is stored once.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, assert_never

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from dragoman.atomic_files import write_atomically
from dragoman.errors import ConfigError, RunError
from dragoman.nn.attention import MultiHeadAttention

TieEmbeddings = Literal["all", "target", "none"]
"""Embeddings that share the weight of the output projection (Press and Wolf, 2017)."""


def build_tied_embeddings(
    tie: TieEmbeddings, *, source_vocabulary: int, target_vocabulary: int, embedding_size: int, size: int
) -> tuple[nn.Embedding, nn.Embedding, nn.Embedding]:
    """Build the embeddings of source, target and output projection.

    `size` is that of an output projection that is not tied. Raises ConfigError if vocabularies differ but are tied.
    """
    source = nn.Embedding(source_vocabulary, embedding_size)
    match tie:
        case "all":
            if source_vocabulary != target_vocabulary:
                raise ConfigError(
                    "model.tie_embeddings = all needs one vocabulary for both sides, but they hold "
                    f"{source_vocabulary} and {target_vocabulary} entries; set tokenizer.shared=true or "
                    "model.tie_embeddings=target"
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


@torch.no_grad()
def initialize_weights(model: nn.Module, output_weight: Tensor) -> None:
    r"""Initialize embeddings from $N(0, 1/d)$, with unit variance after scaling by $\sqrt d$, and linear maps by Glorot
    and Bengio (2010).

    Queries, keys and values are initialized as one map, smaller by $\sqrt 2$; recurrent gates, one by one.
    """
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=1 / math.sqrt(module.embedding_dim))
        elif isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.LSTM | nn.GRU):
            _initialize_gates(module)
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            for projection in (module.query, module.key, module.value):
                nn.init.xavier_uniform_(projection.weight, gain=1 / math.sqrt(2))
    nn.init.normal_(output_weight, std=1 / math.sqrt(output_weight.shape[1]))


def _initialize_gates(layer: nn.LSTM | nn.GRU) -> None:
    """Initialize each gate: orthogonal from the hidden state (Saxe et al., 2014), Glorot and Bengio from the input.

    The forget gates of an LSTM start open, with a bias of 1 (Jozefowicz et al., 2015).
    """
    size = layer.hidden_size
    for name, parameter in layer.named_parameters():
        for gate in parameter.detach().split(size):
            if name.startswith("weight_hh"):
                nn.init.orthogonal_(gate)
            elif name.startswith("weight_ih"):
                nn.init.xavier_uniform_(gate)
            else:
                nn.init.zeros_(gate)
        if name.startswith("bias_ih") and isinstance(layer, nn.LSTM):
            nn.init.ones_(parameter.detach()[size : 2 * size])


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
    """Write tensors atomically."""
    write_atomically(path, save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}))


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read tensors. Raises RunError if the file is missing or damaged."""
    try:
        return load_file(path)
    except FileNotFoundError as error:
        raise RunError(f"{path}: no such file; is the folder a complete run or checkpoint?") from error
    except (SafetensorError, OSError, json.JSONDecodeError) as error:
        raise RunError(f"{path}: damaged or not a safetensors file ({error}); restore it from a copy") from error
