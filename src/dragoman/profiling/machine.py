"""What a machine does at most: how fast it reads memory, and how fast it multiplies."""

import os
import threading
import time
from collections.abc import Callable

import numpy as np
import torch

from dragoman.inference.backends.cpu_decoder_only import CpuDecoderOnlyBackend
from dragoman.models.config import DecoderOnlyConfig, NoPositionsConfig
from dragoman.models.factory import build_decoder_only
from dragoman.models.quantization import ComputeType

BLOCK = 2**26
"""Bytes that a thread reads in a row: more than caches hold."""
ROUNDS = 7
SIZE, FEED_FORWARD, ROWS = 1024, 8192, 1024
"""Of large products on a CPU: rows of so many numbers by a matrix of so many outputs, and back."""
LARGE = 8192
"""Rows, numbers and outputs of those on other devices, which smaller ones do not fill."""


def bytes_per_second(device: torch.device) -> float:
    """The bandwidth of memory: the best of several readings of blocks, by every thread its own."""
    if device.type != "cpu":
        block = torch.ones(4 * BLOCK, device=device)
        return 4 * block.numel() / _least_seconds(lambda: block.sum().item())
    blocks = [np.ones(BLOCK // 4, np.int32) for _ in range(_threads())]
    return sum(block.nbytes for block in blocks) / _least_seconds(lambda: _side_by_side(blocks))


def operations_per_second(device: torch.device, kind: torch.dtype = torch.float32) -> float:
    """The peak of PyTorch's products in a number format; a multiplication and an addition are two operations."""
    count, size, outputs = (ROWS, SIZE, FEED_FORWARD) if device.type == "cpu" else (LARGE, LARGE, LARGE)
    rows = torch.ones(count, size, device=device, dtype=kind)
    matrix = torch.ones(size, outputs, device=device, dtype=kind)
    return 2 * count * size * outputs / _least_seconds(lambda: (rows @ matrix)[0, 0].item())


def operations_per_second_of_the_core(compute: ComputeType) -> float:
    """The peak of the compiled core's products: it reads prompts in a network that is little else.

    What it does beside them (rounding rows to int8, attention to some places) counts as time and not as work.
    """
    config = DecoderOnlyConfig(
        d_model=SIZE, num_heads=8, d_ff=FEED_FORWARD, num_layers=1, bias=False, positions=NoPositionsConfig()
    )
    network = build_decoder_only(config, vocabulary=8)
    arrays = {name: one.detach().numpy() for name, one in network.named_parameters()}
    core = CpuDecoderOnlyBackend(config.model_dump(mode="json"), arrays, compute_type=compute, vocabulary=8).model
    prompts = [[4] * 17 for _ in range(ROWS // 16)]  # the last token of each is left for the first step
    operations = 2 * ROWS * sum(array.size for name, array in arrays.items() if name.startswith("blocks"))
    return operations / _least_seconds(lambda: core.encode(prompts))


def _side_by_side(blocks: list[np.ndarray]) -> None:
    """Every block read by a thread, for the largest of its numbers: little to do for each."""
    threads = [threading.Thread(target=np.maximum.reduce, args=(block,)) for block in blocks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _threads() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _least_seconds(work: Callable[[], object]) -> float:
    work()
    seconds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return min(seconds)
