"""Number of workers of a training, and the memory that they take."""

import os
from typing import Final

import torch

from dragoman.errors import ConfigError
from dragoman.profiling.measured_memory import peak_bytes
from dragoman.profiling.memory_and_time_estimate import training_flops
from dragoman.training.config import TrainingConfig
from dragoman.training.distributed import WorkerGroup
from dragoman.training.launch import worker_rank

MIN_TOKENS_PER_WORKER: Final = 512
"""Tokens of a batch for each worker; with fewer, communication takes longer than computation."""
MAX_WORKERS_PER_CORE: Final = 4
"""More workers exhaust the memory of a machine."""
MIN_FLOPS_FOR_WORKERS: Final = 1e12
"""Operations of a training that takes longer than the start of workers."""


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
