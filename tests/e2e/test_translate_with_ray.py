"""`dragoman translate --ray` gives what the command gives on one machine."""

import importlib.util

import pytest

from tests.small_runs import dragoman
from tests.untrained_runs import PAIRS, finished_run

LINES = 1700
"""More than one block."""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None, reason="Ray is not installed (pip install 'dragoman[ray]')"
    ),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ray")
    finished_run(folder / "run")
    words = [word for source, _ in PAIRS for word in source.split()]
    lines = [" ".join(words[(number * step) % len(words)] for step in (1, 3, 7, 11)) for number in range(LINES)]
    lines[3], lines[1200], lines[1500] = "", "a 水 .", "水 ."
    (folder / "in.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def _messages(stderr: str) -> list[str]:
    return [line for line in stderr.splitlines() if line.startswith("dragoman:")]


def test_ray_writes_the_same_lines_and_warnings(folder):
    options = ("--input", "in.txt", "--n-best", 2, "--beam-size", 3, "--max-length", 6, "--format", "jsonl")
    alone = dragoman("translate", "run", *options, cwd=folder)
    by_ray = dragoman("translate", "run", *options, "--ray", "--workers", 2, cwd=folder, timeout=280, fresh=True)
    assert (alone.returncode, by_ray.returncode) == (0, 0), by_ray.stderr
    assert len(alone.stdout.splitlines()) == LINES
    assert by_ray.stdout == alone.stdout
    assert sorted(_messages(by_ray.stderr)) == sorted(_messages(alone.stderr))
    assert "not in the vocabulary" in by_ray.stderr


def test_an_error_in_a_worker_names_the_line_of_the_file(folder):
    lines = (folder / "in.txt").read_text(encoding="utf-8").splitlines()
    lines[1600] = "a " * 66_000
    (folder / "long.txt").write_text("\n".join(lines), encoding="utf-8")
    options = ("--input", "long.txt", "--max-length", 2)
    alone = dragoman("translate", "run", *options, cwd=folder)
    by_ray = dragoman("translate", "run", *options, "--ray", "--workers", 1, cwd=folder, timeout=280, fresh=True)
    assert (alone.returncode, by_ray.returncode) == (2, 2)
    assert "line 1601" in alone.stderr
    assert _messages(by_ray.stderr)[-1] == _messages(alone.stderr)[-1]
