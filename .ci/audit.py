"""Compare installed packages, and the oldest versions that dragoman accepts, with the public list of known holes.

Exit code 1 where a version has a known hole. Without an answer from the list, a message says that nothing was audited,
and the exit code is 0: a network that is out of reach is no hole.
"""

import importlib.metadata
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
UNAUDITED_EXTRAS = ("all", "check", "dev")
"""Extras of other extras, and of tools that only contributors install: the installed versions of these are audited."""
OWN = ("dragoman", "dragoman-cpu", "pip", "setuptools")
"""Installed packages that are no dependencies: this project, and what every virtual environment starts with."""
LIMIT_SECONDS = 120


def oldest_versions(project: dict[str, Any]) -> list[str]:
    """Return the floors of a project's requirements, such as `numpy>=1.26`, as pins."""
    extras = project["optional-dependencies"]
    named = [
        *project["dependencies"],
        *(one for name in extras if name not in UNAUDITED_EXTRAS for one in extras[name]),
    ]
    return sorted({re.sub(r"\[.*?\]", "", one).replace(">=", "==") for one in named})


def installed_versions() -> list[str]:
    """Return the packages of this environment as pins, without the label of a build, such as +cpu."""
    found = {one.metadata["Name"].lower(): one.version.partition("+")[0] for one in importlib.metadata.distributions()}
    return sorted(f"{name}=={version}" for name, version in found.items() if name not in OWN)


def audit(pins: list[str]) -> list[dict[str, Any]] | None:
    """Return the packages as pip-audit reports them; None if the list of holes gave no answer for any of them."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "requirements.txt")
        file.write_text("\n".join(pins), encoding="utf-8")
        options = ("--requirement", str(file), "--no-deps", "--disable-pip", "--format", "json", "--timeout", "5")
        command = [sys.executable, "-m", "pip_audit", *options, "--progress-spinner", "off"]
        try:
            done = subprocess.run(command, capture_output=True, timeout=LIMIT_SECONDS, check=False)  # noqa: S603
            packages: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
        except (subprocess.TimeoutExpired, json.JSONDecodeError):
            return None
    return packages if any("vulns" in one for one in packages) else None


def describe_holes(packages: list[dict[str, Any]]) -> list[str]:
    """Return one line for each known hole."""
    return [
        f"{one['name']} {one['version']}: {hole['id']}, fixed in {', '.join(hole['fix_versions']) or 'no version'}"
        for one in packages
        for hole in one.get("vulns", ())
    ]


def main() -> int:
    """Audit both sets of versions; return the exit code."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    holes: list[str] = []
    for name, pins in {"oldest accepted": oldest_versions(project), "installed": installed_versions()}.items():
        packages = audit(pins)
        if packages is None:
            print("The list of known holes is out of reach: NOTHING WAS AUDITED. Run make audit with a network.")
            return 0
        skipped = [one["name"] for one in packages if "vulns" not in one]
        print(
            f"{len(packages) - len(skipped)} {name} versions audited; not on the list: {', '.join(skipped) or 'none'}"
        )
        holes += describe_holes(packages)
    for hole in holes:
        print(hole, file=sys.stderr)
    return int(bool(holes))


if __name__ == "__main__":
    importlib.metadata.version("pip-audit")  # without it, the list would seem out of reach
    sys.exit(main())
