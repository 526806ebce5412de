"""Processes that a case may end or hang: forks of one interpreter that has imported what they need."""

import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

HANG_SECONDS = 60
"""A process that takes longer is taken for hung, also on a busy machine and under sanitizers."""


def run_in_forks(case: Callable[[int], None], count: int) -> NoReturn:
    """Run `case(number)` in `count` processes, one after another, each of which ends as any program of Python does.

    The exit code of this process is 1 if one of them crashed, hung or failed; standard error says why.
    """
    failures = 0
    for number in range(count):
        child = os.fork()
        if child == 0:
            signal.alarm(HANG_SECONDS)
            case(number)
            sys.exit()
        status = os.waitpid(child, 0)[1]
        if status != 0:
            failures += 1
            print(f"process {number} ended with status {status}", file=sys.stderr)
    sys.exit(failures > 0)
