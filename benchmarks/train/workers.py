"""How many target tokens a second a training reaches by workers and threads, alternating, from the command itself.

    python benchmarks/train/workers.py --data FOLDER --out benchmarks/train/workers.json

FOLDER is that of `examples/multi30k_en_de.yaml`. Each training is stopped after `--updates`; its speed is the median of
the reports after the first third, which holds what is done once.
"""

import argparse
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

RECIPE = Path(__file__).parents[2] / "examples" / "multi30k_en_de.yaml"
WAYS = {"1 worker, 1 thread": (1, 1), "1 worker, 2 threads": (1, 2), "2 workers, 1 thread each": (2, 2)}
REPORT = 20


def main() -> None:
    arguments = parse()
    speeds: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(arguments.rounds):
        for way, (workers, threads) in WAYS.items():
            speeds[way].append(speed(arguments, workers=workers, threads=threads))
            print(f"{way}: {speeds[way][-1]:,.0f} target tokens/s", flush=True)
    facts = {
        "torch": version("torch"),
        "processor": processor(),
        "recipe": RECIPE.name,
        "set": arguments.set,
        "updates": arguments.updates,
        "target_tokens_per_second": {way: [round(one) for one in found] for way, found in speeds.items()},
    }
    arguments.out.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--updates", type=int, default=160)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], help="another setting, as for dragoman train")
    return parser.parse_args()


def speed(arguments: argparse.Namespace, *, workers: int, threads: int) -> float:
    """Train for so many updates, and read what the run reported."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        chosen = [f"training.workers={workers}", f"training.report={REPORT}", *arguments.set]
        options = [part for one in chosen for part in ("--set", one)]
        command = [sys.executable, "-m", "dragoman", "train", RECIPE, "--data", arguments.data, "--out", run, *options]
        environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
        stop_after(list(map(str, command)), environment, updates=arguments.updates)
        lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    reports = [event for event in map(json.loads, lines) if event["event"] == "updated"]
    return statistics.median(event["tokens_per_second"] for event in reports[len(reports) // 3 :])


def stop_after(command: list[str], environment: dict[str, str], *, updates: int) -> None:
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith(f"update {updates:,}/"):
                process.send_signal(signal.SIGTERM)


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.processor()}, {len(names) or os.cpu_count()} cores"


if __name__ == "__main__":
    main()
