"""`dragoman serve` as a process on a free port."""

import functools
import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.small_runs import command, environment

READY = "listening on "


@dataclass
class RunningServer:
    """A server, and what it writes into its log."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    def get(self, path: str, **headers: str) -> Any:
        """Return the JSON of a response, or raise HTTPError."""
        with urlopen(Request(self.url + path, headers=headers), timeout=60) as response:
            return json.load(response)

    def post(self, path: str, body: Any, **headers: str) -> tuple[int, Any]:
        """Post a JSON value or bytes, and return the status and the JSON of the response."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = Request(self.url + path, data, {"Content-Type": "application/json", **headers})
        try:
            with urlopen(request, timeout=60) as response:
                return response.status, json.load(response)
        except HTTPError as error:
            with error:
                return error.code, json.load(error)

    def metrics(self) -> dict[str, float]:
        """Return the values of all metrics by name and labels."""
        with urlopen(self.url + "/metrics", timeout=60) as response:
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
    """Return the address that a server listens on."""
    while process.poll() is None:
        text = log.read_text(encoding="utf-8")
        if READY in text and "startup complete" in text:
            return text.partition(READY)[2].split()[0]
    raise AssertionError(log.read_text(encoding="utf-8"))
