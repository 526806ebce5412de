"""Peak memory of `dragoman translate` on files of 10,000 lines and of a hundred times as many.

    python benchmarks/decode/memory.py FOLDER --output memory.json --plot memory.png

Into FOLDER goes what is made for it: a corpus in a made-up language, a `nano` model that learns it for a minute, and
the files, whose lines it translates greedily. The process is looked at from outside: its greatest memory by what the
system accounts to it at its end, and its memory meanwhile once a second.
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
    *("--set", "preset=nano", "--set", "training.length={kind: updates, count: 400}"),
    *("--set", "training.interval={kind: updates, count: 200}", "--set", "training.batch_tokens=1024"),
)
MEBIBYTE = 2**20


def sentence(generator: random.Random) -> list[str]:
    return generator.choices(list(WORDS), k=generator.randint(SHORTEST, LONGEST))


def prepare(folder: Path) -> Path:
    """The run, trained if it is not there yet."""
    run = folder / "nano"
    if (run / "model.safetensors").exists():
        return run
    generator = random.Random(1)
    sources = [sentence(generator) for _ in range(PAIRS)]
    (folder / "train.source").write_text("".join(" ".join(one) + "\n" for one in sources), encoding="utf-8")
    targets = [[WORDS[word] for word in one] for one in sources]
    (folder / "train.target").write_text("".join(" ".join(one) + "\n" for one in targets), encoding="utf-8")
    corpus = ["--source", folder / "train.source", "--target", folder / "train.target"]
    subprocess.run(_dragoman("train", *corpus, "--out", run, *TRAINING), check=True)
    return run


def write_lines(path: Path, count: int) -> None:
    generator = random.Random(2)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(" ".join(sentence(generator)) + "\n" for _ in range(count))


def measured(run: Path, source: Path, target: Path) -> dict[str, Any]:
    """Seconds and memory of one translation from file to file, start-up included."""
    process = subprocess.Popen(
        _dragoman("translate", run, "--input", source, "--output", target, "--beam", 1, "--device", "cpu")
    )
    began, samples = time.monotonic(), []
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            break
        samples.append([round(time.monotonic() - began, 1), round(_resident(process.pid) / MEBIBYTE, 1)])
        time.sleep(1)
    seconds = time.monotonic() - began
    if process.returncode:
        raise SystemExit(f"translating {source} ended with {process.returncode}")
    scale = 1 if platform.system() == "Darwin" else 1024
    return {
        "seconds": round(seconds, 1),
        "peak_mib": round(usage.ru_maxrss * scale / MEBIBYTE, 1),
        "samples": samples,
    }


def _resident(pid: int) -> int:
    """Bytes of memory that a process has now; 0 where the system does not tell, or it has just ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _dragoman(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "dragoman", *map(str, arguments)]


def _report(results: list[dict[str, Any]]) -> dict[str, Any]:
    machine = f"{platform.machine()}, {len(os.sched_getaffinity(0))} of {os.cpu_count()} cores"
    return {"date": datetime.now(UTC).date().isoformat(), "machine": machine, "results": results}


def draw(results: list[dict[str, Any]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    axes = figure.subplots()
    for result in results:
        seconds, memory = zip(*[one for one in result["samples"] if one[1]], strict=True)
        axes.plot(seconds, memory, label=f"{result['lines']:,} lines, peak {result['peak_mib']:.0f} MiB")
    axes.set(xscale="log", xlabel="seconds", ylabel="MiB in memory", ylim=(0, None))
    axes.legend(loc="lower right")
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lines", type=int, nargs="+", default=COUNTS)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--plot", type=Path)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    run, results = prepare(given.folder), []
    for count in given.lines:
        source, target = given.folder / f"{count}.source", given.folder / f"{count}.target"
        write_lines(source, count)
        result = {"lines": count, **measured(run, source, target)}
        with target.open(encoding="utf-8") as file:
            assert sum(1 for _ in file) == count, "a line came out for every line that went in"
        results.append(result)
        print(json.dumps({key: value for key, value in result.items() if key != "samples"}), flush=True)
        if given.output is not None:
            given.output.write_text(json.dumps(_report(results)) + "\n")
    if given.plot is not None:
        draw(results, given.plot)


if __name__ == "__main__":
    main()
