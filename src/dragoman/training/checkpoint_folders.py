"""Folders of the checkpoints of a run, which are found without importing PyTorch."""

import re
from pathlib import Path

_NAME = re.compile(r"[0-9]{9}|[1-9][0-9]{9,17}")


def checkpoint_folder(checkpoints: Path, step: int) -> Path:
    """Return the folder of the checkpoint of a step."""
    return checkpoints / f"{step:09d}"


def checkpoint_steps(checkpoints: Path) -> list[int]:
    """Return the steps of all checkpoints in a folder, oldest first; a link is no checkpoint."""
    names = [path.name for path in checkpoints.glob("[0-9]*") if path.is_dir() and not path.is_symlink()]
    return sorted(int(name) for name in names if _NAME.fullmatch(name))
