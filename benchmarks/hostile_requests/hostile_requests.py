"""Send hostile texts and files to a server, and measure what its other clients notice.

    python -m benchmarks.hostile_requests.hostile_requests runs/en-pt --pair en-pt

Half of the clients leave before their answer. A process asks for `/health` every 50 ms. When all clients have left,
the processor time of all processes of the server must no longer grow. The memory is that of all processes, above that
of the idle server.
"""

import argparse
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.hostile_requests.requests_and_files import HostileRequest, generated_requests, known_requests

HERE = Path(__file__).parent
TICKS = os.sysconf("SC_CLK_TCK")
INTERVAL = 0.05
"""Seconds between two questions for the health, and between two looks at the memory."""
PATIENCE = 100.0
"""Seconds that a client waits that does not leave."""
MIB = 2**20
_POLL = """
import http.client, sys, time
while True:
    begin = time.monotonic()
    try:
        connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=120)
        connection.request("GET", "/health")
        status = connection.getresponse().status
        connection.close()
    except OSError:
        status = 0
    print(status, time.monotonic() - begin, flush=True)
    time.sleep(float(sys.argv[2]))
"""


@dataclass
class Findings:
    """Measurements of one server."""

    idle_memory: float
    """Memory of the idle server, in MiB."""
    statuses: Counter[str] = field(default_factory=Counter)
    health: list[float] = field(default_factory=list)
    """Seconds of each answer of `/health`."""
    failed_health: int = 0
    excess: list[tuple[float, str]] = field(default_factory=list)
    """Memory above what is allowed, in MiB, with the name of the request."""
    peak_memory: float = 0.0
    """Greatest memory above that of the idle server, in MiB."""
    seconds_after_leaving: float = 0.0
    """Processor time from one to three seconds after the last client has left, of the processes that were there."""
    seconds_to_stop: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the measurements as JSON values."""
        ordered = sorted(self.health)
        return {
            "requests": sum(self.statuses.values()),
            "statuses": dict(sorted(self.statuses.items())),
            "health_checks": len(ordered),
            "health_failed": self.failed_health,
            "health_max_seconds": round(ordered[-1], 3),
            "health_p99_seconds": round(ordered[len(ordered) * 99 // 100], 3),
            "peak_memory_mib": round(self.peak_memory, 1),
            "memory_above_limit": [[name, round(size, 1)] for size, name in self.excess],
            "processor_seconds_after_leaving": round(self.seconds_after_leaving, 2),
            "seconds_to_stop": round(self.seconds_to_stop, 2),
        }


def processes(parent: int) -> list[int]:
    """Return a process and those that it has started, at any depth."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, IndexError):
            fields = path.read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found, waiting = [], [parent]
    while waiting:
        found.append(number := waiting.pop())
        waiting += children.get(number, [])
    return found


def memory(parent: int) -> float:
    """Return the memory of a process and its children in MiB; a page that several have counts once."""
    total = 0
    for number in processes(parent):
        with suppress(OSError, StopIteration):
            lines = Path(f"/proc/{number}/smaps_rollup").read_text().splitlines()
            total += int(next(line for line in lines if line.startswith("Pss:")).split()[1])
    return total / 1024


def processor_seconds(numbers: Iterable[int]) -> dict[int, float]:
    """Return the processor time of processes; those that have ended have none."""
    found = {}
    for number in numbers:
        with suppress(OSError):
            fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
            found[number] = sum(map(int, fields[11:13])) / TICKS
    return found


@contextmanager
def polling(port: int, findings: Findings) -> Iterator[None]:
    """Ask for the health in a process of its own during the block."""
    process = subprocess.Popen([sys.executable, "-c", _POLL, str(port), str(INTERVAL)], stdout=subprocess.PIPE)
    time.sleep(0.5)
    try:
        yield
    finally:
        time.sleep(0.5)  # for the answer that waits
        process.send_signal(signal.SIGKILL)
        lines = process.communicate()[0].decode().splitlines()
        for line in lines:
            status, seconds = line.split()
            findings.health.append(float(seconds))
            findings.failed_health += status != "200"


