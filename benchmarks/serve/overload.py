"""Ask `dragoman serve` twice as much as it can answer, and watch statuses and memory.

    apt-get install hey wrk
    python -m benchmarks.serve.overload int8 TEXTS --seconds 600 --name "two cores, ten minutes"

`wrk` with 64 clients measures the capacity. Then the clients of `hey` make twice as many requests per second, whether
the server answers or not, and this script samples the memory of the server. It ends with an error if a request got no
answer, or another status than 200, 429 and 503, or if the server counts other statuses than the clients.
"""

import argparse
import json
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from benchmarks.collect_runs import update_results
from benchmarks.serve.programs import RunningProgram, dragoman, load, running
from benchmarks.serve.serve import RESULTS

WORKERS = 1000
"""Clients of `hey`, each of which waits for its answer; four times as many as the server answers at once."""
SAMPLE_SECONDS = 5.0
EXPECTED = {"200", "429", "503"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="int8 export of a translator from English to German")
    parser.add_argument("texts", type=Path, help="English texts, one per line; the first is translated")
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--times", type=float, default=2, help="requests per second, in capacities")
    parser.add_argument("--name", required=True, help="entry of results.json")
    arguments = parser.parse_args()
    text = arguments.texts.read_text(encoding="utf-8").splitlines()[0]
    with tempfile.TemporaryDirectory() as folder, running([dragoman(arguments.run)], text) as [server]:
        body = Path(folder, "body.json")
        body.write_text(json.dumps({"q": text, "source": "en", "target": "de"}) + "\n", encoding="utf-8")
        capacity = load(server, body, clients=64, seconds=10)["rate"]
        before = count_responses(server)
        output, memory = overload(server, body, rate=arguments.times * capacity, seconds=arguments.seconds)
        counted = {status: count - before.get(status, 0) for status, count in count_responses(server).items()}
        translation = server.translate(text)
    found = read_output(output)
    check(found, counted)
    entry = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "dragoman": version("dragoman"),
        "capacity": round(capacity, 1),
        **found,
        "memory_mib": summarize(memory),
        "answers_at_the_end": bool(translation),
    }
    print(json.dumps(entry, indent=1))
    update_results(RESULTS, {arguments.name: entry})


def overload(server: RunningProgram, body: Path, *, rate: float, seconds: int) -> tuple[str, list[float]]:
    """Return the output of `hey`, and the resident memory of the server in MiB every few seconds."""
    command = ["hey", "-z", f"{seconds}s", "-c", str(WORKERS), "-q", f"{rate / WORKERS:.6f}", "-t", "120"]
    command += ["-m", "POST", "-T", "application/json", "-D", str(body), f"{server.url}/translate"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    memory: list[float] = []
    while process.poll() is None:
        memory.append(server.memory()["Rss"])
        time.sleep(SAMPLE_SECONDS)
    assert process.stdout is not None
    return process.stdout.read(), memory


def count_responses(server: RunningProgram) -> dict[str, int]:
    """Return the responses of the server so far by status, as its metrics say."""
    with urlopen(f"{server.url}/metrics", timeout=60) as response:
        lines = response.read().decode()
    pattern = r'^dragoman:http_responses_total\{interface="LibreTranslate",status="(\d+)"\} (\S+)$'
    return {status: int(float(count)) for status, count in re.findall(pattern, lines, re.MULTILINE)}


def read_output(output: str) -> dict[str, Any]:
    """Return statuses, errors, rate and latencies that `hey` reports."""
    seconds = dict(re.findall(r"(\d+)%+ in ([\d.]+) secs", output))
    rate = re.search(r"Requests/sec:\s+([\d.]+)", output)
    if rate is None:
        raise RuntimeError(f"hey has failed: {output}")
    return {
        "requests_per_second": float(rate[1]),
        "statuses": {status: int(count) for status, count in re.findall(r"\[(\d{3})\]\s+(\d+) responses", output)},
        "errors": output.partition("Error distribution:")[2].strip().splitlines(),
        "latency_ms": {f"p{part}": round(1000 * float(seconds[part]), 1) for part in ("50", "95", "99")},
    }


def check(found: dict[str, Any], counted: dict[str, int]) -> None:
    """Raise RuntimeError if a request had no answer or an unexpected one."""
    statuses = found["statuses"]
    if found["errors"] or not statuses.keys() <= EXPECTED:
        raise RuntimeError(f"unexpected answers: {found}")
    # Clients that end in the middle of a request do not count its status.
    if any(abs(count - statuses.get(status, 0)) > WORKERS for status, count in counted.items() if status in EXPECTED):
        raise RuntimeError(f"the server counts {counted}, and its clients {statuses}")


def summarize(memory: Sequence[float]) -> dict[str, float]:
    """Return the memory at the start, and the medians of the second tenth and of the last tenth of the time."""
    tenth = max(1, len(memory) // 10)
    return {
        "start": memory[0],
        "after a tenth": statistics.median(memory[tenth : 2 * tenth] or memory),
        "end": statistics.median(memory[-tenth:]),
        "peak": max(memory),
    }


if __name__ == "__main__":
    main()
