"""Guides that extend the program: their changes are applied to a copy of the sources, and their tests are run.

A change is a block of the language `diff`: the name of a file after `---`, lines that occur there once, and after `+++`
the same lines with those added and removed that begin with `+` and `-`.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDES = ("add-an-attention-score.md",)
BLOCK = re.compile(r"^```+(diff|sh)\n(.*?)^```+$(?=\n\n|\n*\Z)", re.S | re.M)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def apply(change: str, root: Path) -> None:
    """Apply a change of a guide to a copy of the repository."""
    head, *lines = change.splitlines(keepends=True)
    path = root / head.removeprefix("--- ").strip()
    middle = lines.index("+++\n")
    before = "".join(line[1:] for line in lines[:middle])
    after = "".join(line[1:] for line in lines[middle + 1 :] if not line.startswith("-"))
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1, f"{path.name}: these lines occur {text.count(before)} times:\n{before}"
    path.write_text(text.replace(before, after), encoding="utf-8")


@pytest.mark.parametrize("guide", GUIDES)
def test_changes_of_a_guide_pass_its_tests(guide, tmp_path):
    for name in ("src", "tests", "docs", "native"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "build"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    commands = []
    for language, block in BLOCK.findall((ROOT / "docs" / "how-to" / guide).read_text(encoding="utf-8")):
        if language == "diff":
            apply(block, tmp_path)
        else:
            commands += [line for line in block.splitlines() if line.startswith("make test TESTS=")]
    assert commands, "the guide says which tests to run"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src"), "DRAGOMAN_TESTS": "fast"}
    for command in commands:
        paths = shlex.split(shlex.split(command)[2].removeprefix("TESTS="))
        pytest_command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow", *paths]
        ending = subprocess.run(pytest_command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert ending.returncode == 0, ending.stdout[-5000:]
    checks = [sys.executable, "-m", "mypy", "src/dragoman/nn/attention_score_functions.py", "--follow-imports=silent"]
    typed = subprocess.run(checks, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert typed.returncode == 0, typed.stdout
