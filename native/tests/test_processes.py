"""Processes that end, fork, change arrays or receive a signal while a thread is inside the library."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from native.tests.process_cases import CASES
from tests.property_settings import FAST

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("case", CASES)
def test_process_survives(case: str) -> None:
    """Run each case in processes of their own; each interruption takes a call of another kind."""
    count = 4 if FAST else 50
    command = [sys.executable, "-m", "native.tests.process_cases", case, str(count)]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert finished.returncode == 0, finished.stderr
