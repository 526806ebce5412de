"""Benchmark of decoding: latency and throughput of a run, and its roofline (Williams et al., 2009)."""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from dragoman.array_types import Int
from dragoman.config import parse
from dragoman.decoding import DecodingConfig, OutputStart, build_search
from dragoman.errors import ConfigError, DataError, RunError
from dragoman.inference import Generator, Translator
from dragoman.inference.backends.cpu_backend import CpuBackend
from dragoman.inference.backends.protocol import InferenceBackend
from dragoman.models.special_symbols import BOS
from dragoman.models.weight_quantization import ComputeType
from dragoman.profiling.memory_and_time_estimate import FLOAT32_BYTES, model_cost
from dragoman.profiling.peak_performance import memory_bandwidth, peak_cpu_backend_ops, peak_flops
from dragoman.tasks.factory import build_task
from dragoman.tasks.task import RunFiles

BYTES_PER_NUMBER: dict[ComputeType, float] = {"float32": 4, "bfloat16": 2, "int8": 1, "int8_int16": 1.125}
FIRST_WORD_ID = 4
_LAUNCHER = """
import os, subprocess, sys, time
began = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
if hasattr(os, "wait4"):
    _, status, usage = os.wait4(process.pid, 0)
    code, peak = os.waitstatus_to_exitcode(status), usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
else:
    code, peak = process.wait(), 0
print(time.perf_counter() - began, peak)
sys.exit(code)
"""
"""Program that starts a command and prints its seconds and peak memory. A process starts with the peak memory of its
parent, and this parent is small."""
_Ids = list[int]
Model = Translator | Generator


@dataclass(frozen=True)
class BenchConfig:
    """Batches to measure: every batch size with every beam size."""

    batch_sizes: tuple[int, ...] = (1, 8, 64)
    beam_sizes: tuple[int, ...] = (1, 4)
    tokens: int = 32
    """Tokens of each output: exactly, for random sources; at most, for given texts."""
    source_tokens: int = 24
    """Tokens of each random source."""
    rounds: int = 3
    texts: tuple[str, ...] | None = None


class DecodingStep(NamedTuple):
    """Time of one step of decoding."""

    sentences: int
    seconds: float


@dataclass(frozen=True)
class DecodingTimes:
    """Seconds of encoding a batch and of each step."""

    encoding: float
    steps: tuple[DecodingStep, ...]

    @property
    def seconds(self) -> float:
        return self.encoding + self.step_seconds

    @property
    def step_seconds(self) -> float:
        return sum(step.seconds for step in self.steps)

    @property
    def tokens(self) -> int:
        """Return the tokens of all outputs, end symbols included, without those of discarded hypotheses."""
        return sum(step.sentences for step in self.steps)


@dataclass(frozen=True)
class StepCost:
    """Memory traffic and operations of a step."""

    weight_bytes: int
    """Read once per step, for any number of hypotheses."""
    bytes_per_position: int
    """Keys and values of an attended position."""
    operations: int
    """Per hypothesis, without attention."""


def bench(
    folder: RunFiles, config: BenchConfig, *, load: Callable[..., Any], device: str | None, compute_type: Any
) -> dict[str, Any]:
    """Measure the decoding speed of a run; return the results for JSON.

    `load` is `dragoman.load`. Raises ConfigError, DataError or RunError if the run or the texts cannot be measured.
    """
    began = time.perf_counter()
    loaded = load(folder.path, device=device, compute_type=compute_type)
    load_seconds = time.perf_counter() - began
    model = _check_model(loaded, folder)
    sources = {batch_size: _sources(model, config, batch_size) for batch_size in config.batch_sizes}
    cpu_model = model.model if isinstance(model.model, CpuBackend) else None
    precision: ComputeType = "float32" if cpu_model is None else cpu_model.compute_type
    used, threads = torch.device(model.device), f", threads: {torch.get_num_threads()}"
    backend = f"PyTorch on {model.device}{threads if used.type == 'cpu' else ''}"
    if cpu_model is not None:
        backend = f"CPU library, {cpu_model.instruction_set}, threads: {cpu_model.threads}"
    cost = _step_cost(folder, precision, on_cpu_backend=cpu_model is not None)
    operations = peak_flops(used) if cpu_model is None else peak_cpu_backend_ops(precision)
    machine = {"bytes_per_second": memory_bandwidth(used), "operations_per_second": operations}
    results = [
        _measure(model, config, batch, beam_size, cost, machine)
        for beam_size in config.beam_sizes
        for batch in sources.values()
    ]
    seconds, peak_bytes = measure_command(folder.path, model, device=device, compute_type=compute_type)
    return {
        "run": str(folder.path),
        "backend": backend,
        "compute_type": precision,
        "load_seconds": load_seconds,
        "process": {"seconds": seconds, "peak_bytes": peak_bytes},
        "machine": machine,
        "step_cost": asdict(cost),
        "input": "given texts" if config.texts is not None else f"random sources of {config.source_tokens} tokens",
        "tokens": config.tokens,
        "rounds": config.rounds,
        "results": results,
    }


