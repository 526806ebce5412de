"""A look at a training in a process of its own, so that the most memory it takes is its own."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, final

from dragoman.errors import RunError
from dragoman.profiling.batch_cost import Load
from dragoman.runs.folder import RunFolder
from dragoman.tasks.config import Experiment

MENDABLE: Final = 2
ASKED, ANSWER = "asked.json", "measured.json"
_PLACE = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_CHILD = """
import sys
sys.path[:] = {path!r}
import dragoman.cli.main, dragoman.cli.training_display
from dragoman.profiling.profile_worker import main
main()
"""
"""It begins with the modules that the command imports."""


@final
@dataclass(frozen=True)
class Asked:
    """What to look at."""

    device: str
    began: float
    """When the process was started, by the clock of all processes."""
    seconds: float
    """For how long updates are timed."""
    limit: int | None = None
    """Bytes; no batch is tried that would seem to need more."""
    judging: bool = True
    """Whether validation and all that comes after it is looked at too."""


@final
@dataclass(frozen=True)
class Level:
    """The most memory that the process that leads, or its GPU, had taken after batches of one share."""

    places: float
    """Of the heaviest of these batches."""
    share: float
    bytes: int


@final
@dataclass(frozen=True)
class Held:
    """The bytes of the tensors that stay from one update to the next."""

    weights: int
    gradients: int
    optimiser: int
    moving_average: int

    @property
    def total(self) -> int:
        return self.weights + self.gradients + self.optimiser + self.moving_average


@final
@dataclass(frozen=True)
class Measured:
    """What a look at a training found; times in seconds, memory in bytes."""

    workers: int
    parameters: int
    held: Held
    """Of each worker."""
    program: int
    """Of the process that leads, before it reads anything."""
    data: int
    """What it took beside when it had read the corpus."""
    levels: list[Level]
    growth: float
    """Bytes by which that grows while the updates become 2.718 times as many: memory is let go of in pieces."""
    peak: int
    """The most memory of the process that leads, to the end; on a GPU, of the GPU."""
    others: list[int]
    """The same of each worker beside it."""
    load: Load
    """Of an update, on average."""
    timed: list[tuple[list[float], float]]
    """What each update weighs, and its seconds."""
    seen: int
    """Whole updates that were looked at."""
    updates: int
    """Of the whole training."""
    updates_per_epoch: float
    """Less than one where several epochs make an update."""
    flops: float
    """Of an update, on average, padding aside: multiplications and additions of linear maps, forward and backward."""
    operations: float
    """A second, of large products, at most."""
    seconds: Mapping[str, float]
    """Of everything but updates, by name."""
    scores: Mapping[str, float]
    """To score each set in the end."""
    sizes: str
    """What there is to learn from, in words."""


def measure(
    experiment: Experiment,
    asked: Asked,
    *,
    tell: Callable[[str], None],
    tokenizer_of: RunFolder | None = None,
) -> Measured:
    """Look at the training of an experiment in another process; nothing is left on the disk but caches.

    `tokenizer_of` is a run whose tokenizer and labels are taken, so that none is learnt. Raises RunError with what the
    process said where it failed.
    """
    with tempfile.TemporaryDirectory(prefix="dragoman-plan-") as name:
        folder = RunFolder(Path(name))
        folder.write_config(experiment)
        for file in () if tokenizer_of is None else (tokenizer_of.tokenizer, tokenizer_of.labels):
            if file.exists():
                (folder.path / file.name).write_bytes(file.read_bytes())
        (folder.path / ASKED).write_text(json.dumps(asdict(asked)), encoding="utf-8")
        _run(folder.path, tell)
        answer = folder.path / ANSWER
        end = now() - answer.stat().st_mtime
        tree = json.loads(answer.read_text(encoding="utf-8"))
        tree["seconds"]["end"] = max(0.0, end)
        return _read(tree)


def now() -> float:
    """The moment, by the clock that all processes share."""
    return time.time()


def _run(folder: Path, tell: Callable[[str], None]) -> None:
    """Have the other process look, and pass on what it says it is at."""
    own = {name: value for name, value in os.environ.items() if name not in _PLACE}
    command = [sys.executable, "-c", _CHILD.format(path=sys.path), str(folder)]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as complaints:
        process = subprocess.Popen(  # noqa: S603
            command, env=own, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=complaints, text=True
        )
        try:
            assert process.stdout is not None, "it is a pipe"
            for line in process.stdout:
                tell(line.rstrip("\n"))
            code = process.wait()
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
        complaints.seek(0)
        said = complaints.read().strip()
    if code == MENDABLE:
        raise RunError(said)
    if code < 0:
        raise RunError(
            f"the probe was ended by signal {-code}, as it is where memory is too small; ask for less by "
            "training.batch_tokens, or for a smaller model"
        )
    if code:
        raise RuntimeError(f"the probe ended with {code}: {said}")


def _read(tree: dict[str, Any]) -> Measured:
    """What the other process wrote down."""
    tree["held"] = Held(**tree["held"])
    tree["load"] = Load(**tree["load"])
    tree["levels"] = [Level(**level) for level in tree["levels"]]
    tree["timed"] = [(causes, seconds) for causes, seconds in tree["timed"]]
    return Measured(**tree)
