"""Audit of dependencies: what it audits, and its exit code."""

import importlib.util
import json
import subprocess
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
HOLE = {"id": "PYSEC-1", "fix_versions": ["2.0", "1.9.1"]}


@pytest.fixture
def audit() -> ModuleType:
    spec = importlib.util.spec_from_file_location("audit", ROOT / ".ci" / "audit.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answer(audit: ModuleType, monkeypatch: pytest.MonkeyPatch, output: str) -> None:
    """Let pip-audit print this output."""
    done = subprocess.CompletedProcess((), 1, stdout=output.encode())
    monkeypatch.setattr(audit.subprocess, "run", lambda *_, **__: done)


def test_oldest_versions_are_those_of_users(audit):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = dict(pin.split("==") for pin in audit.oldest_versions(project))
    assert {"torch", "numpy", "ray", "pyarrow"} <= set(pins)
    assert not {"pytest", "dragoman"} & set(pins)
    tested = dict(
        line.split("==")
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if line[0] != "#"
    )
    assert not [name for name, floor in pins.items() if numbers(floor) > numbers(tested[name])]


def numbers(version: str) -> list[int]:
    return list(map(int, version.split(".")))


def test_installed_versions_are_dependencies(audit):
    names = {pin.split("==")[0] for pin in audit.installed_versions()}
    assert {"torch", "pytest", "markdown-it-py"} <= names
    assert not {"pip", "dragoman"} & names
    assert not any("+" in pin for pin in audit.installed_versions())


def test_hole_fails_and_is_named(audit, monkeypatch, capsys):
    found = {"dependencies": [{"name": "a", "version": "1", "vulns": [HOLE]}, {"name": "b", "skip_reason": "unknown"}]}
    answer(audit, monkeypatch, json.dumps(found))
    assert audit.main() == 1
    assert capsys.readouterr().err.splitlines() == ["a 1: PYSEC-1, fixed in 2.0, 1.9.1"] * 2


def test_no_hole_passes(audit, monkeypatch, capsys):
    answer(audit, monkeypatch, json.dumps({"dependencies": [{"name": "a", "version": "1", "vulns": []}]}))
    assert audit.main() == 0
    assert "1 oldest accepted versions audited" in capsys.readouterr().out


@pytest.mark.parametrize("output", ["", "Traceback", '{"dependencies": [{"name": "a", "skip_reason": "not found"}]}'])
def test_list_out_of_reach_is_said_and_passes(audit, monkeypatch, capsys, output):
    answer(audit, monkeypatch, output)
    assert audit.main() == 0
    assert "NOTHING WAS AUDITED" in capsys.readouterr().out
