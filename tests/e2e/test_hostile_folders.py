"""A folder from a stranger is refused with one message, and in bounded time and memory, whatever its files contain."""

import pytest

from tests.hostile_cases import CASES, may_succeed
from tests.hostile_process import MEBIBYTE, SECONDS, HostileProcess
from tests.property_settings import FULL

pytestmark = pytest.mark.slow

MEMORY = 300 * MEBIBYTE
"""Memory, in addition to four times the size of the folder."""
LINES = 3
TESTED = list(CASES) if FULL else list(CASES)[::2]
"""Every second case, because each takes a second; all of them with DRAGOMAN_TESTS=full."""


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    started = HostileProcess(tmp_path_factory.mktemp("hostile"))
    yield started
    started.close()


def test_table_is_large():
    assert len(TESTED) >= 400


@pytest.mark.parametrize("name", TESTED)
def test_hostile_folder_is_refused(name, process):
    outcome = process.run(name)
    message = outcome.stderr[outcome.stderr.rfind("dragoman: ") :]
    if outcome.code == 0:
        assert may_succeed(CASES[name]), outcome.stdout
    else:
        assert outcome.code == 2, outcome.stderr
        assert message.startswith("dragoman: ")
        assert len(message.strip().splitlines()) <= LINES, message
    assert all(letter in "\n\t" or ord(letter) >= ord(" ") for letter in outcome.stdout + outcome.stderr)
    assert outcome.outside == []
    assert outcome.seconds <= SECONDS
    assert outcome.memory <= 4 * outcome.size + MEMORY
