"""A training that is killed with `kill -9` at random moments and goes on ends as if it had never been killed."""

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

VARIANTS = {
    "plain": {
        "training__length": "{kind: updates, count: 61}",
        "training__report": 4,  # does not divide the interval: a report spans a checkpoint
        "training__keep": 3,
    },
    "accumulation, BPE dropout, moving average": {
        "training__length": "{kind: epochs, count: 7}",
        "training__interval": "{kind: epochs, count: 1}",
        "training__report": 2,
        "training__accumulate": 2,
        "training__moving_average": 0.9,
        "training__schedule__kind": "cosine",
        "training__optimiser__kind": "adamw",
        "training__keep": 2,
        "tokenizer__dropout": 0.1,
    },
    "R-Drop, Muon, noise": {
        "training__length": "{kind: updates, count: 47}",
        "training__objective": "{kind: r_drop, weight: 3.0}",
        "training__optimiser__kind": "muon",
        "data__noise": "{capitals: 0.1, typing: 0.1, truncated: 0.1}",
    },
}
TRAIN = ("train", "--source", "train.en", "--target", "train.de", "--out", "run")
TIMES = {"seconds", "tokens_per_second"}


class Sitting:
    """One process that trains in a folder, and what it has said so far."""

    def __init__(self, folder: Path, options: list[str], threads: int) -> None:
        begun = (folder / "run" / "config.yaml").exists()
        arguments = ("train", "--resume", "run") if begun else (*TRAIN, *options)
        self.folder = folder
        self.said: list[str] = []
        self.process = subprocess.Popen(
            command(*arguments),
            cwd=folder,
            env=environment(folder, threads=threads),
            stderr=subprocess.PIPE,
            text=True,
        )

    def listen(self, until: str, reached: int = 0) -> None:
        """Read what it says up to a line that matches `until` and, where the pattern has a number, reaches it."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)
            found = re.match(until, line)
            if found and (not found.groups() or int(found[1]) >= reached):
                return

    def kill(self) -> None:
        self.process.kill()
        self._end()

    def finish(self) -> None:
        self.listen("(?!)")
        self._end()
        assert self.process.returncode == 0, "".join(self.said)

    def _end(self) -> None:
        assert self.process.stderr is not None
        self.said += self.process.stderr.readlines()
        self.process.stderr.close()
        self.process.wait(timeout=60)


@pytest.mark.slow
@pytest.mark.parametrize(("variant", "threads"), [(0, 2), (1, 1), (2, 1)], ids=list(VARIANTS))
def test_killed_and_gone_on_is_never_killed(tmp_path, variant, threads):
    seed = int(os.environ.get("DRAGOMAN_KILLS") or int.from_bytes(os.urandom(4)))
    generator = random.Random(seed)
    options = small_options(**list(VARIANTS.values())[variant])
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    for folder in (whole, broken):
        folder.mkdir()
        write_corpus(folder)
    startup, total = train_whole(whole, options, threads)
    log = [f"DRAGOMAN_KILLS={seed} draws the same moments:"]
    log += break_off(broken, options, threads, generator, startup=startup, total=total)
    assert len(log) == 8, "\n".join(log)
    assert differences(whole, broken) == [], "\n".join(log)


def train_whole(folder: Path, options: list[str], threads: int) -> tuple[float, int]:
    """Train without a break; returns the seconds before the first update, and the number of updates."""
    began = time.monotonic()
    sitting = Sitting(folder, options, threads)
    sitting.listen("starting")
    startup = time.monotonic() - began
    sitting.finish()
    total = json.loads((folder / "run" / "scores.json").read_text(encoding="utf-8"))["updates"]
    return startup, total


def break_off(
    folder: Path, options: list[str], threads: int, generator: random.Random, *, startup: float, total: int
) -> list[str]:
    """Kill before training, five times in it, and once while scoring; then let it end. Returns what was done."""
    sitting = Sitting(folder, options, threads)
    moment = generator.uniform(0, startup)
    time.sleep(moment)
    sitting.kill()
    log = [f"killed {moment:.3f} s after the start"]
    for update in sorted(generator.sample(range(total * 4 // 5), 5)):
        sitting = Sitting(folder, options, threads)
        sitting.listen(r"update (\d+)/", reached=update)
        more = generator.uniform(0, 0.06)
        time.sleep(more)
        sitting.kill()
        log.append(f"killed {more:.3f} s after saying that update {update} was done: {sitting.said[-1:]}")
    sitting = Sitting(folder, options, threads)
    sitting.listen("candidates for the weights")
    more = generator.uniform(0, 0.06)
    time.sleep(more)
    sitting.kill()
    log.append(f"killed {more:.3f} s after the candidates were judged: {sitting.said[-1:]}")
    if not (folder / "run" / "model.safetensors").exists():
        Sitting(folder, options, threads).finish()
    return log


def differences(whole: Path, broken: Path) -> list[str]:
    """The files of two runs that differ in more than times."""
    one, other = hashes(whole / "run"), hashes(broken / "run")
    if one.keys() != other.keys():
        return [f"files: {sorted(one.keys() ^ other.keys())}"]
    return [
        f"{name}: {timeless(whole / 'run' / name)} and {timeless(broken / 'run' / name)}"
        for name in one
        if one[name] != other[name] and timeless(whole / "run" / name) != timeless(broken / "run" / name)
    ]


def timeless(path: Path) -> Any:
    """What a file says, times left out."""
    if path.suffix == ".safetensors":
        return hashlib.sha256(path.read_bytes()).hexdigest()
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return re.sub(r"[0-9.]+ minutes", "", text)
    if path.suffix not in (".json", ".jsonl"):
        return text
    rows = [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else [json.loads(text)]
    return [{key: value for key, value in row.items() if key not in TIMES} for row in rows]
