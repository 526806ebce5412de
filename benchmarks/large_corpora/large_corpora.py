"""Measure preparing, reading and resuming on a random corpus of ten million lines.

    python -m benchmarks.large_corpora.large_corpora make /tmp/corpus --lines 10000000
    python -m benchmarks.large_corpora.large_corpora watch dragoman data prepare ... --out prepared
    python -m benchmarks.large_corpora.large_corpora read prepared
    python -m benchmarks.large_corpora.large_corpora read prepared --whole
    python -m benchmarks.large_corpora.large_corpora resume prepared --work /tmp/resume
    python -m benchmarks.large_corpora.large_corpora plot

`make` draws words by Zipf's law and sentences of 3 to 17 words. `watch` records the memory of a command. `read` times
and watches the reading of batches. `resume` trains two steps, saves the checkpoint again as one of step 1,000,000 at
the position in the data that a million steps lead to, and times `dragoman train --resume` until the next step is
logged. The commands write to results.json.
"""

import argparse
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from benchmarks.collect_runs import read_results, update_results
from dragoman.data.batching.token_budget_batches import PLAN_WINDOW, pair_stream, part_rows, plan_batches
from dragoman.data.datasets.parallel import TokenStore
from dragoman.training.checkpoint import CheckpointStore
from dragoman.yaml_files import read_yaml

RESULTS = Path(__file__).parent / "results.json"
WORDS = 60_000
EXPONENT = 1.1
BLOCK = 50_000
"""Sentences that are drawn at a time."""
LETTERS = "etaoinshrdlucmfwypvbgkjqxz"
STEP = 1_000_000
RESUME_SETTINGS = {
    "preset": "nano",
    "training.max_steps": STEP + 100,
    "training.validate_every_epochs": 1000,
    "training.log_every": 1,
    "training.batch_tokens": 4096,
}


def main() -> None:
    arguments = parse_arguments()
    arguments.run_command(arguments)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    parsers = {}
    for name, function in (("make", make), ("watch", watch), ("read", read), ("resume", resume), ("plot", plot)):
        parsers[name] = commands.add_parser(name, help=function.__doc__)
        parsers[name].set_defaults(run_command=function)
    for name in ("make", "read", "resume"):
        parsers[name].add_argument("folder", type=Path)
    parsers["make"].add_argument("--lines", type=int, default=10_000_000)
    parsers["make"].add_argument("--shards", type=int, default=20)
    parsers["make"].add_argument("--repeated", type=float, default=0.02, help="share of repeated lines")
    parsers["make"].add_argument("--processes", type=int, default=1)
    parsers["watch"].add_argument("command", nargs=argparse.REMAINDER)
    parsers["read"].add_argument("--whole", action="store_true", help="plan an epoch at once")
    parsers["read"].add_argument("--batches", type=int, default=20_000)
    parsers["read"].add_argument("--batch-tokens", type=int, default=4096)
    parsers["resume"].add_argument("--work", type=Path, required=True)
    parsers["resume"].add_argument("--only", choices=["save", "resume"], help="one part; both by default")
    parsers["resume"].add_argument("--repeats", type=int, default=3)
    return parser.parse_args()


def random_words(seed: int = 7) -> list[str]:
    """Return different random words, short ones first."""
    generator = np.random.default_rng(seed)
    found: dict[str, None] = {}
    while len(found) < WORDS:
        length = 2 + len(found) // 6000 + int(generator.integers(0, 4))
        drawn = np.minimum(generator.geometric(0.12, size=length) - 1, len(LETTERS) - 1)
        found["".join(LETTERS[letter] for letter in drawn)] = None
    return list(found)


