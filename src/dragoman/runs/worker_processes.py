"""The place of a process among the workers of a training, and the workers that a process starts beside itself.

An assistant is the same command again with its place in the environment, as torchrun puts it; it waits at the door of
the process that leads. Nothing here needs PyTorch, so that assistants can be on their way while their leader loads it.
"""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, final

from dragoman.errors import RunError
from dragoman.runs.folder import RunFolder

LOCALHOST: Final = "127.0.0.1"
SHUTDOWN_SECONDS: Final = 10.0


@final
@dataclass(frozen=True)
class WorkerRank:
    """Where a process stands among those that torchrun, or a leader, started."""

    rank: int
    size: int
    local_rank: int

    @property
    def device(self) -> str:
        """The device of this worker where each has a GPU of its own."""
        return f"cuda:{self.local_rank}"


def worker_rank() -> WorkerRank | None:
    """The place of this process among several; None where it was started by itself."""
    names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    if any(name not in os.environ for name in names):
        return None
    rank = int(os.environ["RANK"])
    return WorkerRank(rank, int(os.environ["WORLD_SIZE"]), int(os.environ.get("LOCAL_RANK", rank)))


def restart_count() -> int:
    """How often torchrun has started the processes of this machine again after it lost a worker."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


@final
@dataclass(frozen=True)
class WorkerProcesses:
    """Processes on this machine that load what they need, and then wait at a door to be told what to learn."""

    processes: tuple[subprocess.Popen[bytes], ...]
    door: socket.socket

    @property
    def size(self) -> int:
        """Of the team: these, and who leads them."""
        return 1 + len(self.processes)

    def require_alive(self) -> None:
        """Raises RunError where one has ended, and ends the others."""
        for process in self.processes:
            if process.poll() is not None:
                self.kill()
                raise RunError(
                    f"a worker could not be started (it ended with {process.returncode}); train with "
                    "--set training.num_workers=1"
                )

    def wait(self) -> None:
        """Wait for their end, for some seconds; who is still there is dismissed."""
        end = time.monotonic() + SHUTDOWN_SECONDS
        for process in self.processes:
            try:
                process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                break
        self.kill()

    def kill(self) -> None:
        """End those that are still there."""
        for process in self.processes:
            process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()
        self.door.close()


def start_workers(size: int) -> WorkerProcesses:
    """The others of a team of this `size`, on their way to a door that this process has to open."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    door = socket.create_server((LOCALHOST, 0), backlog=size)
    program = (
        f"import sys; sys.path[:] = {sys.path!r}",
        "from dragoman.runs.worker_processes import end_with_leader; end_with_leader()",
        "from dragoman.cli.main import main; main()",
    )
    meeting = {"MASTER_ADDR": LOCALHOST, "MASTER_PORT": str(door.getsockname()[1]), "WORLD_SIZE": str(size)}
    started = []
    for rank in range(1, size):
        own = os.environ | meeting | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        arguments = [sys.executable, "-c", "; ".join(program), "train"]
        # In a session of its own, Ctrl-C reaches the leader alone, who says when all stop.
        apart = {"env": own, "stdin": subprocess.PIPE, "start_new_session": True}
        started.append(subprocess.Popen(arguments, **apart))  # type: ignore[call-overload]  # noqa: S603
    return WorkerProcesses(tuple(started), door)


def exit_with_leader() -> None:
    """Have this process, an assistant, end when its leader does, of whom a killed one could not tell.

    Its standard input is a pipe that the leader holds and writes nothing to, which the system closes.
    """

    def watch() -> None:
        os.read(0, 1)  # sys.stdin would be locked when the interpreter ends
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def start_workers_early(run: RunFolder | None) -> Iterator[WorkerProcesses | None]:
    """Inside, the assistants that a run will need are starting; after it, those that nobody took are gone.

    They are as many as its configuration says, or as it began with. None where a run is new, for what it needs depends
    on what it learns; where it needs none, or more than this machine has cores; where its training has ended; and where
    torchrun started this process.
    """
    size = 1 if run is None or worker_rank() is not None else _world_size_of(run)
    if size == 1:
        yield None
        return
    assistants = start_workers(size)
    try:
        yield assistants
    finally:
        assistants.kill()


def _world_size_of(run: RunFolder) -> int:
    if run.weights.exists():
        return 1
    training = run.read_raw_config().get("training")
    asked = training.get("num_workers") if isinstance(training, dict) else 1
    size: Any = run.read_environment().get("num_workers") if asked == "auto" else asked
    return size if size in range(1, (os.cpu_count() or 1) + 1) else 1
