"""Worker processes: the rank of this process, and the processes that it starts on this machine.

A worker process runs `dragoman train` with its rank in the environment, as torchrun does. This module does not import
PyTorch, so that workers start while the main process imports it.
"""

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from dragoman.errors import RunError

SECRET_VARIABLE: Final = "DRAGOMAN_TRAINING_SECRET"  # noqa: S105, a name
"""Environment variable of the secret that messages between workers are signed with; only its user can read it."""
STORE_VARIABLE: Final = "DRAGOMAN_WORKER_STORE"
"""Environment variable of the file through which the workers of one machine connect."""
SHUTDOWN_SECONDS: Final = 10.0


@final
@dataclass(frozen=True)
class WorkerRank:
    """Rank of this process among all workers and among those of its machine."""

    rank: int
    world_size: int
    local_rank: int

    @property
    def device(self) -> str:
        """The GPU of this worker."""
        return f"cuda:{self.local_rank}"


def worker_rank() -> WorkerRank | None:
    """Return the rank that torchrun or a main process set in the environment; None for a process started alone."""
    address = ("MASTER_ADDR", "MASTER_PORT") if local_store() is None else ()
    if any(name not in os.environ for name in ("RANK", "WORLD_SIZE", *address)):
        return None
    rank = int(os.environ["RANK"])
    return WorkerRank(rank, int(os.environ["WORLD_SIZE"]), int(os.environ.get("LOCAL_RANK", rank)))


def local_store() -> Path | None:
    """Return the file through which a worker that a main process started connects."""
    return Path(os.environ[STORE_VARIABLE]) if STORE_VARIABLE in os.environ else None


def training_secret() -> bytes:
    """Return the secret in the environment; empty if torchrun started the workers without one."""
    return os.environ.get(SECRET_VARIABLE, "").encode()


def restart_count() -> int:
    """Return how often torchrun restarted the workers of this machine after losing one."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


@final
@dataclass(frozen=True)
class WorkerProcesses:
    """Started workers, which wait for the main process; they connect through a file that only this user can open."""

    processes: tuple[subprocess.Popen[bytes], ...]
    store: Path
    secret: bytes

    @property
    def world_size(self) -> int:
        """Number of workers, with the main process."""
        return 1 + len(self.processes)

    def check_alive(self) -> None:
        """Raise RunError if a worker has ended, and kill the others."""
        for process in self.processes:
            if process.poll() is not None:
                self.kill()
                raise RunError(
                    f"a worker could not be started (it ended with {process.returncode}). Train with "
                    "--set training.num_workers=1"
                )

    def wait(self) -> None:
        """Wait some seconds for all workers to end, and kill the rest."""
        end = time.monotonic() + SHUTDOWN_SECONDS
        for process in self.processes:
            try:
                process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                break
        self.kill()

    def kill(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()
        shutil.rmtree(self.store.parent, ignore_errors=True)


def start_workers(world_size: int) -> WorkerProcesses:
    """Start all workers but the main process, with a new secret."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    store, secret = Path(tempfile.mkdtemp(prefix="dragoman-workers-"), "store"), secrets.token_hex(32)
    program = (
        f"import sys; sys.path[:] = {sys.path!r}",
        f"from {__name__} import exit_with_main_process; exit_with_main_process()",
        "from dragoman.cli.main import main; main()",
    )
    shared = {STORE_VARIABLE: str(store), SECRET_VARIABLE: secret, "WORLD_SIZE": str(world_size)}
    started = []
    for rank in range(1, world_size):
        own = os.environ | shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        arguments = [sys.executable, "-c", "; ".join(program), "train"]
        # In a session of its own: Ctrl-C reaches the main process alone, which tells all workers to stop.
        process = subprocess.Popen(arguments, env=own, stdin=subprocess.PIPE, start_new_session=True)  # noqa: S603
        started.append(process)
    return WorkerProcesses(tuple(started), store, secret.encode())


def exit_with_main_process() -> None:
    """Let this worker exit when the main process ends, even if killed: the system then closes its standard input."""

    def watch() -> None:
        os.read(0, 1)  # sys.stdin would be locked when the interpreter ends
        if (store := local_store()) is not None:
            shutil.rmtree(store.parent, ignore_errors=True)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def start_workers_early(world_size: int) -> Iterator[WorkerProcesses | None]:
    """Start the workers that a run will need, and kill those not used in the block; None for a single worker.

    Workers of torchrun start none.
    """
    if world_size == 1 or worker_rank() is not None:
        yield None
        return
    workers = start_workers(world_size)
    try:
        yield workers
    finally:
        workers.kill()