def measure_command(run: Path, model: Model, *, device: str | None, compute_type: str) -> tuple[float, int | None]:
    """Return the seconds and the peak memory of the command that generates one token.

    The memory is None on systems that do not report it for a single process.
    """
    options = ["--compute-type", compute_type, *(["--device", device] if device is not None else [])]
    translate = ["translate", "--min-length", "0", "--max-length", "1"]
    verb = translate if isinstance(model, Translator) else ["generate", "--max-new-tokens", "1"]
    with tempfile.TemporaryDirectory() as name:
        source = Path(name, "source.txt")
        source.write_text("a\n", encoding="utf-8")
        command = [sys.executable, "-m", "dragoman", *verb, str(run), "--input", str(source), *options]
        answer = subprocess.run(  # noqa: S603
            [sys.executable, "-c", _LAUNCHER, *command], capture_output=True, text=True, check=False
        )
    if answer.returncode != 0:
        raise RunError(f"{run}: the measured command failed with {answer.returncode}: {answer.stderr.strip()}")
    seconds, peak = answer.stdout.split()
    return float(seconds), int(peak) or None


def _check_model(loaded: object, folder: RunFiles) -> Model:
    if not isinstance(loaded, Translator | Generator):
        noun = build_task(folder.read_config()).description.noun
        raise RunError(f"{folder.path}: has a {noun}. Give the run of a translation or language model.")
    if isinstance(loaded, Translator) and loaded.backend.needs_source_features:
        raise RunError(f"{folder.path}: has tree positions, which the benchmark does not support. Give another run.")
    return loaded


