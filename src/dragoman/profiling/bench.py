"""How fast a run writes on this machine, and what that is of what the machine does at most."""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from dragoman.config import parse
from dragoman.decoding import DecodingConfig
from dragoman.errors import ConfigError, DataError, RunError
from dragoman.inference import Generator, Translator
from dragoman.inference.backends.cpu_backend import CpuBackend, CpuModel
from dragoman.inference.backends.cpu_decoder_only import CpuDecoderOnlyBackend
from dragoman.models.protocols import Backend
from dragoman.models.quantization import ComputeType
from dragoman.models.special_symbols import SpecialSymbols
from dragoman.profiling.decoding_time import Costs, Decoding, Machine, roofline, timed
from dragoman.profiling.machine import bytes_per_second, operations_per_second, operations_per_second_of_the_core
from dragoman.profiling.model_cost import FLOAT32, take_inventory
from dragoman.runs.folder import RunFolder
from dragoman.runs.load import RequestedComputeType, load
from dragoman.tasks.factory import build_task
from dragoman.typing import Int

NUMBER_BYTES: dict[ComputeType, int] = {"float32": 4, "bfloat16": 2, "int8": 1}
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
"""Starts a command and prints its seconds and bytes; a process begins with the memory of the one that starts it, which
is why that is a small one."""
Ids = list[int]


@dataclass(frozen=True)
class Wanted:
    """What is timed: every batch with every beam, on lines that are given or on made-up ones."""

    batches: tuple[int, ...] = (1, 8, 64)
    beams: tuple[int, ...] = (1, 4)
    tokens: int = 32
    """Of each output: exactly so many of made-up lines, at most so many of given ones."""
    source_tokens: int = 24
    """Of each made-up line."""
    rounds: int = 3
    lines: tuple[str, ...] | None = None


class Row(NamedTuple):
    """The times of a batch and a beam, and the roofline of its steps."""

    batch: int
    beam: int
    first_token_ms: float
    token_ms: float
    """The median of the steps after the first."""
    sentences_per_second: float
    tokens_per_second: float
    megabytes_per_token: float
    megaoperations_per_token: float
    bandwidth_share: float
    product_share: float
    roofline_share: float
    bound: str


class Subject(Protocol):
    """A run, loaded, as it is timed."""

    device: Any

    def in_use(self) -> AbstractContextManager[None]: ...

    def ids(self, lines: Sequence[str]) -> list[Ids]: ...

    def made_up(self, count: int, length: int) -> list[Ids]:
        """Rows of any tokens but symbols."""
        ...

    def read(self, rows: Sequence[Ids]) -> tuple[Backend[Any, Any], Any]: ...

    def first(self, rows: Sequence[Ids]) -> Int[np.ndarray, " batch"] | None: ...

    def require_room(self, places: int, tokens: int) -> None:
        """Raises ConfigError where outputs of so many tokens after so many places are too long for the network."""
        ...


class TimedTranslator:
    """Implements `Subject` for a translator."""

    def __init__(self, translator: Translator) -> None:
        self.network = translator.backend
        self.device = translator.backend.device
        self.in_use, self._side = translator.backend.inference_mode, translator.tokenizer.source

    def ids(self, lines: Sequence[str]) -> list[Ids]:
        return [list(ids) for ids in self._side.encode_batch(list(lines))]

    def made_up(self, count: int, length: int) -> list[Ids]:
        return _any_tokens(count, length, vocabulary=len(self._side))

    def read(self, rows: Sequence[Ids]) -> tuple[Backend[Any, Any], Any]:
        return self.network, self.network.encode(rows)

    def first(self, rows: Sequence[Ids]) -> None:  # noqa: ARG002  # outputs begin with the begin symbol
        return None

    def require_room(self, places: int, tokens: int) -> None:
        longest = self.network.max_length
        if longest is not None and max(places, tokens) + 1 > longest:
            raise ConfigError(f"{max(places, tokens)} tokens: this network knows {longest - 1} places; ask for fewer")


