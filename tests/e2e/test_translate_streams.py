"""`dragoman translate` on long streams, as a process with a stub of the CPU library that copies its input."""

import functools
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.inference.translator import ENCODE_CHUNK, STREAM_CHUNK
from tests.small_runs import environment
from tests.untrained_runs import finished_run

STUBS = Path(__file__).parents[1] / "stubs"
LINES = ["two dogs play .", "", "a cat sits by the sea", "the sea"]
MANY = 3 * STREAM_CHUNK


@pytest.fixture
def run(tmp_path):
    return finished_run(tmp_path / "run").path


def translating(run: Path, *options: object) -> subprocess.Popen[str]:
    paths = [str(STUBS), *filter(None, [os.environ.get("PYTHONPATH")])]
    # A shell that starts the tests in the background ignores Ctrl-C, and child processes inherit that.
    heed = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    return subprocess.Popen(
        [sys.executable, "-m", "dragoman", "translate", str(run), "--beam", "1", "--device", "cpu", *map(str, options)],
        cwd=run.parent,
        env=environment(run.parent) | {"PYTHONPATH": os.pathsep.join(paths)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed,
    )


def text(count: int) -> str:
    return "".join(LINES[number % len(LINES)] + "\n" for number in range(count))


def test_lines_are_printed_in_order_before_the_input_ends(run):
    with translating(run) as process:
        process.stdin.write(text(STREAM_CHUNK + ENCODE_CHUNK))
        process.stdin.flush()
        first = [process.stdout.readline() for _ in range(3)]
        process.stdin.write(text(2))
        process.stdin.close()
        # `communicate` would lose what `readline` has buffered
        rest, err = process.stdout.read(), process.stderr.read()
        process.wait(timeout=60)
    assert process.returncode == 0, err
    is_copy = "".join(first) + rest == text(STREAM_CHUNK + ENCODE_CHUNK) + text(2)
    assert is_copy  # a comparison of the strings themselves would take minutes to print
    assert err == ""


def test_lines_are_answered_whenever_the_input_pauses(run):
    with translating(run) as process:
        for line in LINES:
            process.stdin.write(line + "\n")
            process.stdin.flush()
            assert process.stdout.readline() == line + "\n"
        rest, err = process.communicate(LINES[0], timeout=120)
    assert (rest, err) == (LINES[0] + "\n", "")


def test_closed_pipe_ends_translate_quietly(run, tmp_path):
    (tmp_path / "source").write_text(text(MANY), encoding="utf-8")
    with translating(run, "--input", "source") as process:
        assert process.stdout.readline() == LINES[0] + "\n"
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=60) == 141


@pytest.mark.parametrize(
    ("output", "number"),
    [("-", signal.SIGINT), *(("target", one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))],
)
def test_interrupted_translation_keeps_its_lines_apart(run, tmp_path, output, number):
    with translating(run, "--output", output) as process:
        process.stdin.write(text(MANY))  # more than is read ahead, so `write` returns after some translations
        process.stdin.flush()
        process.send_signal(number)
        if number != signal.SIGINT:
            process.send_signal(signal.SIGTERM)  # a second signal does not interrupt the cleanup
        _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert err.count("\n") == (0 if output == "-" else 1)
    kept = [] if output == "-" else ["target.partial"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", *kept]
    if kept:
        lines = (tmp_path / "target.partial").read_text(encoding="utf-8").count("\n")
        assert f"{lines:,} lines" in err


def test_file_of_a_killed_translation_is_removed_by_the_next(run, tmp_path):
    with translating(run, "--output", "target") as process:
        process.stdin.write(text(MANY))
        process.stdin.flush()
        process.kill()
    assert [path.name for path in tmp_path.glob(".*")] == [f".target.{process.pid}.tmp"]
    with translating(run, "--output", "target") as process:
        process.communicate(text(3), timeout=60)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "target"]
    assert (tmp_path / "target").read_text(encoding="utf-8") == text(3)
