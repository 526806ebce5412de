"""Trainings that take seconds: a small corpus in an invented language, a tiny model, and the command as a process."""

import hashlib
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.command_server import command_server

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
    ".": ".",
}

SMALLEST = {
    "model.d_model": 16,
    "model.num_heads": 2,
    "model.encoder_layers": 1,
    "model.decoder_layers": 1,
    "model.d_ff": 32,
    "training.batch_tokens": 331,
    "training.max_steps": 23,
    "training.validate_every": 7,
    "training.log_every": 3,
}


def write_corpus(folder: Path, *, pairs: int = 300, seed: int = 1, name: str = "train") -> tuple[Path, Path]:
    """Write NAME.en and NAME.de: sentences of words that have one translation each."""
    generator = random.Random(seed)
    sources = [generator.choices(list(WORDS), k=generator.randint(3, 11)) for _ in range(pairs)]
    targets = [[WORDS[word] for word in source] for source in sources]
    paths = (folder / f"{name}.en", folder / f"{name}.de")
    for path, lines in zip(paths, (sources, targets), strict=True):
        path.write_text("".join(" ".join(line) + "\n" for line in lines), encoding="utf-8")
    return paths


def small_options(**changed: object) -> list[str]:
    """Return the options of a small training; `__` in a key stands for the dot."""
    chosen = SMALLEST | {key.replace("__", "."): value for key, value in changed.items()}
    return [part for key, value in chosen.items() if value is not None for part in ("--set", f"{key}={value}")]


def environment(folder: Path, *, threads: int = 1) -> dict[str, str]:
    """Return an environment for a process that caches in `folder` and uses few resources."""
    machine = {"OMP_NUM_THREADS": str(threads)}
    return os.environ | machine | {"DRAGOMAN_CACHE": str(folder / "cache"), "COLUMNS": "200"}


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "dragoman", *map(str, arguments)]


def dragoman(
    *arguments: object, cwd: Path, timeout: float = 120, fresh: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run the command in `cwd` to its end, in a fork of an interpreter with all imports or in a `fresh` one."""
    if not fresh:
        parts = [str(part) for part in arguments]
        return command_server().run(parts, cwd=cwd, environment=environment(cwd), timeout=timeout)
    return subprocess.run(
        command(*arguments), cwd=cwd, env=environment(cwd), capture_output=True, text=True, timeout=timeout
    )


def hashes(folder: Path, *, without: Sequence[str] = ("cache",)) -> dict[str, str]:
    """Return the SHA-256 of every file below a folder by relative path; folders have an empty hash."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in sorted(folder.rglob("*"))
        if path.relative_to(folder).parts[0] not in without
    }
