"""Fused training operations of the CPU library, used where it is installed.

PyTorch passes over a tensor once per operation, and a model of some million parameters spends more time on such passes
than on its matrix products. Each function here fuses the operations between two products into one pass. PyTorch's
operations are the reference, and they compute on GPUs. The library computes large tensors with the threads of PyTorch's
OpenMP runtime; its results are equal bit for bit with any number of them.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from typing import Any, Final, final

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dragoman import cpu_library
from dragoman.errors import ConfigError

LOGIT_DTYPES: Final = (torch.float32, torch.bfloat16)
"""Formats of the logits that the library reads and writes; all other tensors are float32."""
_ENABLED: Final[ContextVar[bool]] = ContextVar("enabled", default=True)


@contextmanager
def without_cpu_ops() -> Iterator[None]:
    """Disable the fused operations inside the context."""
    token = _ENABLED.set(False)
    try:
        yield
    finally:
        _ENABLED.reset(token)


def cpu_ops_for(x: Tensor) -> Any | None:
    """Return the fused operations if they support this tensor: float32 on a CPU."""
    if torch.compiler.is_compiling():  # first, because torch.compile cannot trace the checks below
        return None
    plain = type(x) is Tensor and x.dtype == torch.float32 and x.device.type == "cpu"
    if not plain or not _ENABLED.get():
        return None
    return _load(cpu_library.MODULE, os.environ.get(cpu_library.INSTRUCTION_SET) or None)


def cpu_ops_instruction_set(device: torch.device) -> str | None:
    """Return the instruction set of the fused operations on this device, or None without them."""
    core = cpu_ops_for(torch.empty(0, device=device))
    return None if core is None else str(core.instruction_set)


@cache
def _load(package: str, instruction_set: str | None) -> Any | None:
    """Load the operations. Raises ConfigError if the environment requires an instruction set that is not available."""
    if cpu_library.unusable_reason() is not None:
        return None
    try:
        return import_module(package).CpuOps(instruction_set)
    except ValueError as error:
        raise ConfigError(f"{cpu_library.INSTRUCTION_SET}: {error}, or leave it out") from error


@final
class CpuDropout(torch.autograd.Function):
    """Dropout by random words: one of `lines` per row, one of `columns` per four elements, mixed by `multiplier`."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, lines: Tensor, columns: Tensor, multiplier: int, threshold: int, scale: float, core: Any
    ) -> Tensor:
        ctx.save_for_backward(lines, columns)
        ctx.settings, ctx.core = (multiplier, threshold, scale), core
        return _dropout(x, lines, columns, ctx.settings, core)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        lines, columns = ctx.saved_tensors
        return _dropout(gradient, lines, columns, ctx.settings, ctx.core), None, None, None, None, None, None


def _dropout(x: Tensor, lines: Tensor, columns: Tensor, settings: tuple[int, int, float], core: Any) -> Tensor:
    y = torch.empty(x.shape)
    core.dropout(x.detach().contiguous(), lines, columns, *settings, y)
    return y


@final
class CpuRotary(torch.autograd.Function):
    """Rotary positions; the gradient rotates back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cosine: Tensor, sine: Tensor, core: Any) -> Tensor:
        ctx.save_for_backward(cosine, sine)
        ctx.core = core
        return _rotate(x, cosine, sine, core)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        cosine, sine = ctx.saved_tensors
        return _rotate(gradient, cosine, -sine, ctx.core), None, None, None


def _rotate(x: Tensor, cosine: Tensor, sine: Tensor, core: Any) -> Tensor:
    given = _heads_last(x)
    y = torch.empty_like(given)
    core.rope(given, cosine, sine, given.shape[2], y)
    return y.transpose(1, 2)


def _heads_last(x: Tensor) -> Tensor:
    """Return heads in the layout of the library, `rows positions heads head_size`, which is that of a projection."""
    return x.detach().transpose(1, 2).contiguous()


@final
class CpuAttention(torch.autograd.Function):
    """Attention by a scaled inner product; the backward pass recomputes the weights."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool, scale: float, core: Any
    ) -> Tensor:
        inputs = _heads_last(query), _heads_last(key), _heads_last(value)
        mask_bytes = None if mask is None else mask.contiguous().view(torch.uint8)
        ctx.save_for_backward(*inputs, mask_bytes)
        ctx.settings, ctx.core = (causal, scale), core
        attended = torch.empty_like(inputs[0])
        core.attention(*inputs, mask_bytes, *ctx.settings, attended)
        return attended.transpose(1, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, mask_bytes = ctx.saved_tensors
        gradients = [torch.empty_like(one) for one in inputs]
        ctx.core.attention_backward(*inputs, mask_bytes, *ctx.settings, _heads_last(gradient), *gradients)
        return *(one.transpose(1, 2) for one in gradients), None, None, None, None
