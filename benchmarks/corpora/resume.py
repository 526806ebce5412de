"""How long it takes `dragoman train --resume` at update 1,000,000 of a large prepared corpus to end its next update.

A training of a small model is stopped after a few updates. Its last checkpoint is read and saved again by the program's
own functions as one of update 1,000,000; the place in the data is the one that a million updates lead to, counted epoch
by epoch. Then the run is resumed as a process, from its start to the line of update 1,000,001 in metrics.jsonl.

    python benchmarks/corpora/resume.py prepared --work /tmp/resume --out resume.json
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from dragoman.config import read_yaml
from dragoman.data.batching.token_batches import WINDOW, plan, rows_of_part
from dragoman.data.datasets.parallel import TokenStore
from dragoman.training.checkpoint import Checkpoints

UPDATE = 1_000_000
SETTINGS = {
    "preset": "nano",
    "training.length": f"{{kind: updates, count: {UPDATE + 100}}}",
    "training.interval": "{kind: epochs, count: 1000}",
    "training.report": 1,
    "training.batch_tokens": 4096,
}


def begin(prepared: Path, run: Path) -> None:
    """Train for a few updates and stop, which saves."""
    options = [part for key, value in SETTINGS.items() for part in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "dragoman", "train", "--prepared", str(prepared), "--out", str(run), *options]
    process = subprocess.Popen(command)
    while not updates(run):
        assert process.poll() is None, "the training ended before its first update"
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    process.wait()


def updates(run: Path) -> list[int]:
    """The updates that are in the metrics of a run."""
    path = run / "metrics.jsonl"
    rows = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    found = [json.loads(row) for row in rows]
    return [row["update"] for row in found if "loss" in row and "scores" not in row]


def position_of(update: int, store: TokenStore, *, seed: int, budget: int) -> dict[str, int]:
    """The place of the first batch that is not learnt from yet, one batch an update."""
    parts, left, epoch = max(1, -(-len(store) // WINDOW)), update, 0
    while True:
        for part in range(parts):
            rows = rows_of_part(len(store), part, parts=parts, seed=seed, epoch=epoch)
            lengths = store.source_lengths[rows], store.target_lengths[rows]
            batches = len(plan(*lengths, budget=budget, seed=seed, epoch=epoch, part=part))
            if left < batches:
                return {"epoch": epoch, **({"part": part} if part else {}), "batch": left}
            left -= batches
        epoch += 1


def forge(prepared: Path, run: Path) -> dict[str, int]:
    """Save the last checkpoint as one of update 1,000,000."""
    training = read_yaml(run / "config.yaml")["training"]
    store = TokenStore(prepared / "ids")
    position = position_of(UPDATE, store, seed=training["seed"], budget=training["batch_tokens"])
    checkpoints = Checkpoints(run / "checkpoints", keep=training["keep"])
    last = checkpoints.load(checkpoints.updates()[-1])
    checkpoints.save(replace(last, progress=last.progress.but(update=UPDATE, position=position)))
    return position


def resume(run: Path, work: Path, *, workers: int) -> float:
    """Seconds from the start of the command to the end of its first update, in a copy of the run."""
    copy = work / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(run, copy)
    config = (copy / "config.yaml").read_text(encoding="utf-8")
    asked = config.replace("workers: auto", f"workers: {workers}")
    (copy / "config.yaml").write_text(asked, encoding="utf-8")
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, "-m", "dragoman", "train", "--resume", str(copy)])
    while UPDATE + 1 not in updates(copy):
        assert process.poll() is None, "the training ended before its first update"
        time.sleep(0.02)
    seconds = time.monotonic() - began
    process.send_signal(signal.SIGINT)
    process.wait()
    return round(seconds, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", choices=["forge", "resume"], help="one step alone; both by default")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    run = given.work / "run"
    if given.only != "resume":
        shutil.rmtree(given.work, ignore_errors=True)
        given.work.mkdir(parents=True)
        begin(given.folder, run)
        began = time.monotonic()
        position = forge(given.folder, run)
        facts = {"position": position, "seconds_to_count_there": round(time.monotonic() - began, 1)}
        (given.work / "forged.json").write_text(json.dumps(facts), encoding="utf-8")
    if given.only != "forge":
        facts = json.loads((given.work / "forged.json").read_text(encoding="utf-8"))
        facts |= {
            "pairs": len(TokenStore(given.folder / "ids")),
            "update": UPDATE,
            "cores": os.cpu_count(),
            "seconds_to_first_update": {
                f"{workers} workers": [resume(run, given.work, workers=workers) for _ in range(given.repeats)]
                for workers in (1, 2)
            },
        }
        given.out.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        print(facts)


if __name__ == "__main__":
    main()
