"""`dragoman serve` as a process on a free port."""

import functools
import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.small_runs import command, environment

_ADDRESS = re.compile(r"listening on (\S+)\n")


@dataclass
class RunningServer:
    """A server, and what it writes into its log."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    def _open(self, request: Request) -> Any:
        """Open a request. An error of the connection says whether the server has ended, and has its log."""
        try:
            return urlopen(request, timeout=60)
        except HTTPError:
            raise
        except OSError as error:
            error.add_note(f"exit code {self.process.poll()}; log:\n{self.log.read_text(encoding='utf-8')[-10_000:]}")
            raise

    def get(self, path: str, **headers: str) -> Any:
        """Return the JSON of a response, or raise HTTPError."""
        with self._open(Request(self.url + path, headers=headers)) as response:
            return json.load(response)

    def post(self, path: str, body: Any, **headers: str) -> tuple[int, Any]:
        """Post a JSON value or bytes, and return the status and the JSON of the response."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = Request(self.url + path, data, {"Content-Type": "application/json", **headers})
        try:
            with self._open(request) as response:
                return response.status, json.load(response)
        except HTTPError as error:
            with error:
                return error.code, json.load(error)

    def metrics(self) -> dict[str, float]:
        """Return the values of all metrics by name and labels."""
        with self._open(Request(self.url + "/metrics")) as response:
            lines = response.read().decode().splitlines()
        return {name: float(value) for name, value in (one.rsplit(" ", 1) for one in lines if not one.startswith("#"))}

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(timeout=60)

    def records(self) -> list[dict[str, Any]]:
        """Return the records of the log so far."""
        lines = self.log.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]


@contextmanager
def running_server(folder: Path, *arguments: object, port: int = 0) -> Iterator[RunningServer]:
    """Start a server in a folder, wait until it is ready, and stop it at the end of the block."""
    log = folder / "server.log"
    # A shell that starts the tests in the background ignores Ctrl-C, and child processes inherit that.
    heed = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command("serve", *arguments, "--port", port),
            cwd=folder,
            env=environment(folder),
            stdout=stream,
            stderr=stream,
            preexec_fn=heed,
        )
    try:
        yield RunningServer(_wait_until_ready(process, log), process, log)
    finally:
        process.kill()
        process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], log: Path) -> str:
    """Return the address of a server when it accepts requests; the log has an address first."""
    while process.poll() is None:
        found = _ADDRESS.search(log.read_text(encoding="utf-8"))
        if found is not None and _is_ready(found[1]):
            return found[1]
        time.sleep(0.02)  # a busy machine has other work than this loop
    raise AssertionError(f"exit code {process.returncode}: {log.read_text(encoding='utf-8')}")


def _is_ready(url: str) -> bool:
    try:
        with urlopen(url + "/ready", timeout=60):
            return True
    except OSError:
        return False
