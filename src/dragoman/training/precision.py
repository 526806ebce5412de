"""The number format of the forward and backward pass; weights and optimiser stay in float32.

PyTorch's autocast keeps activations in bfloat16 too, which costs a CPU as much as it gains. Here a CPU takes bfloat16
into products of matrices alone: what goes in and comes out is rounded, sums are in float32, and everything between
products stays in float32. With `auto` these are the products with the vocabulary, with `bfloat16` those of linear maps
too. A CPU without the instructions multiplies bfloat16 many times slower than float32, so that there float32 it is,
whatever is asked for.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Literal, assert_never, final

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from dragoman.nn.cpu_ops import core_for
from dragoman.typing import Float

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
    """The format of the products with the vocabulary."""
    match name:
        case "float32":
            return torch.float32
        case "bfloat16":
            return torch.float32 if lacks_bfloat16(device) else torch.bfloat16
        case "auto":
            native = torch.cuda.is_bf16_supported() if device.type == "cuda" else _cpu_has_bfloat16(device)
            return torch.bfloat16 if native else torch.float32
        case _:
            assert_never(name)


def lacks_bfloat16(device: torch.device) -> bool:
    """Whether this is a CPU that has no instructions for bfloat16."""
    return device.type == "cpu" and not _cpu_has_bfloat16(device)


def linear_maps(name: PrecisionName, device: torch.device) -> AbstractContextManager[object]:
    """Around the forward and backward pass: with `bfloat16`, linear maps multiply in it on a CPU that can."""
    return _LinearMaps() if name == "bfloat16" and _cpu_has_bfloat16(device) else nullcontext()


@final
class _LinearMaps(TorchFunctionMode):
    """Inside, float32 linear maps that are large enough have their products in bfloat16, those of teachers too."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.linear:
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
        rows, small_weight = x.detach().flatten(0, -2), weight.detach().to(torch.bfloat16)
        small = filled_up(rows, torch.bfloat16)
        ctx.save_for_backward(small, small_weight)
        ctx.shape = x.shape
        mapped = widened(F.linear(small, small_weight), len(rows), None if bias is None else bias.detach())
        return mapped.view(*x.shape[:-1], len(weight))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        gradient = gradients[0].flatten(0, -2)
        sums = gradient.new_zeros(gradient.shape[1]) if ctx.needs_input_grad[2] else None
        small = filled_up(gradient, torch.bfloat16, sums)
        for_x = widened(small @ weight, len(gradient)).view(ctx.shape) if ctx.needs_input_grad[0] else None
        return for_x, (small.t() @ x).float() if ctx.needs_input_grad[1] else None, sums


def rounded(rows: Float[Tensor, "*passes rows size"], kind: torch.dtype) -> Float[Tensor, "*passes more size"]:
    """The rows as products of a number format take them: of a smaller one `filled_up`."""
    return rows.to(kind) if kind == torch.float32 else filled_up(rows, kind)


def filled_up(
    rows: Float[Tensor, "*passes rows size"], kind: torch.dtype, sums: Float[Tensor, " size"] | None = None
) -> Float[Tensor, "*passes more size"]:
    """The rows in another number format, and rows of zeros after them up to a multiple of `ALIKE`.

    What is given as `sums` has the sums of the rows, as they were, added to it.
    """
    count = rows.shape[-2]
    filled = rows.new_empty((*rows.shape[:-2], -(-count // ALIKE) * ALIKE, rows.shape[-1]), dtype=kind)
    core = core_for(rows) if rows.ndim == 2 and kind == torch.bfloat16 else None
    if core is not None:
        core.narrow(rows.detach().contiguous(), filled, sums)
        return filled
    filled[..., :count, :] = rows
    filled[..., count:, :] = 0
    if sums is not None:
        sums += rows.sum(dim=tuple(range(rows.ndim - 1)))
    return filled


def widened(
    product: Float[Tensor, "more size"], count: int, bias: Float[Tensor, " size"] | None = None
) -> Float[Tensor, "rows size"]:
    """The first rows of a product in float32, plus the bias."""
    mapped = product.new_empty((count, product.shape[1]), dtype=torch.float32)
    if core := core_for(mapped):
        core.widen(product, bias, mapped)
        return mapped
    mapped.copy_(product[:count])
    return mapped if bias is None else mapped.add_(bias)


def _cpu_has_bfloat16(device: torch.device) -> bool:
    return device.type == "cpu" and bool(torch.cpu._is_avx512_bf16_supported())
