"""Initial weights of a model: tied embeddings, linear maps and recurrent gates; models without numbers."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Literal, assert_never

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from dragoman.errors import ConfigError
from dragoman.nn.attention import MultiHeadAttention

TieEmbeddings = Literal["all", "target", "none"]
"""Embeddings that share the weight of the output projection (Press and Wolf, 2017)."""
RANDOM_FUNCTIONS: Final = frozenset((nn.init.normal_, nn.init.uniform_, Tensor.normal_, Tensor.uniform_))


class _SkipRandomInit(TorchFunctionMode):
    """Leaves tensors unchanged instead of filling them with random numbers.

    For tensors on the meta device PyTorch would import 800 modules of symbolic shapes, in order to fill nothing.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if func in RANDOM_FUNCTIONS:
            return args[0] if args else given["tensor"]
        return func(*args, **given)


@contextmanager
def without_numbers() -> Iterator[torch.device]:
    """Build models in the block on the meta device, which it yields: shapes without numbers."""
    device = torch.device("meta")
    with device, _SkipRandomInit():
        yield device


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


def keep_zero_row(weight: Tensor, row: int) -> None:
    """Set a row of a table to zero, and its gradient in every backward pass."""
    if weight.is_meta:  # a model without numbers, which is not trained
        return
    with torch.no_grad():
        weight[row] = 0
    index = torch.tensor([row])
    weight.register_hook(lambda gradient: gradient.index_fill(0, index.to(gradient.device), 0))


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
