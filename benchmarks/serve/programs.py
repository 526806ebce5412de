"""Servers as processes: starting and stopping them, their processor time and memory, and load from `wrk`."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

HERE = Path(__file__).parent
FIRST_PORT = 8730
TICKS = os.sysconf("SC_CLK_TCK")
MIB = 2**20


@dataclass(frozen=True)
class Program:
    """A server to measure; `{port}` in its command is replaced."""

    name: str
    command: Sequence[str]
    environment: dict[str, str]

    def start(self, port: int) -> "RunningProgram":
        """Start the server without waiting for it."""
        command = [part.format(port=port) for part in self.command]
        # In a session of its own, so that the signal of Ctrl-C ends the benchmark first.
        process = subprocess.Popen(
            command,
            env=os.environ | self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return RunningProgram(self.name, process, f"http://127.0.0.1:{port}")


@dataclass(frozen=True)
class RunningProgram:
    """A server that runs."""

    name: str
    process: subprocess.Popen[bytes]
    url: str

    def translate(self, text: str) -> str:
        """Return a translation. Raises OSError while the server does not listen."""
        body = json.dumps({"q": text, "source": "en", "target": "de"}).encode()
        request = Request(f"{self.url}/translate", body, {"Content-Type": "application/json"})
        with urlopen(request, timeout=120) as response:
            found: str = json.load(response)["translatedText"]
            return found

    def wait(self, text: str, *, seconds: float = 120) -> None:
        """Wait for the first translation. Raises RuntimeError if the server ends before."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                self.translate(text)
                return
            except URLError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{self.name} does not answer") from None
                time.sleep(0.005)

    def processor_seconds(self) -> float:
        """Return the processor time of the server so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory(self) -> dict[str, float]:
        """Return resident memory, and that without pages shared with other processes, in MiB."""
        lines = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text().splitlines()[1:]
        sizes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
        return {name: round(sizes[name] / 1024, 1) for name in ("Rss", "Pss")}

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def running(programs: Sequence[Program], text: str) -> Iterator[list[RunningProgram]]:
    """Start servers, wait until all have translated a text, and stop them at the end of the block."""
    started = [one.start(FIRST_PORT + number) for number, one in enumerate(programs)]
    try:
        for one in started:
            one.wait(text)
        yield started
    finally:
        for one in started:
            one.stop()


def load(server: RunningProgram, bodies: Path, *, clients: int, seconds: float) -> dict[str, Any]:
    """Let clients ask one request after the other; return rate, latencies and processor time per request."""
    command = ["wrk", "-t1", f"-c{clients}", f"-d{seconds:g}s", "--timeout", "60s", "-s", str(HERE / "translate.lua")]
    server.translate("the requests of clients that have left are answered before")
    before = server.processor_seconds()
    output = subprocess.run(
        [*command, f"{server.url}/translate", "--", str(bodies)], capture_output=True, text=True, check=True
    ).stdout
    used = server.processor_seconds() - before
    line = next(line for line in output.splitlines() if line.startswith("RESULT "))
    found: dict[str, Any] = json.loads(line.removeprefix("RESULT "))
    if found["statuses"].keys() - {"200"}:
        raise RuntimeError(f"{server.name}: requests were refused: {found}")
    rate = found["requests"] / found["seconds"]
    return {**found, "rate": rate, "processor_ms": 1000 * used / max(1, found["requests"])}


def dragoman(run: str, *settings: str) -> Program:
    """Return our server with a model from English to German."""
    options = [part for one in settings for part in ("--set", one)]
    command = [sys.executable, "-m", "dragoman", "serve", f"en-de={run}", "--port", "{port}", *options]
    return Program("dragoman", command, {})


def ctranslate2(folder: str, beam_size: int) -> Program:
    """Return the small server over CTranslate2."""
    script = str(HERE / "ctranslate2_server.py")
    command = [sys.executable, script, folder, "--port", "{port}", "--beam-size", str(beam_size)]
    return Program("ctranslate2", command, {})


def libretranslate(python: str, packages: Sequence[str], home: str) -> Program:
    """Return LibreTranslate in its own environment, whose files are in the folder `home`."""
    command = [python, str(HERE / "libretranslate_server.py"), *packages, "--port", "{port}"]
    environment = {"HOME": home, "XDG_DATA_HOME": f"{home}/data", "ARGOS_PACKAGES_DIR": f"{home}/packages"}
    return Program("libretranslate", command, environment | {"ARGOS_COMPUTE_TYPE": "int8", "PYTHONPATH": ""})
