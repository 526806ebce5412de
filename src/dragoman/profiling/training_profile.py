"""Profile of a training: what it measures, and the process that measures it, whose peak memory is its own."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, final

from pydantic import TypeAdapter

from dragoman.errors import RunError
from dragoman.profiling.time_and_memory_per_batch import BatchCost

USER_ERROR: Final = 2
REQUEST_FILE, PROFILE_FILE = "request.json", "profile.json"
WORKER_VARIABLES: Final = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@final
@dataclass(frozen=True)
class ProfileRequest:
    """Options of a profile."""

    device: str
    started: float
    """Time at which the process was started (`time.time()`)."""
    seconds: float
    """Time to spend on training steps with whole batches."""
    memory_limit: int | None = None
    """Bytes; batches that seem to need more are not tried."""
    validate: bool = True
    """Whether to measure validation and scoring too."""


@final
@dataclass(frozen=True)
class MemoryLevel:
    """Peak memory of the main worker, or its GPU, after training on a fraction of each batch."""

    positions: float
    """Positions of the largest such part of a batch."""
    fraction: float
    bytes: int


@final
@dataclass(frozen=True)
class TensorBytes:
    """Bytes of the tensors that a worker keeps between steps."""

    weights: int
    gradients: int
    optimizer: int
    ema: int

    @property
    def total(self) -> int:
        return self.weights + self.gradients + self.optimizer + self.ema


@final
@dataclass(frozen=True)
class Profile:
    """Measurements of the start of a training; times in seconds, memory in bytes."""

    num_workers: int
    parameters: int
    tensors: TensorBytes
    """Per worker."""
    program_bytes: int
    """Memory of the main worker before it reads data."""
    data_bytes: int
    """Memory that reading the data adds."""
    memory_levels: list[MemoryLevel]
    memory_growth: float
    """Bytes by which the peak grows while the steps become e times as many, because the allocator fragments."""
    peak_bytes: int
    """Peak memory of the main worker, or of its GPU."""
    worker_peaks: list[int]
    """Peak memory of each other worker."""
    step_cost: BatchCost
    """Mean over the steps."""
    timed_steps: list[tuple[list[float], float]]
    """Features and seconds of each step."""
    whole_steps: int
    """Profiled steps with whole batches."""
    steps: int
    """Steps of the whole training."""
    steps_per_epoch: float
    """Less than one if a step takes several epochs."""
    step_flops: float
    """Operations of linear maps in an average step, forward and backward, without padding."""
    peak_flops: float
    """Operations per second of large matrix products."""
    seconds: Mapping[str, float]
    """Seconds of everything but the steps, by name."""
    score_seconds: Mapping[str, float]
    """Seconds of scoring each set after training."""
    data_summary: str
    data_notes: tuple[str, ...]


def run_profiler(folder: Path, request: ProfileRequest, *, program: str, report: Callable[[str], None]) -> Profile:
    """Profile the training configured in a temporary run folder with a Python program that calls `write_profile`.

    `report` receives status messages. Raises RunError with the message of the process if it fails.
    """
    (folder / REQUEST_FILE).write_text(json.dumps(asdict(request)), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name not in WORKER_VARIABLES}
    command = [sys.executable, "-c", f"import sys\nsys.path[:] = {sys.path!r}\n{program}", str(folder)]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errors:
        process = subprocess.Popen(  # noqa: S603
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        try:
            assert process.stdout is not None, "it is a pipe"
            for line in process.stdout:
                report(line.rstrip("\n"))
            code = process.wait()
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
        errors.seek(0)
        _check_exit_code(code, errors.read().strip())
    return _read_profile(folder / PROFILE_FILE)


def _check_exit_code(code: int, message: str) -> None:
    if code == USER_ERROR:
        raise RunError(message)
    if code < 0:
        raise RunError(
            f"The profiling process was killed by signal {-code}, which happens when memory is too small. Lower "
            "training.batch_tokens, or choose a smaller model."
        )
    if code:
        raise RuntimeError(f"the profiling process failed with exit code {code}: {message}")


def _read_profile(file: Path) -> Profile:
    ended = time.time() - file.stat().st_mtime
    profile = TypeAdapter(Profile).validate_json(file.read_bytes())
    return replace(profile, seconds={**profile.seconds, "end": max(0.0, ended)})
