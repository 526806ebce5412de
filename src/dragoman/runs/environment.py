"""Devices, and the environment of a run: versions, device, seed, code and corpora."""

import platform
import subprocess
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from dragoman.data.tokenizers import Tokenizer
from dragoman.errors import ConfigError
from dragoman.nn.cpu_ops import cpu_ops_instruction_set


def collect_environment(
    *, device: torch.device, seed: int, tokenizer: Tokenizer, corpora: Mapping[str, str], num_workers: int = 1
) -> dict[str, Any]:
    """The facts as JSON holds them. Corpora are named without their folders, which are nobody else's business."""
    return {
        "dragoman": version("dragoman"),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "device": str(device),
        "threads": torch.get_num_threads(),
        "cpu_ops": cpu_ops_instructions(device),
        "num_workers": num_workers,
        "seed": seed,
        "git": _git_revision(),
        "tokenizer": tokenizer.fingerprint,
        "corpora": [{"file": Path(path).name, "sha256": digest} for path, digest in corpora.items()],
    }


def environment_changes(began: Mapping[str, Any], *, device: torch.device, num_workers: int = 1) -> list[str]:
    """In what the machine differs from the one where a run began, as far as sums in another order may come of it."""
    now = {
        "torch": torch.__version__,
        "device": str(device),
        "threads": torch.get_num_threads(),
        "cpu_ops": cpu_ops_instructions(device),
        "num_workers": num_workers,
    }
    return [f"{name} {began[name]} then, {value} now" for name, value in now.items() if began.get(name, value) != value]


def cpu_ops_instructions(device: torch.device) -> str:
    """The instructions that the compiled core trains with here, or that it does not."""
    return cpu_ops_instruction_set(device) or "none"


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


DEVICES = ("cpu", "cuda", "mps")


def choose_device(name: str | None = None) -> torch.device:
    """The device a person named, or CUDA, Apple's MPS and the CPU in this order; raises ConfigError if not there."""
    if name is None:
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ConfigError(f"--device {name}: not available here; leave it out to have one chosen") from error
    if device.type not in DEVICES:
        raise ConfigError(f"--device {name}: not one of {', '.join(DEVICES)}; leave it out to have one chosen")
    return device


def describe_device(device: torch.device) -> str:
    """The device in words."""
    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    return f"{device} ({torch.get_num_threads()} threads)" if device.type == "cpu" else str(device)
