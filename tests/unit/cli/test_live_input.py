"""Lines of a pipe: complete, split at line feeds, and ready without waiting."""

import os
import sys
from pathlib import Path

import pytest

from dragoman.cli.live_input import PipeReader, standard_input
from dragoman.data.readers.line_reader import read_stream_lines


@pytest.fixture
def pipe():
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream, os.fdopen(writing, "wb", buffering=0) as sink:
        yield PipeReader(stream), sink


def test_lines_are_ready_when_they_are_complete(pipe):
    reader, sink = pipe
    assert not reader.is_ready(0.0)
    sink.write(b"one\ntw")
    assert reader.is_ready(0.0)
    assert reader.readline(99) == b"one\n"
    assert not reader.is_ready(0.0)
    sink.write(b"o\nthree")
    assert reader.readline(99) == b"two\n"
    sink.close()
    assert reader.is_ready(0.0)
    assert [reader.readline(99), reader.readline(99)] == [b"three", b""]


def test_long_lines_are_cut(pipe):
    reader, sink = pipe
    sink.write(b"abcdef\ng")
    sink.close()
    assert [reader.readline(4) for _ in range(4)] == [b"abcd", b"ef\n", b"g", b""]


def test_pipe_has_the_lines_of_a_file(pipe, tmp_path):
    reader, sink = pipe
    content = "".join(f"{'x' * (number % 97)}{number}\n" for number in range(600)).encode()
    sink.write(content)
    sink.close()
    (tmp_path / "file").write_bytes(content)
    with (tmp_path / "file").open("rb") as file:
        expected = list(read_stream_lines(file, Path("-")))
    assert list(read_stream_lines(reader, Path("-"))) == expected


def test_file_as_standard_input_does_not_pause(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("a\n")
    with (tmp_path / "file").open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert standard_input() is file.buffer
