"""Measure the peak memory of `dragoman translate` on files of 10,000 lines and of a hundred times as many.

    python -m benchmarks.streaming_memory.streaming_memory FOLDER

FOLDER receives a corpus in a generated language, a `nano` model that is trained on it for a minute, and the files,
which are translated greedily. The peak is that of the process at its end; samples are taken once a second. Writes
results.json and memory.png.
"""

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.collect_runs import update_results

RESULTS = Path(__file__).parent / "results.json"

COUNTS = (10_000, 100_000, 1_000_000)
WORDS = {
    "two": "zwei",
    "dogs": "Hunde",
    "cats": "Katzen",
    "play": "spielen",
    "a": "ein",
    "man": "Mann",
    "sleeps": "schläft",
    "and": "und",
    "small": "kleine",
    "see": "sehen",
    "the": "die",
    "house": "Haus",
}
PAIRS, SHORTEST, LONGEST = 5_000, 2, 9
TRAINING = (
    *("--set", "preset=nano", "--set", "training.max_steps=400"),
    *("--set", "training.validate_every=200", "--set", "training.batch_tokens=1024"),
)
MEBIBYTE = 2**20


def random_sentence(generator: random.Random) -> list[str]:
    return generator.choices(list(WORDS), k=generator.randint(SHORTEST, LONGEST))


def prepare(folder: Path) -> Path:
    """Return the run, which is trained if it is missing."""
    run = folder / "nano"
    if (run / "model.safetensors").exists():
        return run
    generator = random.Random(1)
    sources = [random_sentence(generator) for _ in range(PAIRS)]
    (folder / "train.source").write_text("".join(" ".join(one) + "\n" for one in sources), encoding="utf-8")
    targets = [[WORDS[word] for word in one] for one in sources]
    (folder / "train.target").write_text("".join(" ".join(one) + "\n" for one in targets), encoding="utf-8")
    corpus = ["--source", folder / "train.source", "--target", folder / "train.target"]
    subprocess.run(_dragoman("train", *corpus, "--out", run, *TRAINING), check=True)
    return run


def write_lines(path: Path, count: int) -> None:
    generator = random.Random(2)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(" ".join(random_sentence(generator)) + "\n" for _ in range(count))


def measure(run: Path, source: Path, target: Path) -> dict[str, Any]:
    """Return seconds and memory of one translation from file to file, start included."""
    process = subprocess.Popen(
        _dragoman("translate", run, "--input", source, "--output", target, "--beam", 1, "--device", "cpu")
    )
    start, samples = time.monotonic(), []
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            break
        samples.append([round(time.monotonic() - start, 1), round(_resident(process.pid) / MEBIBYTE, 1)])
        time.sleep(1)
    seconds = time.monotonic() - start
    if process.returncode:
        raise SystemExit(f"translating {source} ended with {process.returncode}")
    scale = 1 if platform.system() == "Darwin" else 1024
    return {
        "seconds": round(seconds, 1),
        "peak_mib": round(usage.ru_maxrss * scale / MEBIBYTE, 1),
        "memory_mib": {"seconds": [one for one, _ in samples], "resident": [one for _, one in samples]},
    }


def _resident(pid: int) -> int:
    """Return the resident bytes of a process, or 0 if they are unknown."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _dragoman(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "dragoman", *map(str, arguments)]


def report(results: list[dict[str, Any]]) -> dict[str, Any]:
    machine = f"{platform.machine()}, {len(os.sched_getaffinity(0))} of {os.cpu_count()} cores"
    return {"date": datetime.now(UTC).date().isoformat(), "machine": machine, "results": results}


def plot(results: list[dict[str, Any]]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    axes = figure.subplots()
    for result in results:
        seconds, memory = zip(
            *[pair for pair in zip(*result["memory_mib"].values(), strict=True) if pair[1]], strict=True
        )
        axes.plot(seconds, memory, label=f"{result['lines']:,} lines, peak {result['peak_mib']:.0f} MiB")
    axes.set(xscale="log", xlabel="seconds", ylabel="MiB in memory", ylim=(0, None))
    axes.legend(loc="lower right")
    axes.grid(alpha=0.3)
    figure.savefig(RESULTS.parent / "memory.png", dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lines", type=int, nargs="+", default=COUNTS)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    run, results = prepare(arguments.folder), []
    for count in arguments.lines:
        source, target = arguments.folder / f"{count}.source", arguments.folder / f"{count}.target"
        write_lines(source, count)
        result = {"lines": count, **measure(run, source, target)}
        with target.open(encoding="utf-8") as file:
            assert sum(1 for _ in file) == count, "every line has a translation"
        results.append(result)
        print(json.dumps({key: value for key, value in result.items() if key != "memory_mib"}), flush=True)
        update_results(RESULTS, report(results))
    plot(results)


if __name__ == "__main__":
    main()
