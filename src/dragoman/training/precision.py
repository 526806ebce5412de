"""The number format of the forward and backward pass; weights and optimiser stay in float32."""

from contextlib import AbstractContextManager, nullcontext
from typing import Literal, assert_never

import torch

PrecisionName = Literal["auto", "float32", "bfloat16"]


def autocast(name: PrecisionName, device: torch.device) -> AbstractContextManager[object]:
    """`auto` takes bfloat16 where it pays: on GPUs that have it. On a CPU small models are not faster in it."""
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
