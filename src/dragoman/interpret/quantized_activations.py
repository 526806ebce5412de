r"""The numbers that a quantised runtime multiplies, in a network that computes in float.

The compiled core rounds what each linear map is given, row by row: with int8 to $\mathrm{round}(127 x / \max|x|)$
steps of $\max|x| / 127$, with bfloat16 to that format. Its weights, restored from what is stored, are the same numbers
here, so that with inputs rounded alike every product is the same but for the order of its sum.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, assert_never

import torch
from torch import Tensor, nn

from dragoman.interpret.recorder import attentions_of
from dragoman.models.quantization import ComputeType
from dragoman.nn.embedding import Unembedding
from dragoman.nn.kv_cache import KVCache
from dragoman.typing import Float

Numbers = Float[Tensor, "*places width"]
STEPS = 127
"""Of int8 on each side of zero."""


@contextmanager
def rounded_as(network: nn.Module, compute: ComputeType) -> Iterator[None]:
    """Inside the block, every linear map of the network is given its inputs as the core rounds them.

    Gradients pass the rounding as if it were not there.
    """
    with ExitStack() as hooks:
        for module in network.modules():
            if compute != "float32" and isinstance(module, nn.Linear | Unembedding):
                hooks.callback(module.register_forward_pre_hook(partial(_given, compute)).remove)
        for kind, _, attention in attentions_of(network):
            if compute != "float32" and kind != "encoder":
                hooks.callback(attention.register_forward_pre_hook(_seen).remove)
        yield


def rounded(x: Numbers, compute: ComputeType) -> Numbers:
    """The numbers that stand for `x` in a product."""
    match compute:
        case "float32":
            return x
        case "bfloat16":
            return x.to(torch.bfloat16).to(x.dtype)
        case "int8":
            reach = x.abs().amax(dim=-1, keepdim=True)
            factor = torch.where(reach > 0, STEPS / reach, 0.0)
            return (x * factor).round() * (reach / STEPS)
        case _:
            assert_never(compute)


def _seen(attention: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:  # noqa: ARG001
    """What attention is called with, its keys and values as the core keeps them."""
    x, seen, *others = arguments
    kept = KVCache(*(_through(part, rounded(part, "bfloat16")) for part in (seen.keys, seen.values)))
    return (x, kept, *others)


def _given(compute: ComputeType, module: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:  # noqa: ARG001
    return (_through(arguments[0], rounded(arguments[0], compute)), *arguments[1:])


def _through(x: Numbers, whole: Numbers) -> Numbers:
    """The rounded numbers, with the gradient of those that were rounded."""
    return x + (whole - x).detach()
