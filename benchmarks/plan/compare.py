"""Compare the estimates of `dragoman plan` with the time and peak memory of `dragoman train`.

    python -m benchmarks.plan.compare --data FOLDER CASE...

CASE is a key of CASES; its entry in results.json is replaced. Nothing else should run meanwhile. Memory is the sum of
the peaks (`VmHWM`, Linux) of all processes of the command.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.collect_runs import update_results

HERE = Path(__file__).parent
EXAMPLES = HERE.parent.parent / "examples"
RESULTS = HERE / "results.json"
CASES = {
    "transformer": ("multi30k_en_de.yaml", "training.max_epochs=2", "training.schedule.warmup=200"),
    "lstm": ("multi30k_en_de_lstm.yaml", "training.max_steps=400"),
    "language model": ("shakespeare.yaml", "training.max_steps=800"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("cases", nargs="+", choices=list(CASES))
    arguments = parser.parse_args()
    for case in arguments.cases:
        file, *changes = CASES[case]
        settings = [str(EXAMPLES / file), "--data", str(arguments.data)]
        settings += [part for change in changes for part in ("--set", change)]
        start = time.perf_counter()
        planned = json.loads(_run([*_dragoman("plan"), *settings, "--json"]))
        planning = time.perf_counter() - start
        with tempfile.TemporaryDirectory() as folder:
            seconds, peaks = measure([*_dragoman("train"), *settings, "--out", f"{folder}/run"])
        result = compare_plan(file, changes, planned, planning, seconds, peaks)
        update_results(RESULTS, {case: result})
        print(case, {key: value for key, value in result.items() if key != "plan"})


def compare_plan(
    file: str, changes: list[str], planned: dict[str, Any], planning: float, seconds: float, peaks: list[int]
) -> dict[str, Any]:
    """Return the plan, the training and the errors of the plan in percent."""
    time_planned, memory_planned = planned["time"]["total"], planned["memory"]["total"]
    return {
        "date": date.today().isoformat(),
        "recipe": [file, *changes],
        "device": planned["device"],
        "planning_seconds": round(planning, 1),
        "seconds": {"planned": round(time_planned, 1), "taken": round(seconds, 1)},
        "bytes": {"planned": memory_planned, "taken": sum(peaks), "processes": len(peaks)},
        "time_off_percent": round(100 * (time_planned / seconds - 1), 1),
        "memory_off_percent": round(100 * (memory_planned / sum(peaks) - 1), 1),
        "plan": planned,
    }


def measure(command: list[str]) -> tuple[float, list[int]]:
    """Return the seconds of a command, and the peak memory of each process above 64 MiB."""
    start, peaks = time.perf_counter(), {}
    process = subprocess.Popen(command)
    while process.poll() is None:
        for one in _process_tree(process.pid):
            peaks[one] = max(peaks.get(one, 0), _peak(one))
        time.sleep(0.05)
    seconds = time.perf_counter() - start
    if process.returncode:
        sys.exit(process.returncode)
    return seconds, [peak for peak in peaks.values() if peak > 2**26]


def _process_tree(process: int) -> list[int]:
    found = [process]
    try:
        for task in Path(f"/proc/{process}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += _process_tree(int(child))
    except OSError:
        return found
    return found


def _peak(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)


def _dragoman(verb: str) -> list[str]:
    return [sys.executable, "-m", "dragoman", verb]


def _run(command: list[str]) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
    main()
