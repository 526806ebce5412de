"""The steps of the Dockerfile, in a folder that stands for the image: no Docker runs where the tests run."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.untrained_runs import finished_run

ROOT = Path(__file__).parents[3]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
AS_ROOT = ("apt-get", "useradd")
"""Commands that change the system; the tests leave them out."""

pytest.importorskip("dockerfile_parse", reason="reads the Dockerfile")


class Image:
    """Folder in which the instructions of a Dockerfile are carried out, with its absolute paths below the folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root
        self.variables = {"PIP_NO_COMPILE": "1"}  # no test looks at compiled Python
        self.command: list[str] = []
        self.health: list[str] = []

    def inside(self, text: str) -> str:
        """Return a text in which the paths of the image are those below the folder."""
        for path in ("/opt/", "/source", "/models"):
            text = text.replace(path, f"{self.root}{path}")
        return text

    def environment(self) -> dict[str, str]:
        return {**{name: os.environ[name] for name in os.environ if not name.startswith("PYTHON")}, **self.variables}

    def carry_out(self, instruction: str, value: str) -> None:
        match instruction:
            case "ENV":
                for name, _, text in (one.partition("=") for one in value.split()):
                    self.variables[name] = self.inside(text.replace("$PATH", os.environ["PATH"]))
            case "WORKDIR":
                self.folder = self.root / value.lstrip("/")
                self.folder.mkdir(parents=True, exist_ok=True)
            case "COPY" if not value.startswith("--from"):
                *sources, target = value.split()
                for source in sources:
                    self._copy(ROOT / source, self.folder / (source if target == "./" else target))
            case "RUN" if not value.startswith(AS_ROOT):
                done = subprocess.run(
                    ["sh", "-c", self.inside(value)],
                    cwd=self.folder,
                    env=self.environment(),
                    capture_output=True,
                    text=True,
                )
                assert done.returncode == 0, done.stderr
            case "HEALTHCHECK":
                self.health = json.loads(value.partition("CMD ")[2])
            case "ENTRYPOINT" | "CMD":
                self.command += json.loads(value)

    @staticmethod
    def _copy(source: Path, target: Path) -> None:
        if source.name == "native":
            target.symlink_to(source)  # what is compiled there is not compiled again
        elif source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    from dockerfile_parse import DockerfileParser

    if shutil.which("c++") is None:
        pytest.skip("needs a C++ compiler")
    python = Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}")
    image = Image(tmp_path_factory.mktemp("image"))
    (image.root / "bin").mkdir()
    (image.root / "bin" / "python").symlink_to(python)
    image.variables["PATH"] = f"{image.root / 'bin'}:{os.environ['PATH']}"
    for step in DockerfileParser(str(DOCKERFILE)).structure:
        image.carry_out(step["instruction"], step["value"])
    return image


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_steps_of_the_image_make_a_server(image: Image):
    finished_run(image.root / "models" / "en-de")
    (image.root / "models" / "server.yaml").write_text("models: [en-de=en-de]\nport: 1\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    image.variables |= {"DRAGOMAN_SERVE_HOST": "127.0.0.1", "DRAGOMAN_SERVE_PORT": str(port)}
    health = [word.replace(":8000/", f":{port}/") for word in image.health]
    assert health != image.health
    process = subprocess.Popen(image.command, cwd=image.folder, env=image.environment(), stderr=subprocess.PIPE)
    assert process.stderr is not None
    try:
        assert any(b"startup complete" in line for line in iter(process.stderr.readline, b""))
        healthy = subprocess.run(health, env=image.environment(), capture_output=True)
        assert healthy.returncode == 0, healthy.stderr
        with urlopen(f"http://127.0.0.1:{port}/languages", timeout=30) as response:
            assert [one["code"] for one in json.load(response)] == ["en"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 128 + signal.SIGTERM
        assert subprocess.run(health, env=image.environment(), capture_output=True).returncode != 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_the_image_has_the_compiled_library(image: Image):
    check = "import dragoman_cpu, dragoman, torch; print(dragoman.__file__, torch.version.cuda)"
    found = subprocess.run(["python", "-c", check], cwd="/", env=image.environment(), capture_output=True, text=True)
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.startswith(str(image.root / "opt" / "dragoman"))
