r"""Rounding of activations to int8, int16 or bfloat16, as the CPU library does, in a PyTorch model.

The CPU library rounds the inputs of each linear map, row by row: with int8 to $\mathrm{round}(127 x / \max|x|)$ steps
of $\max|x| / 127$, with int8_int16 to steps of $\max|x| / 32767$, with bfloat16 to that format. Weights restored from
an export are the same in both backends: products with rounded inputs differ only in the order of their sums.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, assert_never

import torch
from torch import Tensor, nn

from dragoman.array_types import Float
from dragoman.interpret.attention_recorder import attention_modules
from dragoman.models.weight_quantization import ComputeType
from dragoman.nn.embedding import Unembedding
from dragoman.nn.kv_cache import KVCache

Activations = Float[Tensor, "*positions width"]
INT8_MAX, INT16_MAX = 127, 32767


@contextmanager
def round_activations(model: nn.Module, compute_type: ComputeType) -> Iterator[None]:
    """Round the inputs of every linear map inside the block; gradients pass through the rounding."""
    with ExitStack() as hooks:
        for module in model.modules():
            if compute_type != "float32" and isinstance(module, nn.Linear | Unembedding):
                hooks.enter_context(module.register_forward_pre_hook(partial(_round_input, compute_type)))
        for kind, _, attention in attention_modules(model):
            if compute_type in ("int8", "bfloat16") and kind != "encoder":
                hooks.enter_context(attention.register_forward_pre_hook(_round_cache))
        yield


def round_to(x: Activations, compute_type: ComputeType) -> Activations:
    """Round activations to the values that a compute type represents."""
    match compute_type:
        case "float32":
            return x
        case "bfloat16":
            return x.to(torch.bfloat16).to(x.dtype)
        case "int8":
            return _round_to_steps(x, INT8_MAX)
        case "int8_int16":
            return _round_to_steps(x, INT16_MAX)
        case _:
            assert_never(compute_type)


def _round_to_steps(x: Activations, steps: int) -> Activations:
    largest = x.abs().amax(dim=-1, keepdim=True)
    factor = torch.where(largest > 0, steps / largest, 0.0)
    return (x * factor).round() * (largest / steps)


def _round_cache(attention: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:  # noqa: ARG001
    """Forward pre-hook of attention that rounds keys and values to bfloat16, the format of the library's cache."""
    x, cache, *others = arguments
    return (x, KVCache(*(_straight_through(part, "bfloat16") for part in (cache.keys, cache.values))), *others)


def _round_input(compute_type: ComputeType, module: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:  # noqa: ARG001
    return (_straight_through(arguments[0], compute_type), *arguments[1:])


def _straight_through(x: Activations, compute_type: ComputeType) -> Activations:
    """Round with the gradient of the identity."""
    return x + (round_to(x, compute_type) - x).detach()
