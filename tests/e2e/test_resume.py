"""A training that is killed with `kill -9` at random moments ends as if it had never been killed."""

import hashlib
import json
import os
import random
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.small_runs import command, environment, hashes, small_options, write_corpus

pytestmark = pytest.mark.slow

VARIANTS = {
    "plain": {
        "training__max_steps": 61,
        "training__log_every": 4,  # does not divide validate_every: a log line spans a checkpoint
        "training__keep_checkpoints": 3,
    },
    "accumulation, BPE dropout, moving average": {
        "training__max_steps": None,
        "training__max_epochs": 7,
        "training__validate_every": None,
        "training__validate_every_epochs": 1,
        "training__log_every": 2,
        "training__grad_accumulation": 2,
        "training__ema_decay": 0.9,
        "training__schedule__kind": "cosine",
        "training__optimizer__kind": "adamw",
        "training__keep_checkpoints": 2,
        "tokenizer__dropout": 0.1,
    },
    "R-Drop, Muon, noise": {
        "training__max_steps": 47,
        "training__loss": "{kind: r_drop, weight: 3.0}",
        "training__optimizer__kind": "muon",
        "data__noise": "{uppercase: 0.1, typos: 0.1, truncation: 0.1}",
    },
}
TRAIN = ("train", "--source", "train.en", "--target", "train.de", "--out", "run")
TIMES = {"seconds", "tokens_per_second", "crc32"}  # the checksum of the progress covers its times


class Training:
    """Process that trains in a folder, and its output so far."""

    def __init__(self, folder: Path, options: list[str], threads: int) -> None:
        exists = (folder / "run" / "config.yaml").exists()
        arguments = ("train", "--resume", "run") if exists else (*TRAIN, *options)
        self.folder = folder
        self.output: list[str] = []
        self.process = subprocess.Popen(
            command(*arguments),
            cwd=folder,
            env=environment(folder, threads=threads),
            stderr=subprocess.PIPE,
            text=True,
        )

    def listen(self, until: str, reached: int = 0) -> None:
        """Read up to a line that matches `until` and whose number, if any, is at least `reached`."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.output.append(line)
            found = re.match(until, line)
            if found and (not found.groups() or int(found[1]) >= reached):
                return

    def kill(self) -> None:
        self.process.kill()
        self._end()

    def finish(self) -> None:
        self.listen("(?!)")
        self._end()
        assert self.process.returncode == 0, "".join(self.output)

    def _end(self) -> None:
        assert self.process.stderr is not None
        self.output += self.process.stderr.readlines()
        self.process.stderr.close()
        self.process.wait(timeout=60)


@pytest.mark.parametrize(("variant", "threads"), [(0, 2), (1, 1), (2, 1)], ids=list(VARIANTS))
def test_killed_training_resumes_exactly(tmp_path, variant, threads):
    seed = int(os.environ.get("DRAGOMAN_KILLS") or int.from_bytes(os.urandom(4)))
    generator = random.Random(seed)
    options = small_options(**list(VARIANTS.values())[variant])
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    for folder in (whole, broken):
        folder.mkdir()
        write_corpus(folder)
    startup, total = train_whole(whole, options, threads)
    log = [f"DRAGOMAN_KILLS={seed} draws the same moments:"]
    log += train_with_kills(broken, options, threads, generator, startup=startup, total=total)
    assert len(log) == 8, "\n".join(log)
    assert differences(whole, broken) == [], "\n".join(log)


def train_whole(folder: Path, options: list[str], threads: int) -> tuple[float, int]:
    """Train without interruption; return the seconds before the first step, and the number of steps."""
    began = time.monotonic()
    training = Training(folder, options, threads)
    training.listen("starting")
    startup = time.monotonic() - began
    training.finish()
    total = json.loads((folder / "run" / "scores.json").read_text(encoding="utf-8"))["steps"]
    return startup, total


def train_with_kills(
    folder: Path, options: list[str], threads: int, generator: random.Random, *, startup: float, total: int
) -> list[str]:
    """Kill before training, five times during training and once while scoring, then finish; return a log."""
    training = Training(folder, options, threads)
    moment = generator.uniform(0, startup)
    time.sleep(moment)
    training.kill()
    log = [f"killed {moment:.3f} s after the start"]
    for step in sorted(generator.sample(range(total * 4 // 5), 5)):
        training = Training(folder, options, threads)
        training.listen(r"step (\d+)/", reached=step)
        more = generator.uniform(0, 0.06)
        time.sleep(more)
        training.kill()
        log.append(f"killed {more:.3f} s after step {step} was logged: {training.output[-1:]}")
    training = Training(folder, options, threads)
    training.listen("candidates for the weights")
    more = generator.uniform(0, 0.06)
    time.sleep(more)
    training.kill()
    log.append(f"killed {more:.3f} s after the candidates were scored: {training.output[-1:]}")
    if not (folder / "run" / "model.safetensors").exists():
        Training(folder, options, threads).finish()
    return log


def differences(whole: Path, broken: Path) -> list[str]:
    """Return the files of two runs that differ in more than times."""
    one, other = hashes(whole / "run"), hashes(broken / "run")
    if one.keys() != other.keys():
        return [f"files: {sorted(one.keys() ^ other.keys())}"]
    return [
        f"{name}: {timeless(whole / 'run' / name)} and {timeless(broken / 'run' / name)}"
        for name in one
        if one[name] != other[name] and timeless(whole / "run" / name) != timeless(broken / "run" / name)
    ]


def timeless(path: Path) -> Any:
    """Return the content of a file without times."""
    if path.suffix == ".safetensors":
        return hashlib.sha256(path.read_bytes()).hexdigest()
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return re.sub(r"[0-9.]+ minutes", "", text)
    if path.suffix not in (".json", ".jsonl"):
        return text
    rows = [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else [json.loads(text)]
    return without_times(rows)


def without_times(tree: Any) -> Any:
    """Return a tree of JSON without times at any depth."""
    if isinstance(tree, dict):
        return {key: without_times(value) for key, value in tree.items() if key not in TIMES}
    return [without_times(value) for value in tree] if isinstance(tree, list) else tree
