"""Number formats of the forward and backward pass; weights and optimizer state stay in float32.

PyTorch's autocast also keeps activations in bfloat16, which costs a CPU as much as it gains. On a CPU, only matrix
products use bfloat16: their inputs and outputs are rounded, sums are in float32, and everything else stays in float32.
With `auto` this applies to the output layer, with `bfloat16` to all linear layers. CPUs without bfloat16 instructions
multiply bfloat16 many times slower than float32, so they always use float32.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Literal, final

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from dragoman.array_types import Float
from dragoman.nn.cpu_training_ops import cpu_ops_for

MIN_WEIGHTS: Final = 64 * 64
"""Size of a weight matrix below which rounding takes longer than it saves."""
ROW_MULTIPLE: Final = 64
"""The rows of bfloat16 products are padded to a multiple of this. oneDNN compiles one kernel per number of rows, which
takes longer than the product, and caches a thousand kernels."""
Precision = Literal["auto", "float32", "bfloat16"]


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    """Return PyTorch's autocast to bfloat16 on GPUs; for CPUs see `bfloat16_linear_layers`."""
    if device.type == "cpu" or precision == "float32":
        return nullcontext()
    supported = precision == "bfloat16" or (device.type == "cuda" and torch.cuda.is_bf16_supported())
    return torch.autocast(device.type, dtype=torch.bfloat16) if supported else nullcontext()


def output_matmul_dtype(precision: Precision, device: torch.device) -> torch.dtype:
    """Return the number format of the products of the output layer."""
    native = torch.cuda.is_bf16_supported() if device.type == "cuda" else _cpu_has_bfloat16(device)
    forced = precision == "bfloat16" and device.type != "cpu"
    return torch.bfloat16 if precision != "float32" and (native or forced) else torch.float32


def lacks_bfloat16(device: torch.device) -> bool:
    """Return whether the device is a CPU without bfloat16 instructions."""
    return device.type == "cpu" and not _cpu_has_bfloat16(device)


def bfloat16_linear_layers(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    """Return a context for forward and backward pass, in which linear layers use bfloat16 on a CPU that supports it."""
    return _Bfloat16LinearMode() if precision == "bfloat16" and _cpu_has_bfloat16(device) else nullcontext()


@final
class _Bfloat16LinearMode(TorchFunctionMode):
    """Replace large float32 linear layers by `Bfloat16Linear`, those of teachers too."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.linear:
            x, weight, bias = _linear_arguments(*args, **(kwargs or {}))
            if x.dtype == weight.dtype == torch.float32 and weight.numel() >= MIN_WEIGHTS:
                return Bfloat16Linear.apply(x, weight, bias)  # type: ignore[no-untyped-call]
        return func(*args, **(kwargs or {}))


def _linear_arguments(
    input: Tensor,  # noqa: A002
    weight: Tensor,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Bind the arguments of `F.linear`, positional or by name."""
    return input, weight, bias


class Bfloat16Linear(torch.autograd.Function):
    r"""$W x + b$ and its gradients with factors rounded to bfloat16; the bias and its gradient are not rounded."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        rows, rounded_weight = x.detach().flatten(0, -2), weight.detach().to(torch.bfloat16)
        padded = pad_rows(rows, torch.bfloat16)
        ctx.save_for_backward(padded, rounded_weight)
        ctx.shape = x.shape
        output = unpad_rows(F.linear(padded, rounded_weight), len(rows), None if bias is None else bias.detach())
        return output.view(*x.shape[:-1], len(weight))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        gradient = gradients[0].flatten(0, -2)
        bias_gradient = gradient.new_zeros(gradient.shape[1]) if ctx.needs_input_grad[2] else None
        padded = pad_rows(gradient, torch.bfloat16, bias_gradient)
        x_gradient = unpad_rows(padded @ weight, len(gradient)).view(ctx.shape) if ctx.needs_input_grad[0] else None
        return x_gradient, (padded.t() @ x).float() if ctx.needs_input_grad[1] else None, bias_gradient


def cast_rows(rows: Float[Tensor, "*passes rows size"], dtype: torch.dtype) -> Float[Tensor, "*passes more size"]:
    """Cast rows for a matrix product; formats smaller than float32 are also padded by `pad_rows`."""
    return rows.to(dtype) if dtype == torch.float32 else pad_rows(rows, dtype)


def pad_rows(
    rows: Float[Tensor, "*passes rows size"], dtype: torch.dtype, sums: Float[Tensor, " size"] | None = None
) -> Float[Tensor, "*passes more size"]:
    """Cast rows and append rows of zeros up to a multiple of `ROW_MULTIPLE`.

    Add the sum of the rows, before rounding, to `sums`.
    """
    count = rows.shape[-2]
    padded = rows.new_empty((*rows.shape[:-2], -(-count // ROW_MULTIPLE) * ROW_MULTIPLE, rows.shape[-1]), dtype=dtype)
    cpu_ops = cpu_ops_for(rows) if rows.ndim == 2 and dtype == torch.bfloat16 else None
    if cpu_ops is not None:
        cpu_ops.to_bfloat16(rows.detach().contiguous(), padded, sums)
        return padded
    padded[..., :count, :] = rows
    padded[..., count:, :] = 0
    if sums is not None:
        sums += rows.sum(dim=tuple(range(rows.ndim - 1)))
    return padded


def unpad_rows(
    product: Float[Tensor, "more size"], count: int, bias: Float[Tensor, " size"] | None = None
) -> Float[Tensor, "rows size"]:
    """Return the first rows of a product in float32, plus the bias."""
    output = product.new_empty((count, product.shape[1]), dtype=torch.float32)
    if cpu_ops := cpu_ops_for(output):
        cpu_ops.to_float32(product, bias, output)
        return output
    output.copy_(product[:count])
    return output if bias is None else output.add_(bias)


def _cpu_has_bfloat16(device: torch.device) -> bool:
    return device.type == "cpu" and bool(torch.cpu._is_avx512_bf16_supported())
