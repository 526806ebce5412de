"""Exit codes and error messages of the command line."""

import errno

import pytest

from dragoman.cli import main
from dragoman.errors import ConfigError, StoppedError


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ConfigError("a.yaml: warmpu: no such key"), 2, "dragoman: a.yaml: warmpu: no such key\n"),
        (
            OSError(errno.ENOSPC, "No space left on device", "runs/x"),
            2,
            "dragoman: runs/x: no space is left. Free some space",
        ),
        (OSError(errno.ENOSPC, "No space left on device"), 2, "dragoman: the disk: no space is left"),
        (
            PermissionError(errno.EACCES, "Permission denied", "/root/x"),
            2,
            "dragoman: /root/x: Permission denied. Check the path",
        ),
        (KeyError("lost"), 1, "dragoman: unexpected KeyError: 'lost'\nThis is an error in dragoman"),
        (OSError("no file is named"), 1, "dragoman: unexpected OSError: no file is named\n"),
        (OSError(errno.EBADF, "Bad file descriptor"), 2, "dragoman: standard input or output cannot be used (Bad file"),
        (KeyboardInterrupt(), 130, ""),
        (StoppedError("stopped. Continue with: x"), 130, "dragoman: stopped. Continue with: x\n"),
    ],
)
def test_errors_give_an_exit_code_and_one_message(error, code, message, monkeypatch, capsys):
    def failing(*_arguments: object, **_options: object) -> None:
        raise error

    monkeypatch.setattr(main, "build_command", lambda _verb: failing)
    assert main.run(["demo"], debug=False) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(message)
    assert "Traceback" not in captured.err


def test_debug_adds_the_traceback(monkeypatch, capsys):
    def failing(*_arguments: object, **_options: object) -> None:
        raise ConfigError("wrong")

    monkeypatch.setattr(main, "build_command", lambda _verb: failing)
    assert main.run([], debug=True) == 2
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "left", "debug"),
    [
        (["train", "--debug", "--out", "x"], ["train", "--out", "x"], True),
        (["train", "--", "--debug"], ["train", "--", "--debug"], False),
        (["--debug", "train", "--", "x"], ["train", "--", "x"], True),
        ([], [], False),
    ],
)
def test_debug_is_removed_from_arguments(arguments, left, debug):
    assert main._without_debug(arguments) == (left, debug)


@pytest.mark.parametrize(
    ("arguments", "ordered"),
    [
        (["--quiet", "data", "prepare"], ["data", "prepare", "--quiet"]),
        (["--verbose", "bench", "--", "x"], ["bench", "--verbose", "--", "x"]),
        (["train", "--quiet"], ["train", "--quiet"]),
        (["--quiet"], ["--quiet"]),
    ],
)
def test_level_flags_move_behind_the_verb(arguments, ordered):
    assert main._level_flags_last(arguments) == ordered


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"GOMP_SPINCOUNT": "2000"}),
        ({"GOMP_SPINCOUNT": "7"}, {"GOMP_SPINCOUNT": "7"}),
        ({"OMP_WAIT_POLICY": "active"}, {"OMP_WAIT_POLICY": "active"}),
    ],
)
def test_waiting_threads_spin_briefly_unless_set(monkeypatch, given, expected):
    environment = dict(given)
    monkeypatch.setattr(main.os, "environ", environment)
    main._set_library_defaults()
    names = {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}
    assert {name: environment[name] for name in names & environment.keys()} == expected
