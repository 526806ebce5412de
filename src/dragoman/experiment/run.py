"""The folder of a run: all that is needed to use, explain and continue it."""

import json
import platform
import subprocess
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, final

import torch

from dragoman.config import to_yaml
from dragoman.data.tokenizer import Tokenizer
from dragoman.errors import RunError
from dragoman.experiment.config import Experiment, read_experiment
from dragoman.files import write_atomically


@final
@dataclass(frozen=True)
class RunFolder:
    """Names of what lies in the folder, and the checks that keep one run from harming another."""

    path: Path

    @property
    def config(self) -> Path:
        return self.path / "config.yaml"

    @property
    def tokenizer(self) -> Path:
        return self.path / "tokenizer.json"

    @property
    def weights(self) -> Path:
        return self.path / "model.safetensors"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def environment(self) -> Path:
        return self.path / "environment.json"

    @property
    def scores(self) -> Path:
        return self.path / "scores.json"

    @property
    def card(self) -> Path:
        return self.path / "README.md"

    def begin(self) -> None:
        """Make the folder; raises RunError where something is in it already."""
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise RunError(
                f"{self.path}: exists already and is never overwritten; go on with it by --resume, or choose "
                "another place by --out"
            )
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"{self.path}: cannot be made ({error.strerror}); choose another place by --out") from error

    def check(self) -> None:
        """Raises RunError where this is no run folder."""
        if not self.config.is_file():
            raise RunError(
                f"{self.path}: no run folder (it holds no config.yaml); give the folder that training wrote to"
            )

    def write_config(self, experiment: Experiment) -> None:
        write_atomically(self.config, to_yaml(experiment))

    def read_config(self) -> Experiment:
        self.check()
        return read_experiment(self.config)

    def read_tokenizer(self) -> Tokenizer:
        """The run's own tokenizer; raises RunError where the file is another run's."""
        tokenizer = Tokenizer.load(self.tokenizer)
        expected = self.read_environment().get("tokenizer")
        if expected is not None and expected != tokenizer.fingerprint:
            raise RunError(
                f"{self.tokenizer}: is not the tokenizer this run was trained with; put back the original file"
            )
        return tokenizer

    def read_environment(self) -> dict[str, Any]:
        return _read_json(self.environment)

    def read_scores(self) -> dict[str, Any]:
        return _read_json(self.scores)


def environment(*, device: torch.device, seed: int, tokenizer: Tokenizer, corpora: dict[str, str]) -> dict[str, Any]:
    """What a result depends on besides the configuration. Corpora are named without their folders."""
    return {
        "dragoman": version("dragoman"),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "device": str(device),
        "threads": torch.get_num_threads(),
        "seed": seed,
        "git": _git_revision(),
        "tokenizer": tokenizer.fingerprint,
        "corpora": {Path(name).name: digest for name, digest in corpora.items()},
    }


def _git_revision() -> str | None:
    """The revision of the checkout this package runs from, if it is one."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=5)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip()


def _read_json(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        tree: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise RunError(f"{path}: damaged ({error}); restore it from a copy") from error
    return tree
