"""Hostile texts and files: the server answers others, ends work of clients that left, and gives memory back."""

import sys
from pathlib import Path

import pytest

from benchmarks.hostile_requests.hostile_requests import measure
from tests.untrained_runs import finished_run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads processor time and memory from /proc")
BUSY_MACHINE = 3.0
"""Factor of the allowed seconds: tests share their processors."""


@pytest.mark.slow
# http.client leaves the socket of an answer open that does not begin in time.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_hostile_requests_disturb_no_other_client(tmp_path: Path):
    finished_run(tmp_path / "run")
    found = measure(str(tmp_path / "run"), "en-de", count=30, clients=2, largest=5_000)
    assert found["health_failed"] == 0
    assert found["health_checks"] > 100
    assert found["health_max_seconds"] < 0.5 * BUSY_MACHINE
    assert found["processor_seconds_after_leaving"] < 1.0, "of 2.0; a worker that replaces a killed one starts"
    assert found["seconds_to_stop"] < 2 * BUSY_MACHINE
    assert found["memory_above_limit"] == []
    assert not {"500", "0"} & found["statuses"].keys()
