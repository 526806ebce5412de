"""The files in `deploy` are valid, and agree with each other and with the settings of the server."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from dragoman.serving.read_settings import ENVIRONMENT, read_settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def _check(command: str, *arguments: object) -> str:
    """Run a program that checks a file, or skip the test where the program is missing."""
    program = shutil.which(command, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if program is None:
        pytest.skip(f"needs {command}")
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def _instructions() -> list[tuple[str, str]]:
    parser = pytest.importorskip("dockerfile_parse", reason="reads the Dockerfile").DockerfileParser
    return [(one["instruction"], one["value"]) for one in parser(str(DEPLOY / "Dockerfile")).structure]


def test_the_dockerfile_has_no_findings():
    assert _check("hadolint", DEPLOY / "Dockerfile") == ""


def test_the_image_runs_as_a_user_without_rights():
    last = {name: value for name, value in _instructions() if name in ("USER", "STOPSIGNAL", "VOLUME", "WORKDIR")}
    assert last == {"USER": "10001", "STOPSIGNAL": "SIGTERM", "VOLUME": "/models", "WORKDIR": "/models"}


def test_docker_ignores_all_but_what_is_copied():
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    copied = [word for name, value in _instructions() if name == "COPY" and "--" not in value for word in value.split()]
    allowed = {line.removeprefix("!") for line in lines if line.startswith("!")}
    assert lines[0] == "*"
    assert allowed == {word for word in copied if word != "./"}
    assert all((ROOT / word).exists() for word in allowed)


def test_the_compose_file_follows_its_schema():
    _check("check-jsonschema", "--builtin-schema", "vendor.compose-spec", DEPLOY / "compose.yaml")


def test_the_compose_file_sets_what_the_server_and_the_image_know():
    [service] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"].values()
    settings = read_settings(None, {}, environment=service["environment"])
    assert all(name.startswith(ENVIRONMENT) for name in service["environment"])
    assert settings.trusted_proxies == ("172.16.0.0/12",)
    port = service["ports"][0].rpartition(":")[2]
    assert dict(_instructions())["EXPOSE"] == port
    assert service["volumes"] == ["./models:/models:ro"]
    assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).samefile(DEPLOY / "Dockerfile")


def test_systemd_accepts_the_unit(tmp_path):
    unit = (DEPLOY / "dragoman@.service").read_text().replace("/opt/dragoman/bin/dragoman", "/bin/true")
    instance = tmp_path / "dragoman@8000.service"
    instance.write_text(unit)
    assert _check("systemd-analyze", "verify", instance) == ""
    exposure = re.search(
        r"exposure level for \S+: (\S+)", _check("systemd-analyze", "security", "--offline=yes", instance)
    )
    assert exposure is not None
    assert float(exposure[1]) < 2


def test_caddy_accepts_its_file():
    _check("caddy", "validate", "--adapter", "caddyfile", "--config", DEPLOY / "Caddyfile")
