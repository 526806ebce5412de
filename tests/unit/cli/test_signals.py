"""Ctrl-C and SIGTERM as a question."""

import os
import signal

import pytest

from dragoman.cli.signals import on_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_an_answer_and_a_notice(number, capfd):
    with on_signals() as interrupted:
        assert not interrupted()
        os.kill(os.getpid(), number)
        assert interrupted()
        os.kill(os.getpid(), signal.SIGTERM)  # a second SIGTERM changes nothing
        assert interrupted()
    assert capfd.readouterr().err.count("stopping at the next safe place") == 1


def test_ctrl_c_once_more_leaves_at_once():
    with on_signals():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_afterwards_signals_do_what_they_did():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with on_signals():
        assert signal.getsignal(signal.SIGINT) is not before[0]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
