"""Target tokens a second of training, beside JoeyNMT, eole and Hugging Face, in turns.

    python -m benchmarks.train.speed --data FOLDER --environments FOLDER --out benchmarks/train/speed.json

`--data` is the folder of `examples/multi30k_en_de.yaml`; `--environments` holds `joeynmt` and `eole`, virtual
environments made as the README says. Hugging Face and our command run by this interpreter.

First each program is asked for `--probe` updates in every way that it has: one thread or two, float32 or bfloat16. Then
a round asks each for `--updates`, in the way that was fastest, in an order that changes from round to round. Where
`--out` is there already, its probe stands, and its rounds are gone on with.
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
from pathlib import Path
from typing import Any

import yaml

from benchmarks.train.workers import RECIPE, processor

HERE = Path(__file__).parent
SAME = {
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
    "report": 5,
}
"""What all programs are told. Dropout is of embeddings, sublayers and inside of the feed-forward network."""
INSTRUCTIONS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
BETWEEN = 0.2
"""Seconds between two looks at the memory."""
MEBIBYTE = 2**20


@dataclass(frozen=True)
class Way:
    """How a program is started: the interpreter, its script, and the threads where it is not left alone."""

    python: Path
    script: str
    options: tuple[str, ...] = ()
    threads: int | None = None


def ways(environments: Path) -> dict[str, Way]:
    """Every way by name; those that differ behind a slash are of one program."""
    own = Path(sys.executable)
    found = {
        "dragoman": Way(own, "with_dragoman.py"),
        "dragoman bfloat16": Way(own, "with_dragoman.py", ("--set", "training.precision=bfloat16")),
    }
    for threads in (1, 2):
        joeynmt, eole = (environments / name / "bin" / "python" for name in ("joeynmt", "eole"))
        found[f"joeynmt/{threads}"] = Way(joeynmt, "with_joeynmt.py", (), threads)
        for name, python in (("eole", eole), ("huggingface", own)):
            found[f"{name}/{threads}"] = Way(python, f"with_{name}.py", (), threads)
            found[f"{name}/{threads} bfloat16"] = Way(python, f"with_{name}.py", ("--bfloat16",), threads)
    return found


def prepare(data: Path, folder: Path) -> None:
    """The texts in the pieces of the tokenizer that our command learns, the other pieces' list, and the settings."""
    from dragoman.data.tokenizers import Bpe, Tokenizer

    recipe = yaml.safe_load(RECIPE.read_text(encoding="utf-8"))
    train = recipe["data"]["train"]
    texts = {side: lines(data / train[side]) for side in ("source", "target")}
    tokenizer = Tokenizer.train(lambda: zip(*texts.values(), strict=True), Bpe(**recipe["tokenizer"]))
    for name, side in (("source", tokenizer.source), ("target", tokenizer.target)):
        write(folder / f"train.{name}", (" ".join(side.tokens(ids)) for ids in side.encode_batch(texts[name])))
    write(folder / "vocabulary.txt", tokenizer.target.tokens(range(4, len(tokenizer.target))))
    settings = SAME | {"data": str(data.resolve()), "pairs": len(texts["source"])}
    (folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")


def lines(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line.removesuffix("\n") for line in file]


def write(path: Path, texts: Iterable[str]) -> None:
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


def trained(way: Way, folder: Path, *, updates: int) -> dict[str, Any]:
    """What a program reports of so many updates, and the most memory that it and its workers had at a time."""
    out = folder / "reports.json"
    command = [way.python, HERE / way.script, folder, "--updates", updates, "--out", out, *way.options]
    environment = dict(os.environ) if way.threads is None else os.environ | {"OMP_NUM_THREADS": str(way.threads)}
    with (folder / "said.txt").open("w", encoding="utf-8") as said:
        process = subprocess.Popen(list(map(str, command)), env=environment, stdout=said, stderr=subprocess.STDOUT)
        memory = Memory(process.pid)
        memory.start()
        process.wait()
        memory.join()
    if process.returncode:
        raise SystemExit(f"{way.script} ended with {process.returncode}: {(folder / 'said.txt').read_text()[-2000:]}")
    reports = json.loads(out.read_text(encoding="utf-8"))
    return {
        "tokens_per_second": round(speed(reports)),
        "mebibytes": round(memory.most / MEBIBYTE),
        "resident_mebibytes": round(memory.most_resident / MEBIBYTE),
        "losses": {str(report["update"]): round(report["loss"], 3) for report in reports},
    }


def speed(reports: Sequence[Mapping[str, float]]) -> float:
    """The median after the first third, which holds what is done once."""
    return statistics.median(report["tokens_per_second"] for report in reports[len(reports) // 3 :])


class Memory(threading.Thread):
    """Looks at the memory of a process and all that it started until it ends.

    A page that several of them share counts once in `most`, and for each of them in `most_resident`.
    """

    def __init__(self, root: int) -> None:
        super().__init__()
        self.root = root
        self.most, self.most_resident = 0, 0

    def run(self) -> None:
        while family := tree(self.root):
            shared, resident = (sum(column) for column in zip(*map(memory_of, family), strict=True))
            self.most, self.most_resident = max(self.most, shared), max(self.most_resident, resident)
            time.sleep(BETWEEN)


def tree(root: int) -> list[int]:
    """A process and its descendants, those that wait to be asked for their end left out."""
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
    """Bytes of a process: its share of what it shares and what is its own, and all that it holds."""
    try:
        rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it has just ended
        return 0, 0
    sizes = {row.split(":")[0]: int(row.split()[1]) * 1024 for row in rows if row.startswith(("Pss:", "Rss:"))}
    return sizes.get("Pss", 0), sizes.get("Rss", 0)


def best_ways(probed: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """For each program the way that was fastest."""
    best: dict[str, str] = {}
    for name, found in probed.items():
        program = name.split("/")[0]
        if program not in best or found["tokens_per_second"] > probed[best[program]]["tokens_per_second"]:
            best[program] = name
    return best


def summary(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Medians over the rounds; how many times a program's tokens ours gives is a median of rounds too."""
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


def facts(arguments: argparse.Namespace) -> dict[str, Any]:
    flags = Path("/proc/cpuinfo").read_text().split()
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "processor": processor(),
        "instructions": [name for name in INSTRUCTIONS if name in flags],
        "versions": versions(arguments.environments),
        "settings": SAME,
        "updates": arguments.updates,
    }


def versions(environments: Path) -> dict[str, str]:
    asked = {
        "transformers": (Path(sys.executable), "transformers"),
        "torch": (Path(sys.executable), "torch"),
        **{name: (environments / name / "bin" / "python", name) for name in ("joeynmt", "eole")},
        **{f"torch of {name}": (environments / name / "bin" / "python", "torch") for name in ("joeynmt", "eole")},
    }
    code = "import sys; from importlib.metadata import version; print(version(sys.argv[1]))"
    return {
        name: subprocess.run([python, "-c", code, package], capture_output=True, text=True, check=True).stdout.strip()
        for name, (python, package) in asked.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--environments", type=Path, required=True)
    parser.add_argument("--updates", type=int, default=60)
    parser.add_argument("--probe", type=int, default=15, help="updates in each way, to find the fastest")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    if asked.updates % SAME["report"] or asked.probe % SAME["report"]:
        parser.error(f"--updates and --probe are multiples of {SAME['report']}, after which programs report")
    known = ways(asked.environments)
    result = json.loads(asked.out.read_text()) if asked.out.exists() else facts(asked) | {"probe": {}, "rounds": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(asked.data, folder)
        for way in [name for name in known if name not in result["probe"]]:
            result["probe"][way] = trained(known[way], folder, updates=asked.probe)
            keep(result, asked.out)
        best = best_ways(result["probe"])
        for _ in range(asked.rounds):
            order = random.Random(len(result["rounds"])).sample(list(best), len(best))
            turns = {program: trained(known[best[program]], folder, updates=asked.updates) for program in order}
            result["rounds"].append({program: turns[program] for program in best})
            keep(result | {"ways": best, "summary": summary(result["rounds"])}, asked.out)


def keep(result: Mapping[str, Any], out: Path) -> None:
    out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({key: result[key] for key in ("probe", "summary") if key in result}, indent=1), flush=True)


if __name__ == "__main__":
    main()