def random_sentences(
    count: int, generator: np.random.Generator, vocabulary: list[str], repeated: float
) -> list[list[str]]:
    """Return sentences as lists of words, drawn by Zipf's law; a share repeats earlier ones."""
    ranks = np.arange(1, WORDS + 1, dtype=np.float64) ** -EXPONENT
    cumulative = np.cumsum(ranks / ranks.sum())
    lengths = generator.integers(3, 18, size=count)
    drawn = np.minimum(np.searchsorted(cumulative, generator.random(int(lengths.sum()))), WORDS - 1).tolist()
    sentences, start = [], 0
    again = generator.random(count) < repeated
    for length, repeats in zip(lengths.tolist(), again.tolist(), strict=True):
        if repeats and sentences:
            sentences.append(sentences[len(sentences) // 2])
        else:
            sentences.append([vocabulary[word] for word in drawn[start : start + length]])
        start += length
    return sentences


def write_shard(number: int, folder: Path, count: int, repeated: float) -> None:
    """Write one pair of files; the target has every source word spelled backwards."""
    vocabulary = random_words()
    reversed_words = {word: word[::-1] for word in vocabulary}
    generator = np.random.default_rng([number, 11])
    paths = [folder / f"synthetic.{number:02d}.{side}.gz" for side in ("source", "target")]
    with gzip.open(paths[0], "wb", 1) as source, gzip.open(paths[1], "wb", 1) as target:
        for start in range(0, count, BLOCK):
            sentences = random_sentences(min(BLOCK, count - start), generator, vocabulary, repeated)
            source.write("".join(f"{' '.join(one)}.\n" for one in sentences).encode())
            target.write(
                "".join(f"{' '.join([reversed_words[word] for word in one])}.\n" for one in sentences).encode()
            )


def make(arguments: argparse.Namespace) -> None:
    """Write a random parallel corpus in compressed shards."""
    arguments.folder.mkdir(parents=True, exist_ok=True)
    count = arguments.lines // arguments.shards
    write = partial(write_shard, folder=arguments.folder, count=count, repeated=arguments.repeated)
    with ProcessPoolExecutor(arguments.processes) as pool:
        list(pool.map(write, range(arguments.shards)))


def memory_sample(process: int) -> dict[str, float]:
    """Return the megabytes of a process by kind, or nothing if it has ended.

    `anon` is its own memory; `file` is mapped files, whose pages the system takes back.
    """
    try:
        rows = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    named = {row.split(":")[0]: row.split()[1] for row in rows if row.startswith("Rss")}
    return {name[3:].lower(): round(int(size) / 1024, 1) for name, size in named.items()}


def columns(samples: list[dict[str, float]]) -> dict[str, list[float | None]]:
    """Return samples as one list for each quantity."""
    return {name: [one.get(name) for one in samples] for name in ("seconds", "anon", "file")}


def watch(arguments: argparse.Namespace) -> None:
    """Run a command and record the memory of its process twice a second."""
    start, samples = time.monotonic(), []
    process = subprocess.Popen(arguments.command)
    while process.poll() is None:
        if sample := memory_sample(process.pid):
            samples.append({"seconds": round(time.monotonic() - start, 1), **sample})
        time.sleep(0.5)
    update_results(RESULTS, {"prepare": {"memory_mb": columns(samples)}})
    if process.returncode:
        sys.exit(process.returncode)


def read(arguments: argparse.Namespace) -> None:
    """Read batches of a prepared corpus: time to the first one, speed and memory."""
    before = memory_sample(os.getpid())
    start = time.monotonic()
    store = TokenStore(arguments.folder / "ids")
    opened = time.monotonic() - start
    stream = pair_stream(
        store, budget=arguments.batch_tokens, seed=1, window=len(store) if arguments.whole else PLAN_WINDOW
    )
    planned = time.monotonic() - start - opened
    samples, tokens = [], 0
    for number in range(arguments.batches):
        tokens += next(stream).target_count
        if number % 100 == 0:
            samples.append(
                {"seconds": round(time.monotonic() - start, 2), "batch": number, **memory_sample(os.getpid())}
            )
    seconds = time.monotonic() - start - opened - planned
    result = {
        "pairs": len(store),
        "batches": arguments.batches,
        "whole": arguments.whole,
        "before": before,
        "seconds_to_open": round(opened, 3),
        "seconds_to_plan": round(planned, 3),
        "batches_per_second": round(arguments.batches / seconds, 1),
        "target_tokens_per_second": round(tokens / seconds),
        "position": stream.position,
        "memory_mb": columns(samples),
    }
    update_results(RESULTS, {"read_whole" if arguments.whole else "read_in_parts": result})
    print({name: value for name, value in result.items() if name != "memory_mb"})


def train_two_steps(prepared: Path, run: Path) -> None:
    """Train for a few steps and stop, which saves a checkpoint."""
    options = [part for key, value in RESUME_SETTINGS.items() for part in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "dragoman", "train", "--prepared", str(prepared), "--out", str(run), *options]
    process = subprocess.Popen(command)
    while not logged_steps(run):
        assert process.poll() is None, "the training ended before its first step"
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    process.wait()


def logged_steps(run: Path) -> list[int]:
    """Return the steps in the metrics of a run."""
    path = run / "metrics.jsonl"
    rows = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    events = map(json.loads, rows)
    return [row["step"] for row in events if "loss" in row and "scores" not in row]


def position_of(step: int, store: TokenStore, *, seed: int, budget: int) -> dict[str, int]:
    """Return the position in the data after this many steps of one batch."""
    parts, left, epoch = max(1, -(-len(store) // PLAN_WINDOW)), step, 0
    while True:
        for part in range(parts):
            rows = part_rows(len(store), part, parts=parts, seed=seed, epoch=epoch)
            lengths = store.source.lengths[rows], store.target.lengths[rows]
            batches = len(plan_batches(*lengths, budget=budget, seed=seed, epoch=epoch, part=part))
            if left < batches:
                return {"epoch": epoch, **({"part": part} if part else {}), "batch": left}
            left -= batches
        epoch += 1


def save_at_step(prepared: Path, run: Path) -> dict[str, int]:
    """Save the last checkpoint again as one of step 1,000,000."""
    training = read_yaml(run / "config.yaml")["training"]
    store = TokenStore(prepared / "ids")
    position = position_of(STEP, store, seed=training["seed"], budget=training["batch_tokens"])
    checkpoints = CheckpointStore(run / "checkpoints", keep=training["keep_checkpoints"])
    last = checkpoints.load(checkpoints.steps()[-1])
    checkpoints.save(replace(last, progress=last.progress.replace(step=STEP, position=position)))
    return position


def time_resume(run: Path, work: Path, *, workers: int) -> float:
    """Return the seconds from the start of the command to the end of its first step, in a copy of the run."""
    copy = work / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(run, copy)
    config = (copy / "config.yaml").read_text(encoding="utf-8")
    config = config.replace("num_workers: auto", f"num_workers: {workers}")
    (copy / "config.yaml").write_text(config, encoding="utf-8")
    start = time.monotonic()
    process = subprocess.Popen([sys.executable, "-m", "dragoman", "train", "--resume", str(copy)])
    while STEP + 1 not in logged_steps(copy):
        assert process.poll() is None, "the training ended before its first step"
        time.sleep(0.02)
    seconds = time.monotonic() - start
    process.send_signal(signal.SIGINT)
    process.wait()
    return round(seconds, 2)


def resume(arguments: argparse.Namespace) -> None:
    """Time resuming at step 1,000,000 of a prepared corpus."""
    run = arguments.work / "run"
    if arguments.only != "resume":
        shutil.rmtree(arguments.work, ignore_errors=True)
        arguments.work.mkdir(parents=True)
        train_two_steps(arguments.folder, run)
        start = time.monotonic()
        position = save_at_step(arguments.folder, run)
        result = {"position": position, "seconds_to_find_position": round(time.monotonic() - start, 1)}
        (arguments.work / "checkpoint.json").write_text(json.dumps(result), encoding="utf-8")
    if arguments.only != "save":
        result = json.loads((arguments.work / "checkpoint.json").read_text(encoding="utf-8"))
        result |= {
            "pairs": len(TokenStore(arguments.folder / "ids")),
            "step": STEP,
            "cores": os.cpu_count(),
            "seconds_to_first_step": {
                f"{workers} workers": [
                    time_resume(run, arguments.work, workers=workers) for _ in range(arguments.repeats)
                ]
                for workers in (1, 2)
            },
        }
        update_results(RESULTS, {"resume": result})
        print(result)


def plot(_: argparse.Namespace) -> None:
    """Plot the memory of reading and of preparing over time."""
    results = read_results(RESULTS)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    plot_memory(left, results["read_in_parts"], "planned in parts", "tab:blue")
    plot_memory(left, results["read_whole"], "planned whole", "tab:orange")
    left.set_title(f"reading batches of {results['read_in_parts']['pairs'] / 1e6:.1f} million pairs")
    plot_memory(right, results["prepare"], "data prepare", "tab:green")
    right.set_title("preparing 10 million lines")
    for axes in (left, right):
        axes.set(xlabel="seconds", ylabel="MB")
        axes.set_ylim(0, 1.4 * axes.get_ylim()[1])  # space for the legend
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8, loc="upper right")
    figure.savefig(RESULTS.parent / "memory.png", dpi=110)


def plot_memory(axes: Any, result: dict[str, Any], label: str, color: str) -> None:
    """Plot a process's own memory, and the same with pages of mapped files."""
    memory = result["memory_mb"]
    axes.plot(memory["seconds"], memory["anon"], color=color, label=f"{label}: own memory")
    both = [own + file for own, file in zip(memory["anon"], memory["file"], strict=True)]
    axes.plot(memory["seconds"], both, color=color, linestyle=":", label=f"{label}: with pages of mapped files")


if __name__ == "__main__":
    main()
