"""Measure training speed next to JoeyNMT, eole and Hugging Face, and by workers and threads.

    python -m benchmarks.training_speed.training_speed compare --data FOLDER --environments FOLDER --name "my machine"
    python -m benchmarks.training_speed.training_speed workers --data FOLDER

`--data` is the folder of `examples/multi30k_en_de.yaml`; `--environments` holds `joeynmt` and `eole`, virtual
environments made as the README says. Hugging Face and our command run with this interpreter. `compare` first trains
`--probe` steps in every variant of each program: one thread or two, float32 or bfloat16. Each round then trains
`--steps` in the fastest variant of each program, in random order. A later call with the same name keeps the probe and
adds rounds. `workers` alternates trainings of our command with one or two workers and threads. Both write to
results.json.
"""

import argparse
import gzip
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from benchmarks.collect_runs import read_results, update_results
from benchmarks.training_speed.train_with_dragoman import RECIPE, stop_after

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
SHARED = {
    "size": 128,
    "feed_forward": 256,
    "layers": 4,
    "heads": 4,
    "dropout": 0.1,
    "label_smoothing": 0.1,
    "batch_tokens": 4096,
    "learning_rate": 0.003,
    "warmup": 1000,
    "betas": [0.9, 0.98],
    "clip": 1.0,
    "log_every": 5,
}
"""Settings of all programs; dropout applies to embeddings, sublayers and feed-forward layers."""
INSTRUCTION_SETS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
MEMORY_INTERVAL = 0.2
"""Seconds between two samples of memory."""
MEBIBYTE = 2**20
WORKERS = {"1 worker, 1 thread": (1, 1), "1 worker, 2 threads": (1, 2), "2 workers, 1 thread each": (2, 2)}
WORKER_LOG_EVERY = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    peers, workers = commands.add_parser("compare"), commands.add_parser("workers")
    peers.set_defaults(run_command=compare)
    peers.add_argument("--environments", type=Path, required=True)
    peers.add_argument("--steps", type=int, default=60)
    peers.add_argument("--probe", type=int, default=15, help="steps in each variant, to find the fastest")
    peers.add_argument("--name", required=True, help="entry of results.json")
    workers.set_defaults(run_command=compare_workers)
    workers.add_argument("--steps", type=int, default=160)
    workers.add_argument("--set", action="append", default=[], help="another setting, as for dragoman train")
    for command in (peers, workers):
        command.add_argument("--data", type=Path, required=True)
        command.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    arguments.run_command(arguments)


