"""The command as a process: start-up time, help, exit codes and error messages."""

import functools
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).with_name("dragoman")


def dragoman(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, timeout=60, **options)


def test_help_answers_in_under_a_quarter_second():
    """Processor time, the best of five: other processes may hold the machine."""
    seconds = []
    for _ in range(5):
        begin = resource.getrusage(resource.RUSAGE_CHILDREN)
        answer = dragoman("--help")
        end = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime)
    assert answer.returncode == 0
    assert "evaluate" in answer.stdout
    assert min(seconds) < 0.25


def test_help_imports_nothing_heavy():
    program = (
        "import sys; from dragoman.cli.main import run; status = run(['--help'], debug=False);"
        "heavy = {'torch', 'numpy', 'pydantic', 'sacrebleu', 'tokenizers', 'babel', 'matplotlib'};"
        "print(sorted(heavy & set(sys.modules)));"
        "sys.exit(status)"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines()[-1] == "[]"


def test_help_of_a_verb_imports_no_torch():
    program = (
        "import sys; from dragoman.cli.main import SUMMARIES, build_command;"
        "print([verb for verb in SUMMARIES if build_command(verb) and 'torch' in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"


def test_every_verb_has_help_with_its_summary():
    from dragoman.cli.main import SUMMARIES

    for verb, summary in SUMMARIES.items():
        answer = dragoman(verb, "--help")
        assert answer.returncode == 0, answer.stderr
        assert f"dragoman {verb}" in answer.stdout
        assert summary in " ".join(answer.stdout.replace("│", " ").split())
        assert "bool" not in answer.stdout


def test_help_groups_the_commands():
    answer = dragoman("--help").stdout
    panels = re.findall(r"╭─ (.*?) ─+╮", answer)
    assert panels == ["Options", "Use a model", "Train a model", "Evaluate and inspect", "Import and export"]


def test_short_help_names_every_option():
    short = dragoman("translate", "--help").stdout
    whole = dragoman("translate", "--help-all", env={**os.environ, "COLUMNS": "250"}).stdout
    assert len(short.splitlines()) <= 100 < len(dragoman("translate", "--help-all").stdout.splitlines())
    described = re.findall(r"│ +(--[a-z][a-z-]+)", whole)
    assert len(described) > 40
    assert [name for name in described if name not in short] == []
    assert "Hypotheses per sentence" in whole
    assert "Hypotheses per" not in short


def test_version_is_that_of_the_package():
    from importlib.metadata import version

    assert dragoman("--version").stdout == f"dragoman {version('dragoman')}\n"


def test_unknown_verb_suggests_the_nearest():
    answer = dragoman("evalute")
    assert answer.returncode == 2
    assert "evaluate" in answer.stderr


def test_unknown_option_suggests_the_nearest():
    answer = dragoman("evaluate", "--refrence", "x")
    assert answer.returncode == 2
    assert "--reference" in answer.stderr


def test_user_error_gives_one_message_and_code_2(tmp_path):
    answer = dragoman("evaluate", "--hypothesis", "missing.de", "--reference", "also-missing.de", cwd=tmp_path)
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert answer.stderr.splitlines() == [
        "dragoman: also-missing.de: cannot be read (No such file or directory); check the path"
    ]


@pytest.mark.parametrize("place", ["before", "after"])
def test_debug_shows_the_traceback_before_or_after_a_verb(place, tmp_path):
    verb = ["evaluate", "--hypothesis", "missing.de", "--reference", "missing.de"]
    answer = dragoman(*(["--debug", *verb] if place == "before" else [*verb, "--debug"]), cwd=tmp_path)
    assert answer.returncode == 2
    assert "Traceback" in answer.stderr
    assert answer.stderr.splitlines()[-1].startswith("dragoman: missing.de: cannot be read")


def test_closed_pipe_ends_the_command_quietly(tmp_path):
    (tmp_path / "lines").write_text("a b c d\n" * 20_011, encoding="utf-8")
    command = [COMMAND, "evaluate", "--hypothesis", "lines", "--reference", "lines", "--metric", "exact", "--sentence"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline().startswith("line")
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(timeout=60) == 141
    process.stderr.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_command_ends_with_the_code_of_the_signal(number, tmp_path):
    (tmp_path / "reference").write_text("a\n", encoding="utf-8")
    command = [COMMAND, "evaluate", "--reference", "reference", "--hypothesis", "-"]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # A shell that starts the tests in the background ignores Ctrl-C, and child processes inherit that.
    heed = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, cwd=tmp_path, text=True, preexec_fn=heed, **streams) as process:
        process.stdin.write("a\n" * 200_000)  # more than a pipe holds, so `write` returns when the command reads
        process.stdin.flush()
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (128 + number, "", "")


@pytest.mark.parametrize(
    ("redirection", "code", "message"),
    [
        ("<&-", 2, "dragoman: standard input: is closed. Give a file, or leave the stream open."),
        (">&-", 2, "dragoman: standard input or output cannot be used (Bad file descriptor)."),
        (">/dev/full", 2, "dragoman: the disk: no space is left."),
        ("2>&-", 0, ""),
    ],
)
def test_closed_and_full_streams_are_errors_of_the_user(redirection, code, message, tmp_path):
    (tmp_path / "lines").write_text("a\n", encoding="utf-8")
    hypothesis = "-" if redirection == "<&-" else "lines"
    line = f"{COMMAND} evaluate --reference lines --hypothesis {hypothesis} --metric exact {redirection}"
    answer = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (answer.returncode, answer.stderr[: len(message)]) == (code, message), answer.stderr
    assert len(answer.stderr.splitlines()) == bool(message)


def test_command_runs_as_a_module():
    answer = subprocess.run(
        [sys.executable, "-m", "dragoman", "--version"],
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "80"},
    )
    assert answer.stdout.startswith("dragoman ")
