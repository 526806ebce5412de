"""Line counts and the progress of a file."""

import io
import sys

import pytest

from dragoman.cli import text_io


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("text", "lines"), [("", 0), ("a\n", 1), ("a\n\nb\n", 3), ("a\nb", 2)])
def test_count_lines_equals_lines_read(tmp_path, text, lines):
    path = tmp_path / "source.txt"
    path.write_bytes(text.encode())
    assert text_io.count_lines(str(path)) == lines


def test_streams_and_compressed_files_are_not_counted(tmp_path):
    (tmp_path / "source.txt.gz").write_bytes(b"\n")
    for name in ("-", str(tmp_path / "source.txt.gz"), str(tmp_path)):
        assert text_io.count_lines(name) is None


@pytest.mark.parametrize(
    ("total", "shown"), [(None, ["2 lines", "lines/s"]), (7, ["2 of 7 lines", "lines/s", "left:"])]
)
def test_progress_shows_count_rate_and_remaining_time(monkeypatch, total, shown):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert list(text_io.with_progress(iter(["a", "b"]), "lines", output="target.txt", total=total)) == [
        "a",
        "b",
    ]
    for part in shown:
        assert part in sys.stderr.getvalue()


def test_progress_needs_a_terminal(capsys):
    assert list(text_io.with_progress(iter(["a", "b"]), "lines", output="-", total=2)) == ["a", "b"]
    assert capsys.readouterr().err == ""