def _step_cost(folder: RunFiles, compute_type: ComputeType, *, on_cpu_backend: bool) -> StepCost:
    """Compute the cost of a step; the CPU library caches keys and values in 16 bits for int8 and bfloat16."""
    cost = model_cost(build_task(folder.read_config()).build_model(folder, device=torch.device("cpu")))
    operations = cost.flops["decode"]
    cache_number_bytes = 2 if on_cpu_backend and compute_type in ("int8", "bfloat16") else FLOAT32_BYTES
    return StepCost(
        weight_bytes=round(operations // 2 * BYTES_PER_NUMBER[compute_type]),
        bytes_per_position=cost.cache_bytes * cache_number_bytes // FLOAT32_BYTES,
        operations=operations,
    )


def _time_rounds(model: Model, config: BenchConfig, sources: Sequence[_Ids], beam_size: int) -> DecodingTimes:
    """Return the times of the round with the median time."""
    min_length = config.tokens if config.texts is None else 0
    options = {"beam_size": beam_size, "min_length": min_length, "max_length": config.tokens}
    decoding, limits = parse(DecodingConfig, options, where="bench"), np.full(len(sources), config.tokens)
    starts = [OutputStart(BOS if isinstance(model, Translator) else row[-1]) for row in sources]

    def decode() -> DecodingTimes:
        return time_decoding(model.backend, sources, limits=limits, config=decoding, starts=starts)

    with model.backend.inference_mode():
        decode()
        rounds = sorted((decode() for _ in range(config.rounds)), key=lambda times: times.seconds)
    return rounds[config.rounds // 2]


def _measure(
    model: Model,
    config: BenchConfig,
    sources: Sequence[_Ids],
    beam_size: int,
    cost: StepCost,
    machine: Mapping[str, float],
) -> dict[str, Any]:
    """Return the results of one batch size and beam size; `token_ms` is the median of the steps after the first."""
    times, positions = _time_rounds(model, config, sources, beam_size), statistics.mean(map(len, sources))
    later = [step.seconds for step in times.steps[1:]] or [times.steps[0].seconds]
    return {
        "batch_size": len(sources),
        "beam_size": beam_size,
        "first_token_ms": 1e3 * (times.encoding + times.steps[0].seconds),
        "token_ms": 1e3 * statistics.median(later),
        "sentences_per_second": len(sources) / times.seconds,
        "tokens_per_second": times.tokens / times.seconds,
        **roofline(times, cost, **machine, beam_size=beam_size, source_positions=positions),
    }


def time_decoding(
    backend: InferenceBackend[Any, Any],
    sources: Sequence[_Ids],
    *,
    limits: Int[np.ndarray, " batch"],
    config: DecodingConfig,
    starts: Sequence[OutputStart],
) -> DecodingTimes:
    """Time the search for a batch."""
    began = time.perf_counter()
    memory = backend.encode(sources)
    search = build_search(backend, config=config)
    search.add(memory, limits=limits, starts=starts)
    times, sizes = [began, time.perf_counter()], []
    while sentences := len(search):
        search.step()
        times.append(time.perf_counter())
        sizes.append(sentences)
    encoding, *seconds = (end - start for start, end in pairwise(times))
    return DecodingTimes(encoding, tuple(map(DecodingStep, sizes, seconds)))


def roofline(
    times: DecodingTimes,
    cost: StepCost,
    *,
    bytes_per_second: float,
    operations_per_second: float,
    beam_size: int,
    source_positions: float,
) -> dict[str, Any]:
    """Compute the roofline of the steps for sentences with `source_positions` source positions on average.

    Keys and values of the source are read once for all hypotheses of a sentence, those of outputs once for each.
    `roofline_fraction` is the fraction of the speed that the scarcer resource, `bound`, allows. A model that is read
    faster than memory delivers stays in the caches of the processor, and memory is not its bound.
    """
    moved = sum(
        cost.weight_bytes + cost.bytes_per_position * step.sentences * (beam_size * number + source_positions)
        for number, step in enumerate(times.steps, start=1)
    )
    computed, seconds = cost.operations * beam_size * times.tokens, times.step_seconds
    bandwidth, compute = moved / seconds / bytes_per_second, computed / seconds / operations_per_second
    return {
        "megabytes_per_token": moved / times.tokens / 1e6,
        "megaoperations_per_token": computed / times.tokens / 1e6,
        "bandwidth_fraction": bandwidth,
        "compute_fraction": compute,
        "roofline_fraction": max(bandwidth, compute),
        "bound": "cache" if bandwidth > 1 else "memory" if bandwidth >= compute else "compute",
    }


def _sources(model: Model, config: BenchConfig, batch_size: int) -> list[_Ids]:
    """Return the sources of a batch: random tokens, or texts evenly spaced among the given ones."""
    tokenizer, texts = model.tokenizer.source, config.texts
    if texts is None:
        words, size = np.random.default_rng(1), (batch_size, config.source_tokens)
        first_id = min(FIRST_WORD_ID, len(tokenizer) - 1)
        rows: list[_Ids] = words.integers(first_id, len(tokenizer), size=size).tolist()
    elif len(texts) < batch_size:
        raise DataError(
            f"{len(texts)} texts are too few for a batch of {batch_size}. Give more, or lower the batch size."
        )
    else:
        rows = tokenizer.encode_batch([texts[row * len(texts) // batch_size] for row in range(batch_size)])
        if isinstance(model, Generator):
            rows = [[*ids, BOS] if model.pairs else [BOS, *ids] for ids in rows]
    _check_length(model, max(map(len, rows)), config.tokens)
    return rows


def _check_length(model: Model, source: int, tokens: int) -> None:
    """Raise ConfigError if sources and outputs of this length are too long for the model."""
    if isinstance(model, Translator):
        longest = model.backend.max_length
        if longest is not None and max(source, tokens) + 1 > longest:
            raise ConfigError(
                f"{max(source, tokens)} tokens exceed the {longest - 1} positions of the model. Lower them."
            )
    elif source + tokens > model.context:
        raise ConfigError(
            f"{source} prompt tokens and {tokens} output tokens exceed the context of {model.context}. Lower them."
        )
