"""What a person is shown of the way through a file."""

import io
import sys

import pytest

from dragoman.cli import streams


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("text", "lines"), [("", 0), ("a\n", 1), ("a\n\nb\n", 3), ("a\nb", 2)])
def test_the_lines_of_a_file_are_counted_as_they_will_be_read(tmp_path, text, lines):
    path = tmp_path / "source.txt"
    path.write_bytes(text.encode())
    assert streams.number_of_lines(str(path)) == lines


def test_what_can_be_read_only_once_or_is_compressed_is_not_counted(tmp_path):
    (tmp_path / "source.txt.gz").write_bytes(b"\n")
    for name in ("-", str(tmp_path / "source.txt.gz"), str(tmp_path)):
        assert streams.number_of_lines(name) is None


@pytest.mark.parametrize(
    ("total", "shown"), [(None, ["2 lines", "lines/s"]), (7, ["2 of 7 lines", "lines/s", "left:"])]
)
def test_number_and_rate_are_shown_and_the_time_left_where_the_total_is_known(monkeypatch, total, shown):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert list(streams.counted(iter(["a", "b"]), "lines", out="target.txt", total=total)) == ["a", "b"]
    for part in shown:
        assert part in sys.stderr.getvalue()


def test_nothing_is_shown_where_nobody_watches(capsys):
    assert list(streams.counted(iter(["a", "b"]), "lines", out="-", total=2)) == ["a", "b"]
    assert capsys.readouterr().err == ""