def send(port: int, request: HostileRequest, pair: tuple[str, str], patience: float) -> str:
    """Send a request, and return the status of its answer, or `left` if it did not come in time."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=patience)
    try:
        connection.request("POST", *_encode(request, pair))
        with connection.getresponse() as response:
            response.read()
            return str(response.status)
    except TimeoutError:
        return "left"
    except (OSError, http.client.HTTPException) as error:
        return type(error).__name__
    finally:
        if connection.sock is not None:
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        connection.close()


def _encode(request: HostileRequest, pair: tuple[str, str]) -> tuple[str, bytes, dict[str, str]]:
    """Return path, body and headers."""
    if request.file is None:
        return "/api/translate", json.dumps(request.body).encode(), {"Content-Type": "application/json"}
    name, content = request.file
    fields = {"source": pair[0], "target": pair[1]}
    parts = [
        f'--b\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'.encode()
        for key, value in fields.items()
    ]
    head = f'--b\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode()
    body = b"".join([*parts, head, content, b"\r\n--b--\r\n"])
    return "/translate_file", body, {"Content-Type": "multipart/form-data; boundary=b"}


@contextmanager
def watching_memory(parent: int, limit: float, name: str, findings: Findings) -> Iterator[None]:
    """Note the greatest memory during the block, and its excess above a limit in MiB."""
    stop, peak = threading.Event(), [0.0]

    def watch() -> None:
        while not stop.wait(INTERVAL):
            peak[0] = max(peak[0], memory(parent))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()
        above = peak[0] - findings.idle_memory
        findings.peak_memory = max(findings.peak_memory, above)
        if above > limit:
            findings.excess.append((above - limit, name))


def attack(
    process: int, port: int, pair: tuple[str, str], requests: Iterable[HostileRequest], clients: int
) -> Findings:
    """Send requests to a server that runs, from several clients at a time."""
    findings = Findings(memory(process))
    generator, lock = random.Random(1), threading.Lock()

    def work(request: HostileRequest) -> None:
        with lock:
            patience = PATIENCE if generator.random() < 0.5 else generator.uniform(0.05, 1.0)
        status = send(port, request, pair, patience)
        with lock:
            findings.statuses[status] += 1

    with polling(port, findings):
        for request in known_requests(*pair):
            limit = 300 + 4 * request.size / MIB
            with watching_memory(process, limit, request.name, findings):
                findings.statuses[send(port, request, pair, PATIENCE)] += 1
        with watching_memory(process, 300 + clients * 0.2, "generated", findings), ThreadPoolExecutor(clients) as pool:
            list(pool.map(work, requests))
        for request in list(known_requests(*pair))[:8]:
            send(port, request, pair, 0.5)
        there = processes(process)  # later ones replace workers that were killed
        time.sleep(1.0)
        begin = processor_seconds(there)
        time.sleep(2.0)
        end = processor_seconds(there)
        findings.seconds_after_leaving = sum(end[number] - begin.get(number, 0.0) for number in end)
    return findings


def stop(process: "subprocess.Popen[bytes]", port: int, pair: tuple[str, str], findings: Findings) -> None:
    """Send SIGTERM while the server works, and note how long it goes on when its client leaves."""
    request = next(one for one in known_requests(*pair) if one.name == "strings, file")
    client = threading.Thread(target=send, args=(port, request, pair, 2.0))
    client.start()
    time.sleep(1.0)
    begin = time.monotonic()
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=60)
    findings.seconds_to_stop = time.monotonic() - begin
    client.join()


@contextmanager
def served(run: str, pair: str) -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    """Serve a run on a free port during the block, without limits on the number of requests."""
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        free.close()
        command = [sys.executable, "-m", "dragoman", "serve", f"{pair}={Path(run).absolute()}", "--port", str(port)]
        with Path(folder, "log").open("wb") as log:
            process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        try:
            while not _is_ready(port):
                if process.poll() is not None:
                    raise RuntimeError(Path(folder, "log").read_text())
                time.sleep(0.05)
            time.sleep(3.0)  # until the workers have started
            yield process, port
        finally:
            process.kill()
            process.wait()


def _is_ready(port: int) -> bool:
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", "/ready")
        return connection.getresponse().status == 200
    except OSError:
        return False


def measure(run: str, pair: str, *, count: int, clients: int, seed: int = 1, largest: int = 48_000) -> dict[str, Any]:
    """Serve a run, attack it, stop it, and return the measurements."""
    source, _, target = pair.partition("-")
    with served(run, pair) as (process, port):
        requests = generated_requests(source, target, count=count, seed=seed, largest=largest)
        findings = attack(process.pid, port, (source, target), requests, clients)
        stop(process, port, (source, target), findings)
    return findings.to_dict()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="run folder of a translator")
    parser.add_argument("--pair", default="en-de")
    parser.add_argument("--count", type=int, default=10_000, help="generated requests")
    parser.add_argument("--clients", type=int, default=4, help="requests at a time")
    parser.add_argument("--out", type=Path, default=HERE / "results.json")
    arguments = parser.parse_args()
    found = measure(arguments.run, arguments.pair, count=arguments.count, clients=arguments.clients)
    tree = {"date": datetime.now(UTC).date().isoformat(), **found}
    arguments.out.write_text(json.dumps(tree, indent=2) + "\n")
    print(json.dumps(tree, indent=2))


if __name__ == "__main__":
    main()
