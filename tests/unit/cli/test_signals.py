"""Ctrl-C, SIGTERM and SIGHUP as a flag."""

import os
import signal

import pytest

from dragoman.cli.signals import on_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
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


def test_ignored_hangup_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with on_signals() as interrupted:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not interrupted()
    finally:
        signal.signal(signal.SIGHUP, before)
