"""`dragoman pull` and `push` as processes: environment, interruption, and what they leave behind."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import fairseq_models
from tests.hub_stand_in import COMMIT, Answer, StandIn, running
from tests.small_runs import environment
from tests.untrained_runs import finished_run

pytest.importorskip("huggingface_hub", reason="the extra `hub` is not installed")
pytestmark = pytest.mark.slow
NAME, WEIGHTS = "org/model", "checkpoint_best.pt"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[StandIn]:
    (tmp_path / "model").mkdir()
    fairseq_models.write_folder(tmp_path / "model", fairseq_models.settings())
    with running() as state:
        state.add_folder(NAME, tmp_path / "model")
        yield state


def variables(server: StandIn, folder: Path) -> dict[str, str]:
    hub = {"HF_ENDPOINT": server.url, "HF_TOKEN": "hf_secret", "HF_HOME": str(folder / "home")}
    return environment(folder) | hub | {"HF_HUB_DISABLE_XET": "1"}


def run(arguments: list[str], variables: dict[str, str], folder: Path) -> tuple[int, str]:
    """Run a command, and return its exit code and messages, which name no token."""
    command = [sys.executable, "-m", "dragoman", *arguments]
    found = subprocess.run(command, env=variables, cwd=folder, capture_output=True, text=True, check=False)
    assert "hf_secret" not in found.stdout + found.stderr
    return found.returncode, found.stderr


@pytest.mark.parametrize("name", ["SIGINT", "SIGKILL"])
def test_interrupted_pull_is_continued(name: str, server: StandIn, tmp_path: Path) -> None:
    content = server.repositories[NAME][WEIGHTS]
    hanging = server.hang(f"/{NAME}/resolve/{COMMIT}/{WEIGHTS}", Answer(200, {}, content[:2000], claimed=len(content)))
    arguments = ["pull", NAME, "--out", "run"]
    command = [sys.executable, "-m", "dragoman", *arguments]
    with hanging, subprocess.Popen(command, env=variables(server, tmp_path), cwd=tmp_path) as process:
        partial = tmp_path / "cache" / "hub" / "org--model" / COMMIT / f"{WEIGHTS}.partial"
        deadline = time.monotonic() + 120
        while not (partial.exists() and partial.stat().st_size == 2000):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(getattr(signal, name))
        process.wait(120)
    assert process.returncode in (128 + getattr(signal, name), -getattr(signal, name))
    assert [one.name for one in tmp_path.iterdir() if "run" in one.name] == []
    assert run(arguments, variables(server, tmp_path), tmp_path) == (0, "")
    assert server.requests[-1][2]["range"] == "bytes=2000-"
    assert not list((tmp_path / "cache" / "hub").iterdir())


def test_offline_environment_is_obeyed(server: StandIn, tmp_path: Path) -> None:
    offline = variables(server, tmp_path) | {"HF_HUB_OFFLINE": "1"}
    status, message = run(["pull", NAME, "--out", "run"], offline, tmp_path)
    assert (status, len(message.splitlines())) == (2, 1)
    assert message.startswith("dragoman: HF_HUB_OFFLINE is set")
    assert server.requests == []
    assert {one.name for one in tmp_path.iterdir()} == {"model"}


def test_pushed_run_is_pulled(server: StandIn, tmp_path: Path) -> None:
    assert run(["pull", NAME, "--out", "run"], variables(server, tmp_path), tmp_path) == (0, "")
    status, message = run(["push", "run", "org/copy"], variables(server, tmp_path), tmp_path)
    assert status == 0
    assert message.startswith("dragoman: uploads 7 files")
    assert run(["pull", "org/copy", "--out", "copy"], variables(server, tmp_path), tmp_path) == (0, "")
    weights = [(tmp_path / folder / "model.safetensors").read_bytes() for folder in ("run", "copy")]
    assert weights[0] == weights[1]


def test_graphs_of_onnx_are_pulled(server: StandIn, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")
    finished_run(tmp_path / "run")
    assert run(["push", "run", "org/graphs", "--format", "onnx"], variables(server, tmp_path), tmp_path)[0] == 0
    assert run(["pull", "org/graphs", "--out", "copy"], variables(server, tmp_path), tmp_path) == (0, "")
    assert {"encoder.onnx", "decoder.onnx"} <= {one.name for one in (tmp_path / "copy").iterdir()}
    assert b"library_name: onnx" in server.repositories["org/graphs"]["README.md"]
