"""Process that runs one command after another, each in a fork of an interpreter with all imports.

A fork is a process with its own arguments, environment, folder and streams, and saves the two seconds in which a new
interpreter imports PyTorch. `python -m tests.command_server` reads requests from standard input and answers with exit
codes on standard output, both as JSON, one on each line.
"""

import atexit
import contextlib
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

STREAMS = ("stdout", "stderr")


def main() -> None:
    """Answer requests until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    _import_everything()
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            answers.close()
            _become_command(request)
            from dragoman.cli.main import main as run_command

            sys.exit(run_command())
        print(json.dumps(_wait(child, request["timeout"])), file=answers, flush=True)


def _import_everything() -> None:
    import torch  # noqa: F401

    from dragoman.cli import main as cli
    from dragoman.profiling import decoding_benchmark  # noqa: F401
    from dragoman.runs import auto_config, compare, evaluate, export, inspect, load, train  # noqa: F401

    for verb in cli.SUMMARIES:
        cli.build_command(verb)


def _become_command(request: dict[str, Any]) -> None:
    os.setsid()
    os.environ.clear()
    os.environ.update(request["environment"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    for number, name in enumerate(STREAMS, 1):
        os.dup2(os.open(Path(request["streams"], name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.argv = ["dragoman", *request["arguments"]]
    os.chdir(request["cwd"])


def _wait(child: int, timeout: float) -> int | None:
    """Return the exit code of a process, or its negative signal; kill it and return None after `timeout` seconds."""
    end, late = time.monotonic() + timeout, False
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return None if late else os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            late = True
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
        time.sleep(0.005)


class CommandServer:
    """Handle of this process in another one."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="commands-"))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.command_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[1],
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            text=True,
        )
        self._turn = threading.Lock()
        atexit.register(self.close)

    def run(
        self, arguments: Sequence[str], *, cwd: Path, environment: Mapping[str, str], timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """Run the command to its end; calls of several threads take turns."""
        request = {"arguments": arguments, "cwd": str(cwd), "environment": dict(environment), "timeout": timeout}
        with self._turn:
            code = self._ask(request | {"streams": str(self._folder)})
            stdout, stderr = ((self._folder / name).read_text(encoding="utf-8") for name in STREAMS)
        if code is None:
            raise subprocess.TimeoutExpired(["dragoman", *arguments], timeout, stdout, stderr)
        return subprocess.CompletedProcess(["dragoman", *arguments], code, stdout, stderr)

    def _ask(self, request: dict[str, Any]) -> int | None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self._process.communicate()
        shutil.rmtree(self._folder)


@functools.cache
def command_server() -> CommandServer:
    """Return the server of this process."""
    return CommandServer()


if __name__ == "__main__":
    main()
