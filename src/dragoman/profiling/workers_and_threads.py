"""Number of workers of a training and of their threads, and the memory that they take."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, final

import torch

from dragoman import cpu_library
from dragoman.errors import ConfigError
from dragoman.nn.cpu_training_ops import cpu_ops_instruction_set
from dragoman.number_words import counted
from dragoman.profiling.measured_memory import peak_bytes
from dragoman.profiling.memory_and_time_estimate import training_flops
from dragoman.training.config import TrainingConfig
from dragoman.training.distributed import WorkerGroup
from dragoman.training.launch import worker_rank

MIN_TOKENS_PER_WORKER: Final = 512
"""Tokens of a batch for each worker; with fewer, communication takes longer than computation."""
MIN_TOKENS_PER_THREAD: Final = 512
"""Tokens of a batch for each thread; with fewer, threads wait for each other longer than they compute."""
MIN_THREADS: Final = 3
"""Threads with which a worker is used instead of one thread if the CPU library is usable. Two threads are slower than
one next to other programs, because each operation waits for the slower thread: benchmarks/training_threads."""
NO_OPS: Final = "without the fused operations of the CPU library"
MAX_WORKERS_PER_CORE: Final = 4
"""More workers exhaust the memory of a machine."""
MIN_FLOPS_FOR_WORKERS: Final = 1e12
"""Operations of a training that takes longer than the start of workers."""


@final
@dataclass(frozen=True)
class Arrangement:
    """Workers of a training and threads of each; those of torchrun have the threads of the environment."""

    num_workers: int
    num_threads: int

    @property
    def total_threads(self) -> int:
        return self.num_workers * self.num_threads


def choose_arrangement(
    config: TrainingConfig, model: torch.nn.Module, *, tokens: int, device: torch.device
) -> Arrangement:
    """Choose workers by `choose_num_workers`, and the threads of each.

    The choice depends on the configuration and on the cores alone, not on a measurement, so that the same training
    gives the same weights. Measurements: benchmarks/training_threads.
    """
    num_workers = choose_num_workers(config, model, tokens=tokens, device=device)
    threads = max(1, torch.get_num_threads() // num_workers)
    if device.type == "cpu" and worker_rank() is None:
        threads = max(1, min(threads, config.token_budget // num_workers // MIN_TOKENS_PER_THREAD))
        if threads < MIN_THREADS and cpu_library.unusable_reason() is None:
            threads = 1
    return Arrangement(num_workers, threads)


def recorded_arrangement(environment: Mapping[str, Any], *, device: torch.device) -> Arrangement | None:
    """Return the workers and threads that a run started with, so that it continues with the same results.

    Returns None if they are unknown, if the run started on another device, or if this machine has too few cores or
    GPUs; and for workers of torchrun, which are started already.
    """
    num_workers, num_threads = environment.get("num_workers"), environment.get("threads")
    if worker_rank() is not None or environment.get("device") != str(device):
        return None
    if not isinstance(num_workers, int) or not isinstance(num_threads, int) or min(num_workers, num_threads) < 1:
        return None
    if device.type == "cuda":
        return Arrangement(num_workers, num_threads) if num_workers <= torch.cuda.device_count() else None
    recorded = Arrangement(num_workers, num_threads)
    return recorded if recorded.total_threads <= torch.get_num_threads() else None


def describe_arrangement(workers: WorkerGroup, device: torch.device) -> str | None:
    """Return a phrase about the workers that train, called by one of them; None for a single GPU."""
    count = counted(workers.world_size, "workers")
    if device.type != "cpu":
        return f"{count}, each of which trains on its part of every batch" if workers.world_size > 1 else None
    threads, instruction_set = torch.get_num_threads(), cpu_ops_instruction_set(device)
    each = " each" if workers.world_size > 1 else ""
    library = f"with the fused operations of the CPU library ({instruction_set})" if instruction_set else NO_OPS
    return f"{count} with {counted(threads, 'threads')}{each}, {library}"


def choose_num_workers(config: TrainingConfig, model: torch.nn.Module, *, tokens: int, device: torch.device) -> int:
    """Return the number of workers to start: that of the configuration, or the number that this machine can use.

    The automatic choice is one worker per GPU, and on a CPU one per core if the batches are large enough and the
    training, with `tokens` per epoch, takes long enough. Raises ConfigError if the machine has too few cores or GPUs.
    """
    if config.sharding == "full":
        if config.num_workers not in ("auto", 1) and worker_rank() is None:
            raise ConfigError(
                f"training.num_workers = {config.num_workers} with training.sharding = full: torchrun starts the "
                "workers that hold shards. Leave training.num_workers out, and start the command with torchrun."
            )
        return 1
    if config.num_workers != "auto":
        if worker_rank() is None:
            _check_num_workers(config.num_workers, device)
        return config.num_workers
    if device.type == "cuda":
        return torch.cuda.device_count() if device.index is None else 1
    if device.type != "cpu" or config.total_tokens(tokens) * training_flops(model) < MIN_FLOPS_FOR_WORKERS:
        return 1
    return max(1, min(torch.get_num_threads(), config.token_budget // MIN_TOKENS_PER_WORKER))


def _check_num_workers(num_workers: int, device: torch.device) -> None:
    if device.type == "cuda":
        limit, resources = torch.cuda.device_count(), f"{torch.cuda.device_count()} GPUs"
    else:
        cores = os.cpu_count() or 1
        limit, resources = MAX_WORKERS_PER_CORE * cores, f"{cores} cores"
    if num_workers > limit:
        raise ConfigError(
            f"training.num_workers = {num_workers:,}: this machine has {resources} and supports at most {limit} "
            "workers. Lower it, or leave it out."
        )


def record_peak_memory(workers: WorkerGroup, device: torch.device) -> None:
    """Store the peak memory of this worker for the main worker."""
    if workers.store is not None:
        workers.store.set(f"peak/{workers.rank}", str(peak_bytes(device)))


def peak_memory_of_workers(workers: WorkerGroup) -> list[int]:
    """Wait for the other workers to end, and return the peak memory of each in bytes."""
    if workers.store is None:
        return []
    return [int(workers.store.get(f"peak/{rank}")) for rank in range(1, workers.world_size)]