class TimedGenerator:
    """Implements `Subject` for a generator."""

    def __init__(self, generator: Generator) -> None:
        self.network = generator.backend
        self.device = generator.device
        self.in_use = generator.backend.inference_mode
        self._side, self._pairs, self._context = generator.tokenizer.source, generator.pairs, generator.context

    def ids(self, lines: Sequence[str]) -> list[Ids]:
        begin = [SpecialSymbols().bos]
        rows = self._side.encode_batch(list(lines))
        return [[*ids, *begin] if self._pairs else [*begin, *ids] for ids in rows]

    def made_up(self, count: int, length: int) -> list[Ids]:
        return _any_tokens(count, length, vocabulary=len(self._side))

    def read(self, rows: Sequence[Ids]) -> tuple[Backend[Any, Any], Any]:
        return self.network.encode_prompts(rows)

    def first(self, rows: Sequence[Ids]) -> Int[np.ndarray, " batch"]:
        return np.array([row[-1] for row in rows])

    def require_room(self, places: int, tokens: int) -> None:
        if places + tokens > self._context:
            raise ConfigError(
                f"{places} tokens of a prompt and {tokens} of an output are more than the context of {self._context}; "
                "ask for fewer"
            )


def bench(run: Path, wanted: Wanted, *, device: str | None, compute: RequestedComputeType) -> dict[str, Any]:
    """All that is measured, as a tree for JSON. Raises ConfigError, DataError and RunError on what cannot be."""
    began = time.perf_counter()
    loaded = load(run, device=device, compute_type=compute)
    load_seconds = time.perf_counter() - began
    subject = _subject(loaded, run)
    inputs = {batch: _rows(subject, wanted, batch) for batch in wanted.batches}
    core = _core(loaded)
    precision: ComputeType = "float32" if core is None else core.compute_type
    costs, machine = _costs(run, precision, on_core=core is not None), _machine(subject, core)
    rows = [_row(subject, wanted, inputs[batch], costs, machine, beam) for beam in wanted.beams for batch in inputs]
    seconds, peak = whole_process(run, subject, device=device, compute=compute)
    return {
        "run": str(run),
        "computed_by": _computed_by(subject, core),
        "compute": precision,
        "load_seconds": load_seconds,
        "process": {"seconds": seconds, "peak_bytes": peak},
        "machine": {"bytes_per_second": machine.bytes, "operations_per_second": machine.operations},
        "costs": asdict(costs),
        "input": "given lines" if wanted.lines is not None else f"made-up lines of {wanted.source_tokens} tokens",
        "tokens": wanted.tokens,
        "rounds": wanted.rounds,
        "work": [row._asdict() for row in rows],
    }


def whole_process(
    run: Path, subject: Subject, *, device: str | None, compute: RequestedComputeType
) -> tuple[float, int | None]:
    """Seconds and greatest memory of the command that writes one token, from its start to its end.

    Where the system does not tell the memory of one process among others, it is None.
    """
    options = ["--compute-type", compute, *(["--device", device] if device is not None else [])]
    with tempfile.TemporaryDirectory() as name:
        source = Path(name, "source.txt")
        source.write_text("a\n", encoding="utf-8")
        verb = (
            ["translate", "--min-length", "0", "--max-length", "1"]
            if isinstance(subject, TimedTranslator)
            else ["generate", "--tokens", "1"]
        )
        command = [sys.executable, "-m", "dragoman", *verb, str(run), "--input", str(source), *options]
        launch = [sys.executable, "-c", _LAUNCHER, *command]
        answer = subprocess.run(launch, capture_output=True, text=True, check=False)  # noqa: S603
    if answer.returncode != 0:
        raise RunError(f"{run}: the command that was timed ended with {answer.returncode}: {answer.stderr.strip()}")
    seconds, peak = answer.stdout.split()
    return float(seconds), int(peak) or None


