r"""What training computes between products, by the compiled core where it is installed.

PyTorch goes over a tensor once for every operation, and a network of some million parameters spends more time so than
in its products. Here one pass does what belongs together: a mask is drawn, compared and multiplied in registers; a row
is rounded where its sum is taken. PyTorch's own operations stay the reference, and the road everywhere else: on GPUs,
and where a worker has several threads, which the core's passes over single tensors do not share.
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

from dragoman import cpu_library as installed
from dragoman.errors import ConfigError

LOGIT_DTYPES: Final = (torch.float32, torch.bfloat16)
"""Formats of the logits that the core reads and writes; all else is float32."""
_WANTED: Final[ContextVar[bool]] = ContextVar("wanted", default=True)


@contextmanager
def without_cpu_ops() -> Iterator[None]:
    """Inside, nothing is computed by the core: the slow twin."""
    token = _WANTED.set(False)
    try:
        yield
    finally:
        _WANTED.reset(token)


def cpu_ops_for(x: Tensor) -> Any | None:
    """The core's functions, if they compute with this tensor here: plain float32 on a CPU, and one thread a worker."""
    if torch.compiler.is_compiling():  # before all else, which a compiler of networks cannot follow
        return None
    plain = type(x) is Tensor and x.dtype == torch.float32 and x.device.type == "cpu"
    if not plain or not _WANTED.get() or torch.get_num_threads() > 1:
        return None
    return _core(installed.CORE, os.environ.get(installed.INSTRUCTION_SET) or None)


def cpu_ops_instruction_set(device: torch.device) -> str | None:
    """Those that the core computes with on this device; None where PyTorch is alone."""
    core = cpu_ops_for(torch.empty(0, device=device))
    return None if core is None else str(core.instruction_set)


@cache
def _core(package: str, instructions: str | None) -> Any | None:
    """Raises ConfigError where the environment asks for instructions in vain."""
    if installed.fault() is not None:
        return None
    try:
        return import_module(package).CpuOps(instructions)
    except ValueError as error:
        raise ConfigError(f"{installed.INSTRUCTION_SET}: {error}, or leave it out") from error


@final
class CpuDropout(torch.autograd.Function):
    """Dropout by words: of `lines` for the rows and `columns` for every four elements of one, times `finisher`."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, lines: Tensor, columns: Tensor, finisher: int, least: int, factor: float, core: Any
    ) -> Tensor:
        ctx.save_for_backward(lines, columns)
        ctx.settings, ctx.core = (finisher, least, factor), core
        return _dropped(x, lines, columns, ctx.settings, core)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        lines, columns = ctx.saved_tensors
        return _dropped(gradient, lines, columns, ctx.settings, ctx.core), None, None, None, None, None, None


def _dropped(x: Tensor, lines: Tensor, columns: Tensor, settings: tuple[int, int, float], core: Any) -> Tensor:
    y = torch.empty(x.shape)
    core.dropout(x.detach().contiguous(), lines, columns, *settings, y)
    return y


@final
class CpuRotary(torch.autograd.Function):
    """Heads turned by their places; the gradient turns back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cosine: Tensor, sine: Tensor, core: Any) -> Tensor:
        ctx.save_for_backward(cosine, sine)
        ctx.core = core
        return _turned(x, cosine, sine, core)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        cosine, sine = ctx.saved_tensors
        return _turned(gradient, cosine, -sine, ctx.core), None, None, None


def _turned(x: Tensor, cosine: Tensor, sine: Tensor, core: Any) -> Tensor:
    given = _by_places(x)
    y = torch.empty_like(given)
    core.rope(given, cosine, sine, given.shape[2], y)
    return y.transpose(1, 2)


def _by_places(x: Tensor) -> Tensor:
    """Heads as a projection leaves them, `rows places heads head_size`, which is how the core reads them."""
    return x.detach().transpose(1, 2).contiguous()


@final
class CpuAttention(torch.autograd.Function):
    """Attention by a scaled inner product, whose backward pass computes the weights again."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        causal: bool,
        scale: float,
        core: Any,
    ) -> Tensor:
        given = _by_places(query), _by_places(key), _by_places(value)
        seen = None if mask is None else mask.contiguous().view(torch.uint8)
        ctx.save_for_backward(*given, seen)
        ctx.settings, ctx.core = (causal, scale), core
        attended = torch.empty_like(given[0])
        core.attention(*given, seen, *ctx.settings, attended)
        return attended.transpose(1, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        *given, seen = ctx.saved_tensors
        found = [torch.empty_like(one) for one in given]
        ctx.core.attention_backward(*given, seen, *ctx.settings, _by_places(gradient), *found)
        return *(one.transpose(1, 2) for one in found), None, None, None, None
