"""Peak memory bandwidth and peak arithmetic of a machine, measured."""

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

from dragoman.inference.backends.cpu_backend import CpuBackend
from dragoman.models.config import DecoderOnlyConfig, NoPositionsConfig
from dragoman.models.factory import build_decoder_only
from dragoman.models.weight_quantization import ComputeType

BLOCK_BYTES = 2**26
"""Bytes that a thread reads in one pass: more than the caches contain."""
ROUNDS = 7
INPUTS, OUTPUTS, ROWS = 1024, 8192, 1024
"""Size of the matrix products on a CPU: `ROWS` vectors by an `INPUTS` × `OUTPUTS` matrix."""
GPU_SIZE = 8192
"""Rows, inputs and outputs on other devices, which smaller products do not fill."""


def memory_bandwidth(device: torch.device) -> float:
    """Return the memory bandwidth in bytes per second, with one block per thread; the best of several rounds."""
    if device.type != "cpu":
        block = torch.ones(4 * BLOCK_BYTES, device=device)
        return 4 * block.numel() / _min_seconds(lambda: block.sum().item())
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    blocks = [np.ones(BLOCK_BYTES // 4, np.int32) for _ in range(threads)]
    return sum(block.nbytes for block in blocks) / _min_seconds(lambda: _read_in_threads(blocks))


def peak_flops(device: torch.device, dtype: torch.dtype = torch.float32) -> float:
    """Return the operations per second of large matrix products in PyTorch; a multiply-add is two operations."""
    rows, inputs, outputs = (ROWS, INPUTS, OUTPUTS) if device.type == "cpu" else (GPU_SIZE, GPU_SIZE, GPU_SIZE)
    x = torch.ones(rows, inputs, device=device, dtype=dtype)
    matrix = torch.ones(inputs, outputs, device=device, dtype=dtype)
    return 2 * rows * inputs * outputs / _min_seconds(lambda: (x @ matrix)[0, 0].item())


def peak_cpu_backend_ops(compute_type: ComputeType) -> float:
    """Return the operations per second of matrix products in the CPU library, measured on prompts of a wide model.

    Rounding to int8 and attention count as time and not as operations.
    """
    config = DecoderOnlyConfig(
        d_model=INPUTS, num_heads=8, d_ff=OUTPUTS, num_layers=1, bias=False, positions=NoPositionsConfig()
    )
    arrays = {
        name: value.detach().numpy() for name, value in build_decoder_only(config, vocabulary=8).named_parameters()
    }
    settings = config.model_dump(mode="json")
    model = CpuBackend(settings, arrays, compute_type=compute_type, source_vocabulary=8, target_vocabulary=8)
    prompts = [[4] * 17 for _ in range(ROWS // 16)]  # the last token of each prompt is left for the first step
    operations = 2 * ROWS * sum(array.size for name, array in arrays.items() if name.startswith("blocks"))
    return operations / _min_seconds(lambda: model.encode(prompts))


def _read_in_threads(blocks: list[np.ndarray]) -> None:
    """Read each block in a thread; the maximum takes little arithmetic per number."""
    with ThreadPoolExecutor(len(blocks)) as pool:
        list(pool.map(np.maximum.reduce, blocks))


def _min_seconds(work: Callable[[], object]) -> float:
    work()
    seconds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return min(seconds)