def _subject(loaded: object, run: Path) -> Subject:
    match loaded:
        case Translator() if loaded.backend.structural:
            raise RunError(
                f"{run}: has structural positions, and what reads the tree of each text is not timed; take another run"
            )
        case Translator():
            return TimedTranslator(loaded)
        case Generator():
            return TimedGenerator(loaded)
        case _:
            noun = build_task(RunFolder(run).read_config()).description.noun
            raise RunError(f"{run}: has a {noun}, and only what translates or writes is timed; take such a run")


def _core(loaded: Any) -> CpuModel | None:
    return loaded.model.model if isinstance(loaded.model, CpuBackend | CpuDecoderOnlyBackend) else None


def _computed_by(subject: Subject, core: CpuModel | None) -> str:
    if core is not None:
        return f"the compiled core, {core.instruction_set}, threads: {core.threads}"
    threads = f", threads: {torch.get_num_threads()}" if str(subject.device) == "cpu" else ""
    return f"PyTorch on {subject.device}{threads}"


def _costs(run: Path, compute: ComputeType, *, on_core: bool) -> Costs:
    """Counted on the network's parts. The core keeps keys and values in 16 bits where it does not compute in 32."""
    folder = RunFolder(run)
    inventory = take_inventory(build_task(folder.read_config()).build_model(folder, device=torch.device("cpu")))
    operations = inventory.flops["decode"]
    kept = 2 if on_core and compute != "float32" else FLOAT32
    return Costs(
        weight_bytes=operations // 2 * NUMBER_BYTES[compute],
        place_bytes=inventory.cache_bytes * kept // FLOAT32,
        operations=operations,
    )


def _machine(subject: Subject, core: CpuModel | None) -> Machine:
    device = torch.device(subject.device)
    peak = operations_per_second(device) if core is None else operations_per_second_of_the_core(core.compute_type)
    return Machine(bytes_per_second(device), peak)


def _row(subject: Subject, wanted: Wanted, inputs: Sequence[Ids], costs: Costs, machine: Machine, beam: int) -> Row:
    batch, places = len(inputs), statistics.mean(map(len, inputs))
    asked = {
        "beam_size": beam,
        "min_length": wanted.tokens if wanted.lines is None else 0,
        "max_length": wanted.tokens,
    }
    settings = parse(DecodingConfig, asked, where="bench")
    limits = np.full(batch, wanted.tokens)

    def once() -> Decoding:
        return timed(lambda: subject.read(inputs), limits=limits, settings=settings, first=subject.first(inputs))

    with subject.in_use():
        once()
        median = sorted((once() for _ in range(wanted.rounds)), key=lambda one: one.seconds)[wanted.rounds // 2]
    found = roofline(median, costs, machine, beam=beam, places=places)
    later = [step.seconds for step in median.steps[1:]] or [median.steps[0].seconds]
    return Row(
        batch=batch,
        beam=beam,
        first_token_ms=1e3 * (median.read + median.steps[0].seconds),
        token_ms=1e3 * statistics.median(later),
        sentences_per_second=batch / median.seconds,
        tokens_per_second=median.tokens / median.seconds,
        megabytes_per_token=found.bytes_per_token / 1e6,
        megaoperations_per_token=found.operations_per_token / 1e6,
        bandwidth_share=found.bandwidth_share,
        product_share=found.product_share,
        roofline_share=found.share,
        bound=found.bound,
    )


def _rows(subject: Subject, wanted: Wanted, batch: int) -> list[Ids]:
    """What a batch is made of: of given lines some from everywhere among them."""
    if wanted.lines is None:
        rows = subject.made_up(batch, wanted.source_tokens)
    elif len(wanted.lines) < batch:
        raise DataError(f"{len(wanted.lines)} lines are too few for a batch of {batch}; give more, or lower --batch")
    else:
        rows = subject.ids([wanted.lines[row * len(wanted.lines) // batch] for row in range(batch)])
    subject.require_room(max(map(len, rows)), wanted.tokens)
    return rows


def _any_tokens(count: int, length: int, *, vocabulary: int) -> list[Ids]:
    words = np.random.default_rng(1).integers(min(4, vocabulary - 1), vocabulary, size=(count, length))
    found: list[Ids] = words.tolist()
    return found
