"""Ctrl-C and SIGTERM as a flag."""

import os
import signal

import pytest

from dragoman.cli.training_display import on_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_first_signal_sets_the_flag_and_prints_a_notice(number, capfd):
    with on_signals() as interrupted:
        assert not interrupted()
        os.kill(os.getpid(), number)
        assert interrupted()
        os.kill(os.getpid(), signal.SIGTERM)  # a second SIGTERM changes nothing
        assert interrupted()
    assert capfd.readouterr().err.count("stopping at the next safe point") == 1


def test_second_ctrl_c_raises_keyboard_interrupt():
    with on_signals():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_handlers_are_restored():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with on_signals():
        assert signal.getsignal(signal.SIGINT) is not before[0]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
