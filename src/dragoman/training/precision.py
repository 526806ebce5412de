"""The number format of the forward and backward pass; weights and optimiser stay in float32."""

from contextlib import AbstractContextManager, nullcontext
from typing import Literal, assert_never

import torch

PrecisionName = Literal["auto", "float32", "bfloat16"]


def autocast(name: PrecisionName, device: torch.device) -> AbstractContextManager[object]:
    """`auto` takes bfloat16 on GPUs that have it. On a CPU the layers of small models are not faster in it."""
    match name:
        case "float32":
            return nullcontext()
        case "bfloat16":
            return torch.autocast(device.type, dtype=torch.bfloat16)
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


def _cpu_has_bfloat16(device: torch.device) -> bool:
    return device.type == "cpu" and bool(torch.cpu._is_avx512_bf16_supported())
