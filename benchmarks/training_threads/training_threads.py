"""Measure the training of the demo by threads, on a quiet machine and next to busy processes.

    python -m benchmarks.training_threads.training_threads --name "my machine"

Each round trains the demo for some steps in every arrangement, in turns, each a process of its own: first without other
programs, then next to one busy process per core. The machine must be quiet otherwise. Writes results.json and the table
of the README, and takes about five minutes.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from benchmarks.collect_runs import update_results
from dragoman.runs.folder import RunFolder
from dragoman_demo.run import demo_experiment, write_demo_corpus

HERE = Path(__file__).parent
WITHOUT_LIBRARY = (
    "from dragoman import cpu_library; cpu_library.unusable_reason = lambda: 'left out'; "
    "from dragoman.profiling import workers_and_threads; workers_and_threads.MIN_TOKENS_PER_THREAD = 1; "
    "from dragoman.cli.main import main; main()"
)
TWO_THREADS = (
    "from dragoman.profiling import workers_and_threads; workers_and_threads.MIN_THREADS = 2; "
    "workers_and_threads.MIN_TOKENS_PER_THREAD = 1; from dragoman.cli.main import main; main()"
)
CHOSEN = "chosen by itself"
ARRANGEMENTS: Mapping[str, tuple[str, dict[str, str]]] = {
    CHOSEN: ("from dragoman.cli.main import main; main()", {}),
    "two threads with the CPU library": (TWO_THREADS, {"OMP_NUM_THREADS": "2", "GOMP_SPINCOUNT": "2000"}),
    "the same, waiting without pause": (TWO_THREADS, {"OMP_NUM_THREADS": "2"}),
    "two threads, PyTorch only, waiting without pause": (WITHOUT_LIBRARY, {"OMP_NUM_THREADS": "2"}),
}
"""Program and environment of each arrangement. Threads wait for each other without pause where GOMP_SPINCOUNT is not
set before PyTorch is imported; the command line sets it to 2,000."""
QUIET, BUSY = "quiet machine", "busy machine"
BUSY_PROGRAM = "while True: pass"
LOG_EVERY = 10
HELD_OUT = 20
"""Phrases to score after a training."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", required=True, help="entry of results.json, and machine in the README")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=120)
    arguments = parser.parse_args()
    speeds: dict[str, list[dict[str, int]]] = {}
    with tempfile.TemporaryDirectory() as name:
        config = write_demo(Path(name))
        for load, count in ((QUIET, 0), (BUSY, os.cpu_count() or 1)):
            with busy_processes(count):
                speeds[load] = [measure_round(config, arguments.steps, number) for number in range(arguments.rounds)]
    result = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "torch": version("torch"),
        "steps": arguments.steps,
        "target_tokens_per_second": speeds,
        "summary": {load: summarize(rounds) for load, rounds in speeds.items()},
    }
    update_results(HERE / "results.json", {arguments.name: result})
    write_table(HERE / "README.md", result["summary"])


def write_demo(folder: Path) -> Path:
    """Write the corpus and the configuration of the demo."""
    run = RunFolder(folder / "demo")
    run.create()
    files = write_demo_corpus(run, source_locale="en", target_locale="fr")
    for held_out in (files.valid, files.test):  # scoring takes no time that counts
        for text in (Path(held_out.source), Path(held_out.target)):
            text.write_text("".join(text.read_text(encoding="utf-8").splitlines(True)[:HELD_OUT]), encoding="utf-8")
    experiment = demo_experiment(files, [f"training.log_every={LOG_EVERY}"])
    config = folder / "demo.yaml"
    config.write_text(yaml.safe_dump(experiment.model_dump(mode="json")), encoding="utf-8")
    return config


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Run processes that compute without pause inside the context."""
    processes = [subprocess.Popen([sys.executable, "-c", BUSY_PROGRAM]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def measure_round(config: Path, steps: int, number: int) -> dict[str, int]:
    """Return the speed of every arrangement; each round starts with another one."""
    names = list(ARRANGEMENTS)
    first = number % len(names)
    speeds = {name: measure_speed(config, name, steps) for name in names[first:] + names[:first]}
    print(json.dumps(speeds), flush=True)
    return {name: speeds[name] for name in names}


def measure_speed(config: Path, arrangement: str, steps: int) -> int:
    """Train for some steps; return the median speed after the first third, which includes one-time work."""
    program, variables = ARRANGEMENTS[arrangement]
    environment = {name: one for name, one in os.environ.items() if name not in ("OMP_NUM_THREADS", "GOMP_SPINCOUNT")}
    environment |= variables
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = [sys.executable, "-c", program, "train", str(config), "--quiet", "--max-steps", str(steps)]
        ended = subprocess.run([*command, "--out", str(run)], env=environment, capture_output=True, text=True)
        if ended.returncode:
            sys.exit(ended.stderr)
        events = map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
        speeds = [event["tokens_per_second"] for event in events if "tokens_per_second" in event]
    return round(statistics.median(speeds[len(speeds) // 3 :]))


def summarize(rounds: list[dict[str, int]]) -> dict[str, dict[str, float]]:
    """Return the median speed of each arrangement, and the median ratio of the chosen one to it."""
    return {
        name: {
            "target_tokens_per_second": statistics.median(each[name] for each in rounds),
            "ratio": round(statistics.median(each[CHOSEN] / each[name] for each in rounds), 2),
        }
        for name in ARRANGEMENTS
    }


def write_table(readme: Path, summary: Mapping[str, Any]) -> None:
    """Replace the table of the README."""
    rows = [
        "| | " + " | ".join(f"{load} | ratio" for load in summary) + " |",
        "|---" + "|---:|---:" * len(summary) + "|",
    ]
    for name in ARRANGEMENTS:
        found = [summary[load][name] for load in summary]
        cells = [f"{one['target_tokens_per_second']:,.0f} | {one['ratio']:.2f}" for one in found]
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    lines = readme.read_text(encoding="utf-8").splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("|"))
    rest = [line for line in lines[first:] if not line.startswith("|")]
    readme.write_text("\n".join([*lines[:first], *rows, *rest]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
