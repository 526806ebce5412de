"""A server of an exported int8 model starts without PyTorch."""

from pathlib import Path

import pytest

from tests.running_server import running_server
from tests.small_runs import dragoman
from tests.untrained_runs import finished_run

BODY = {"q": "two dogs play .", "source": "en", "target": "de"}


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="reads the libraries of the server from /proc")
def test_pytorch_is_not_loaded(tmp_path):
    finished_run(tmp_path / "run")
    assert dragoman("export", "run", "--compute-type", "int8", "--out", "int8", cwd=tmp_path).returncode == 0
    with running_server(tmp_path, "en-de=int8") as server:
        assert server.post("/translate", BODY)[0] == 200
        assert server.post("/translate", BODY | {"source": "auto"})[0] == 200
        assert server.get("/languages")
        maps = Path(f"/proc/{server.process.pid}/maps").read_text()
    assert "dragoman_cpu" in maps
    assert "torch" not in maps