def compare(arguments: argparse.Namespace) -> None:
    """Compare with JoeyNMT, eole and Hugging Face."""
    if arguments.steps % SHARED["log_every"] or arguments.probe % SHARED["log_every"]:
        sys.exit(f"--steps and --probe must be multiples of {SHARED['log_every']}, the interval of log lines")
    variants = build_variants(arguments.environments)
    result = read_results(RESULTS).get(arguments.name) or describe_machine(arguments) | {"probe": {}, "rounds": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(arguments.data, folder)
        for variant in [name for name in variants if name not in result["probe"]]:
            result["probe"][variant] = train(variants[variant], folder, steps=arguments.probe)
            keep(arguments.name, result)
        best = fastest_variants(result["probe"])
        for _ in range(arguments.rounds):
            order = random.Random(len(result["rounds"])).sample(list(best), len(best))
            turns = {program: train(variants[best[program]], folder, steps=arguments.steps) for program in order}
            result["rounds"].append({program: turns[program] for program in best})
            keep(arguments.name, result | {"fastest": best, "summary": summarize(result["rounds"])})


def keep(name: str, result: Mapping[str, Any]) -> None:
    update_results(RESULTS, {name: result})
    print(json.dumps({key: result[key] for key in ("probe", "summary") if key in result}, indent=1), flush=True)


@dataclass(frozen=True)
class Variant:
    """One way to run a program: interpreter, script, options, and a number of threads if it is fixed."""

    python: Path
    script: str
    options: tuple[str, ...] = ()
    threads: int | None = None


def build_variants(environments: Path) -> dict[str, Variant]:
    """Return all variants by name; a slash separates the program from how it runs."""
    own = Path(sys.executable)
    found = {
        "dragoman": Variant(own, "train_with_dragoman.py"),
        "dragoman bfloat16": Variant(own, "train_with_dragoman.py", ("--set", "training.precision=bfloat16")),
    }
    for threads in (1, 2):
        joeynmt, eole = (environments / name / "bin" / "python" for name in ("joeynmt", "eole"))
        found[f"joeynmt/{threads}"] = Variant(joeynmt, "train_with_joeynmt.py", (), threads)
        for name, python in (("eole", eole), ("huggingface", own)):
            found[f"{name}/{threads}"] = Variant(python, f"train_with_{name}.py", (), threads)
            found[f"{name}/{threads} bfloat16"] = Variant(python, f"train_with_{name}.py", ("--bfloat16",), threads)
    return found


def prepare(data: Path, folder: Path) -> None:
    """Write the texts in the tokens of our tokenizer, its vocabulary, and the shared settings."""
    from dragoman.data.tokenizers import BpeConfig, Tokenizer

    recipe = yaml.safe_load(RECIPE.read_text(encoding="utf-8"))
    train = recipe["data"]["train"]
    texts = {side: read_lines(data / train[side]) for side in ("source", "target")}
    tokenizer = Tokenizer.train(lambda: zip(*texts.values(), strict=True), BpeConfig(**recipe["tokenizer"]))
    for name, side in (("source", tokenizer.source), ("target", tokenizer.target)):
        write_lines(
            folder / f"train.{name}", (" ".join(side.ids_to_tokens(ids)) for ids in side.encode_batch(texts[name]))
        )
    write_lines(folder / "vocabulary.txt", tokenizer.target.ids_to_tokens(range(4, len(tokenizer.target))))
    settings = SHARED | {"data": str(data.resolve()), "pairs": len(texts["source"])}
    (folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")


def read_lines(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line.removesuffix("\n") for line in file]


def write_lines(path: Path, texts: Iterable[str]) -> None:
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


def train(variant: Variant, folder: Path, *, steps: int) -> dict[str, Any]:
    """Train for some steps, and return speed, losses and peak memory of the program and its workers."""
    out = folder / "reports.json"
    command = [variant.python, HERE / variant.script, folder, "--steps", steps, "--out", out, *variant.options]
    environment = (
        dict(os.environ) if variant.threads is None else os.environ | {"OMP_NUM_THREADS": str(variant.threads)}
    )
    with (folder / "log.txt").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(list(map(str, command)), env=environment, stdout=log, stderr=subprocess.STDOUT)
        memory = MemoryMonitor(process.pid)
        memory.start()
        process.wait()
        memory.join()
    if process.returncode:
        raise SystemExit(
            f"{variant.script} ended with {process.returncode}: {(folder / 'log.txt').read_text()[-2000:]}"
        )
    reports = json.loads(out.read_text(encoding="utf-8"))
    return {
        "tokens_per_second": round(median_speed(reports)),
        "mebibytes": round(memory.peak / MEBIBYTE),
        "resident_mebibytes": round(memory.peak_resident / MEBIBYTE),
        "losses": {str(report["step"]): round(report["loss"], 3) for report in reports},
    }


def median_speed(reports: Sequence[Mapping[str, float]]) -> float:
    """Return the median after the first third, which includes one-time work."""
    return statistics.median(report["tokens_per_second"] for report in reports[len(reports) // 3 :])


class MemoryMonitor(threading.Thread):
    """Peak memory of a process and its descendants.

    A page that several processes share counts once in `peak`, and once for each of them in `peak_resident`.
    """

    def __init__(self, root: int) -> None:
        super().__init__()
        self.root = root
        self.peak, self.peak_resident = 0, 0

    def run(self) -> None:
        while family := process_tree(self.root):
            shared, resident = (sum(column) for column in zip(*map(memory_of, family), strict=True))
            self.peak, self.peak_resident = max(self.peak, shared), max(self.peak_resident, resident)
            time.sleep(MEMORY_INTERVAL)


def process_tree(root: int) -> list[int]:
    """Return a process and its descendants, without zombies."""
    parents = dict(filter(None, (parent_of(int(one.name)) for one in Path("/proc").iterdir() if one.name.isdigit())))
    found = [root] if root in parents else []
    for one in found:
        found.extend(child for child, parent in parents.items() if parent == one)
    return found


def parent_of(pid: int) -> tuple[int, int] | None:
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return None
    return None if state == "Z" else (pid, int(parent))


def memory_of(pid: int) -> tuple[int, int]:
    """Return the proportional set size and the resident set size of a process in bytes."""
    try:
        rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # the process has ended
        return 0, 0
    sizes = {row.split(":")[0]: int(row.split()[1]) * 1024 for row in rows if row.startswith(("Pss:", "Rss:"))}
    return sizes.get("Pss", 0), sizes.get("Rss", 0)


def fastest_variants(probed: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the fastest variant of each program."""
    best: dict[str, str] = {}
    for name, found in probed.items():
        program = name.split("/")[0]
        if program not in best or found["tokens_per_second"] > probed[best[program]]["tokens_per_second"]:
            best[program] = name
    return best


def summarize(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return medians over the rounds, and the median of the speed ratios of each round."""
    rows: dict[str, Any] = {}
    for name in rounds[0]:
        found = [each[name] for each in rounds]
        rows[name] = {
            key: statistics.median(one[key] for one in found)
            for key in ("tokens_per_second", "mebibytes", "resident_mebibytes")
        }
        for ours in ("dragoman", "dragoman bfloat16"):
            ratios = [each[ours]["tokens_per_second"] / each[name]["tokens_per_second"] for each in rounds]
            rows[name][f"{ours} is as fast, times"] = round(statistics.median(ratios), 2)
    return rows


def describe_machine(arguments: argparse.Namespace) -> dict[str, Any]:
    flags = Path("/proc/cpuinfo").read_text().split()
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "processor": processor_name(),
        "instructions": [name for name in INSTRUCTION_SETS if name in flags],
        "versions": versions(arguments.environments),
        "settings": SHARED,
        "steps": arguments.steps,
    }


def versions(environments: Path) -> dict[str, str]:
    packages = {
        "transformers": (Path(sys.executable), "transformers"),
        "torch": (Path(sys.executable), "torch"),
        **{name: (environments / name / "bin" / "python", name) for name in ("joeynmt", "eole")},
        **{f"torch of {name}": (environments / name / "bin" / "python", "torch") for name in ("joeynmt", "eole")},
    }
    code = "import sys; from importlib.metadata import version; print(version(sys.argv[1]))"
    return {
        name: subprocess.run([python, "-c", code, package], capture_output=True, text=True, check=True).stdout.strip()
        for name, (python, package) in packages.items()
    }


def compare_workers(arguments: argparse.Namespace) -> None:
    """Alternate trainings by numbers of workers and threads."""
    speeds: dict[str, list[float]] = {name: [] for name in WORKERS}
    for _ in range(arguments.rounds):
        for name, (workers, threads) in WORKERS.items():
            speeds[name].append(worker_speed(arguments, workers=workers, threads=threads))
            print(f"{name}: {speeds[name][-1]:,.0f} target tokens/s", flush=True)
    result = {
        "torch": version("torch"),
        "processor": processor_name(),
        "recipe": RECIPE.name,
        "set": arguments.set,
        "steps": arguments.steps,
        "target_tokens_per_second": {name: [round(one) for one in rounds] for name, rounds in speeds.items()},
    }
    update_results(RESULTS, {"workers": result})


def worker_speed(arguments: argparse.Namespace, *, workers: int, threads: int) -> float:
    """Train for some steps, and return the median speed that the run logged."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        chosen = [f"training.num_workers={workers}", f"training.log_every={WORKER_LOG_EVERY}", *arguments.set]
        options = [part for one in chosen for part in ("--set", one)]
        command = [sys.executable, "-m", "dragoman", "train", RECIPE, "--data", arguments.data, "--out", run, *options]
        environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
        stop_after(list(map(str, command)), environment, steps=arguments.steps)
        lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    reports = [event for event in map(json.loads, lines) if "tokens_per_second" in event]
    return statistics.median(event["tokens_per_second"] for event in reports[len(reports) // 3 :])


def processor_name() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.processor()}, {len(names) or os.cpu_count()} cores"


if __name__ == "__main__":
    main()
