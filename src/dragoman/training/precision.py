"""The number format of the forward and backward pass; weights and optimiser stay in float32.

PyTorch's autocast keeps activations in bfloat16 too, which costs a CPU as much as it gains. Here a CPU takes bfloat16
into products of matrices alone: what goes in and comes out is rounded, sums are in float32, and everything between
products stays in float32. With `auto` these are the products with the vocabulary, where the CPU has the instructions;
with `bfloat16` those of linear maps too.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Literal, assert_never, final

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from dragoman.axes import Float

SMALLEST: Final = 64 * 64
"""Weights of a linear map below which rounding them takes longer than it gains."""
ALIKE: Final = 64
"""Rows of products in bfloat16 are filled up to multiples of it. oneDNN compiles a kernel for every number of rows that
it has not met, which takes longer than the product, and keeps the kernels of a thousand."""
PrecisionName = Literal["auto", "float32", "bfloat16"]


def autocast(name: PrecisionName, device: torch.device) -> AbstractContextManager[object]:
    """On GPUs bfloat16, with `auto` on those that have it; for CPUs there is `linear_maps`."""
    match name:
        case "float32":
            return nullcontext()
        case "bfloat16":
            return nullcontext() if device.type == "cpu" else torch.autocast(device.type, dtype=torch.bfloat16)
        case "auto":
            pays = device.type == "cuda" and torch.cuda.is_bf16_supported()
            return torch.autocast("cuda", dtype=torch.bfloat16) if pays else nullcontext()
        case _:
            assert_never(name)


def large_products(name: PrecisionName, device: torch.device) -> torch.dtype:
    """The format of the products with the vocabulary: a CPU gains from bfloat16 where it has the instructions."""
    match name:
        case "float32":
            return torch.float32
        case "bfloat16":
            return torch.bfloat16
        case "auto":
            native = torch.cuda.is_bf16_supported() if device.type == "cuda" else _cpu_has_bfloat16(device)
            return torch.bfloat16 if native else torch.float32
        case _:
            assert_never(name)


def linear_maps(name: PrecisionName, device: torch.device) -> AbstractContextManager[object]:
    """Around the forward and backward pass: with `bfloat16`, linear maps on a CPU multiply in it."""
    return _LinearMaps() if name == "bfloat16" and device.type == "cpu" else nullcontext()


@final
class _LinearMaps(TorchFunctionMode):
    """Inside, float32 linear maps that are large enough and may be learnt have their products in bfloat16."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.linear and torch.is_grad_enabled():
            x, weight, bias = _given(*args, **(kwargs or {}))
            if x.dtype == weight.dtype == torch.float32 and weight.numel() >= SMALLEST:
                return RoundedLinear.apply(x, weight, bias)  # type: ignore[no-untyped-call]
        return func(*args, **(kwargs or {}))


def _given(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor | None]:  # noqa: A002
    """The arguments of `F.linear`, by their names there."""
    return input, weight, bias


class RoundedLinear(torch.autograd.Function):
    r"""$W x + b$ and its gradients with factors rounded to bfloat16; the bias and its gradient are not."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        rows, small_weight = x.flatten(0, -2), weight.to(torch.bfloat16)
        small = filled_up(rows, torch.bfloat16)
        ctx.save_for_backward(small, small_weight)
        ctx.shape = x.shape
        mapped = F.linear(small, small_weight)[: len(rows)].float().view(*x.shape[:-1], len(weight))
        return mapped if bias is None else mapped.add_(bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        gradient = gradients[0].flatten(0, -2)
        small = filled_up(gradient, torch.bfloat16)
        for_x = (small @ weight)[: len(gradient)].float().view(ctx.shape) if ctx.needs_input_grad[0] else None
        for_weight = (small.t() @ x).float() if ctx.needs_input_grad[1] else None
        return for_x, for_weight, gradient.sum(dim=0) if ctx.needs_input_grad[2] else None


def rounded(rows: Float[Tensor, "*passes rows size"], kind: torch.dtype) -> Float[Tensor, "*passes more size"]:
    """The rows as products of a number format take them: of a smaller one `filled_up`."""
    return rows.to(kind) if kind == torch.float32 else filled_up(rows, kind)


def filled_up(rows: Float[Tensor, "*passes rows size"], kind: torch.dtype) -> Float[Tensor, "*passes more size"]:
    """The rows in another number format, and rows of zeros after them up to a multiple of `ALIKE`."""
    count = rows.shape[-2]
    filled = rows.new_empty((*rows.shape[:-2], -(-count // ALIKE) * ALIKE, rows.shape[-1]), dtype=kind)
    filled[..., :count, :] = rows
    filled[..., count:, :] = 0
    return filled


def _cpu_has_bfloat16(device: torch.device) -> bool:
    return device.type == "cpu" and bool(torch.cpu._is_avx512_bf16_supported())
