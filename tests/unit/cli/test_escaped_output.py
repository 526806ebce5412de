"""Control characters and markup from files, names and texts, on terminals and in pipes."""

import io
import json
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rich.progress import Progress
from rich.text import Text

from dragoman.cli import training_display
from dragoman.cli.escaped_output import EscapingStream, escape_controls
from dragoman.cli.table_output import PlainConsole, build_table
from dragoman.cli.training_display import show_line, status

GOLDEN = Path(__file__).parents[2] / "golden" / "run-1"
HOSTILE = "[/foo]:warning: \x1b[2J\x1b]0;title\x07\x9b31m\u202egpj.exe"
SHOWN = r"[/foo]:warning: \u001b[2J\u001b]0;title\u0007\u009b31m\u202egpj.exe"
COLORS = re.compile(r"\x1b\[\d+m")
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


def test_escaped_text_keeps_lines_and_columns():
    assert escape_controls("a\tb\nשלום 👩\u200d🔬 \u200f") == "a\tb\nשלום 👩\u200d🔬 \u200f"
    assert escape_controls(HOSTILE) == SHOWN
    assert escape_controls(SHOWN) == SHOWN
    assert json.loads(escape_controls(json.dumps(HOSTILE, ensure_ascii=False))) == HOSTILE


def test_stream_escapes_all_writes_but_those_of_consoles():
    buffer = io.BytesIO()
    stream = EscapingStream(io.TextIOWrapper(buffer, encoding="utf-8", errors="backslashreplace"))
    print(HOSTILE, file=stream)
    stream.writelines([HOSTILE, "\udc80\n"])
    stream.flush()
    PlainConsole(file=stream, force_terminal=True, color_system="standard").print(Text(HOSTILE, "bold"))
    one, two, three = buffer.getvalue().decode().splitlines()
    assert (one, two) == (SHOWN, SHOWN + r"\udc80")
    assert three.startswith("\x1b[1m[/foo]:warning: \\u001b[2J")
    assert not OBEYED.search(COLORS.sub("", three))


def test_console_shows_tables_status_and_progress_without_markup(monkeypatch):
    file = io.StringIO()
    console = PlainConsole(file=file, force_terminal=True, width=200, color_system=None)
    monkeypatch.setattr(training_display, "console", console)
    console.print(build_table(("a", HOSTILE), [(HOSTILE, Text(HOSTILE, "dim"))], title=HOSTILE))
    console.print(HOSTILE, soft_wrap=True)
    show_line(HOSTILE)
    assert file.getvalue().count("[/foo]:warning: \\u001b[2J\\u001b]0;title") == 6
    assert not OBEYED.search(file.getvalue())
    with status() as report:
        report(HOSTILE)
    with training_display.TrainingDisplay() as display, display._bar as bar:
        assert isinstance(bar, Progress)
        bar.add_task(HOSTILE, total=7, facts=HOSTILE)
    assert not re.search("\x1b\\[2J|\x1b]|\x07|\x9b|\u202e", file.getvalue())


@pytest.fixture
def hostile_run(tmp_path):
    run = tmp_path / "[bold]:x:\x1b[2J\u202e"
    shutil.copytree(GOLDEN, run)
    scores = json.loads((run / "scores.json").read_text(encoding="utf-8"))
    scores["scores"] = {HOSTILE: [one | {"signature": HOSTILE} for one in scores["scores"]["valid"]]}
    (run / "scores.json").write_text(json.dumps(scores), encoding="utf-8")
    return run


def read_terminal(command: list[str]) -> str:
    """Return what a command prints on a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 2**16):
            shown += part
    except OSError:  # the command has ended
        pass
    os.close(ours)
    process.wait()
    return shown.decode().replace("\r\n", "\n")


def dragoman(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "dragoman", *map(str, arguments)]


def test_terminal_obeys_no_name_of_a_run(hostile_run):
    shown = COLORS.sub("", read_terminal(dragoman("info", hostile_run)))
    assert r"[bold]:x:\u001b[2J\u202e" in shown
    assert "[/foo]:warning: \\u001b[2J" in shown
    assert not OBEYED.search(shown)


def test_json_on_a_terminal_is_the_json_of_a_pipe(hostile_run):
    command = dragoman("info", hostile_run, "--json")
    shown, exact = read_terminal(command), subprocess.run(command, capture_output=True, check=True).stdout.decode()
    assert json.loads(shown) == json.loads(exact)
    assert "\u202e" in exact
    assert not OBEYED.search(shown)


def test_error_messages_are_escaped_in_pipes_too(tmp_path):
    done = subprocess.run(dragoman("info", tmp_path / HOSTILE.replace("/", "")), capture_output=True, check=False)
    assert done.returncode == 2
    assert SHOWN.replace("/", "") in done.stderr.decode()
