"""Line counts and the progress of a file."""

import io
import sys

import pytest

from dragoman.cli import messages, text_io
from dragoman.data.readers.line_reader import ReadWarnings
from dragoman.errors import StoppedError


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


def test_written_lines_are_reported(tmp_path, capsys):
    output = tmp_path / "out"
    messages.start()
    text_io.write_lines(iter(["a", "b"]), str(output), ReadWarnings())
    assert capsys.readouterr().err == f"dragoman: {output}: 2 lines\n"
    text_io.write_lines(iter(["a"]), str(output), ReadWarnings())
    assert capsys.readouterr().err == f"dragoman: {output}: 1 line, which replaced the former file\n"
    messages.start("quiet")
    text_io.write_lines(iter(["a"]), str(output), ReadWarnings())
    text_io.write_lines(iter(["a"]), "-", ReadWarnings())
    assert capsys.readouterr() == ("a\n", "")
    messages.start()


def stopping(stop: BaseException, *lines: str):
    yield from lines
    raise stop


@pytest.mark.parametrize(("stop", "number"), [(KeyboardInterrupt(), 2), (SystemExit(143), 15)])
def test_a_stopped_output_keeps_its_lines_in_a_file_of_their_own(stop, number, tmp_path):
    output = tmp_path / "output.txt"
    output.write_text("before\n", encoding="utf-8")
    with pytest.raises(StoppedError, match=r"Stopped after 2 lines, kept in .*\.partial; .* is unchanged") as found:
        text_io.write_lines(stopping(stop, "a", "b"), str(output), ReadWarnings())
    assert found.value.signal_number == number
    assert output.read_text(encoding="utf-8") == "before\n"
    assert (tmp_path / "output.txt.partial").read_text(encoding="utf-8") == "a\nb\n"
    assert len(list(tmp_path.iterdir())) == 2
    with pytest.raises(StoppedError, match=r"Stopped after 1 line; .* is unchanged"):  # replaces no file
        text_io.write_lines(stopping(KeyboardInterrupt(), "c"), str(output), ReadWarnings())
    assert (tmp_path / "output.txt.partial").read_text(encoding="utf-8") == "a\nb\n"


def test_a_stop_without_a_file_is_no_error_of_the_output(capsys):
    with pytest.raises(KeyboardInterrupt):
        text_io.write_lines(stopping(KeyboardInterrupt(), "a"), "-", ReadWarnings())
    assert capsys.readouterr().out == "a\n"


@pytest.mark.parametrize(("tabs", "is_noted"), [(19, True), (3, False)])
def test_input_with_several_columns_gives_a_warning(tabs, is_noted, tmp_path, capsys):
    path = tmp_path / "heldout.tsv"
    lines = ["two dogs\tzwei Hunde"] * tabs + ["no tab"] * (20 - tabs)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    assert text_io.read_all(str(path)) == lines
    warning = f"dragoman: warning: {path}: 19 of the first 20 lines contain a tab, and are read as one text; cut -f1"
    assert capsys.readouterr().err.startswith(warning) is is_noted
