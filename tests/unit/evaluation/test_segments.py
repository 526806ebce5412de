import io

import pytest

from dragoman.errors import DataError
from dragoman.evaluation import read_segments


def test_lines_end_with_lf_or_crlf_only(tmp_path):
    path = tmp_path / "outputs"
    path.write_bytes("\ufeffone\r\n\ntw\u2028o\x0c \x85\nlast".encode())
    assert read_segments(str(path)) == ["one", "", "tw\u2028o\x0c \x85", "last"]


def test_a_dash_is_standard_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("á\nb\n".encode())))
    assert read_segments("-") == ["á", "b"]


def test_faults_name_the_file_and_the_line(tmp_path):
    latin = tmp_path / "latin"
    latin.write_bytes(b"plain\nd\xe9j\xe0\n")
    empty = tmp_path / "empty"
    empty.touch()
    for path, message in [
        (latin, "latin, line 2: is not UTF-8"),
        (empty, "empty: is empty"),
        (tmp_path / "missing", "missing: cannot be read"),
        (tmp_path, "cannot be read"),
    ]:
        with pytest.raises(DataError, match=message):
            read_segments(str(path))
