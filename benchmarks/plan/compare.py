"""Plans a training by `dragoman plan`, trains by `dragoman train`, and puts time and peak memory of both side by side.

    python benchmarks/plan/compare.py --data FOLDER CASE...

CASE is one of those below; its numbers take their place in `results.json`. Nothing else should run meanwhile. Memory is
the sum of the peaks (`VmHWM`, Linux) of all processes of the command.
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

HERE = Path(__file__).parent
EXAMPLES = HERE.parent.parent / "examples"
RESULTS = HERE / "results.json"
CASES = {
    "transformer": ("multi30k_en_de.yaml", "training.length.count=2", "training.schedule.warmup=200"),
    "lstm": ("multi30k_en_de_lstm.yaml", "training.length.count=400"),
    "language model": ("shakespeare.yaml", "training.length.count=800"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("cases", nargs="+", choices=list(CASES))
    asked = parser.parse_args()
    for case in asked.cases:
        file, *changes = CASES[case]
        settings = [str(EXAMPLES / file), "--data", str(asked.data)]
        settings += [part for change in changes for part in ("--set", change)]
        began = time.perf_counter()
        planned = json.loads(_output([*_dragoman("plan"), *settings, "--json"]))
        planning = time.perf_counter() - began
        with tempfile.TemporaryDirectory() as folder:
            seconds, peaks = watched([*_dragoman("train"), *settings, "--out", f"{folder}/run"])
        keep({case: row(file, changes, planned, planning, seconds, peaks)})


def row(
    file: str, changes: list[str], planned: dict[str, Any], planning: float, seconds: float, peaks: list[int]
) -> dict[str, Any]:
    """Both sides of a case, and by how much the plan is off."""
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


def keep(rows: dict[str, Any]) -> None:
    """Put the rows among those that are there."""
    before = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps(before | rows, indent=2) + "\n")
    for name, one in rows.items():
        print(name, {key: value for key, value in one.items() if key != "plan"})


def watched(command: list[str]) -> tuple[float, list[int]]:
    """The seconds of a command, and the peak of memory of each of its processes that takes any to speak of."""
    began, peaks = time.perf_counter(), {}
    process = subprocess.Popen(command)
    while process.poll() is None:
        for one in _family(process.pid):
            peaks[one] = max(peaks.get(one, 0), _peak(one))
        time.sleep(0.05)
    seconds = time.perf_counter() - began
    if process.returncode:
        sys.exit(process.returncode)
    return seconds, [peak for peak in peaks.values() if peak > 2**26]


def _family(process: int) -> list[int]:
    found = [process]
    try:
        for task in Path(f"/proc/{process}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += _family(int(child))
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


def _output(command: list[str]) -> str:
    answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return answer.stdout


if __name__ == "__main__":
    main()
