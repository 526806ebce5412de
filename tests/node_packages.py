"""Packages of npm for tests: installed once into a cache, in the versions of a lock file."""

import os
import shutil
import subprocess
import tempfile
from hashlib import sha256
from pathlib import Path

import pytest

TIMEOUT = 240


def node_folder(project: Path, folder: Path) -> Path:
    """Return `folder` with the scripts and the packages of an npm project, whose installation is cached.

    Skips the test where npm is missing or cannot download.
    """
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("needs node and npm")
    folder.mkdir(parents=True, exist_ok=True)
    for script in project.glob("*.mjs"):
        shutil.copy(script, folder)
    (folder / "node_modules").symlink_to(_installed(project))
    return folder


def run_node(*arguments: object, cwd: Path) -> str:
    """Run a script, and return what it prints."""
    command = ["node", *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _installed(project: Path) -> Path:
    """Return the folder of the packages of a lock file. An interrupted installation leaves nothing behind."""
    names = ("package.json", "package-lock.json")
    digest = sha256(b"".join((project / name).read_bytes() for name in names)).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dragoman-tests"
    target = cache / f"node-{digest}"
    if not target.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as temporary:
            partial = Path(temporary, "packages")
            partial.mkdir()
            for name in names:
                shutil.copy(project / name, partial)
            options = ["--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1", "--fetch-timeout=20000"]
            try:
                done = subprocess.run(
                    ["npm", "ci", *options], cwd=partial, capture_output=True, text=True, timeout=TIMEOUT, check=False
                )
            except subprocess.TimeoutExpired:
                pytest.skip("npm cannot download packages in time")
            if done.returncode != 0:
                pytest.skip(f"npm cannot install packages: {done.stderr[-500:]}")
            if not target.exists():  # another process may have been faster
                partial.rename(target)
    return target / "node_modules"
