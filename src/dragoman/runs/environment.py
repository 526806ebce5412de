"""What a result depends on besides the configuration: versions, device, seed, code and corpora."""

import platform
import subprocess
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from dragoman.data.tokenizers import Tokenizer
from dragoman.nn.cpu_ops import instructions_for


def environment(
    *, device: torch.device, seed: int, tokenizer: Tokenizer, corpora: Mapping[str, str], workers: int = 1
) -> dict[str, Any]:
    """The facts as JSON holds them. Corpora are named without their folders, which are nobody else's business."""
    return {
        "dragoman": version("dragoman"),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "device": str(device),
        "threads": torch.get_num_threads(),
        "core": core_in_words(device),
        "workers": workers,
        "seed": seed,
        "git": _git_revision(),
        "tokenizer": tokenizer.fingerprint,
        "corpora": [{"file": Path(path).name, "sha256": digest} for path, digest in corpora.items()],
    }


def what_changed(began: Mapping[str, Any], *, device: torch.device, workers: int = 1) -> list[str]:
    """In what the machine differs from the one where a run began, as far as sums in another order may come of it."""
    now = {
        "torch": torch.__version__,
        "device": str(device),
        "threads": torch.get_num_threads(),
        "core": core_in_words(device),
        "workers": workers,
    }
    return [f"{name} {began[name]} then, {value} now" for name, value in now.items() if began.get(name, value) != value]


def core_in_words(device: torch.device) -> str:
    """The instructions that the compiled core trains with here, or that it does not."""
    return instructions_for(device) or "none"


def _git_revision() -> str | None:
    """The revision of the checkout this package runs from, marked where it was changed since; None elsewhere."""
    here = Path(__file__)
    if _git(here.parent, "ls-files", "--error-unmatch", here.name) is None:
        return None  # installed, perhaps inside the checkout of something else
    return _git(here.parent, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(folder), *arguments]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=5)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip()
