"""The folder of a run: all that is needed to use, explain and continue it."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from dragoman.atomic import write_atomically
from dragoman.config import Tree, read_yaml, to_yaml
from dragoman.data.tokenizers import Tokenizer
from dragoman.errors import RunError

if TYPE_CHECKING:
    from dragoman.runs.config import Experiment


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
    def labels(self) -> Path:
        return self.path / "labels.json"

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
    def export(self) -> Path:
        return self.path / "export.json"

    @property
    def shortlist(self) -> Path:
        return self.path / "shortlist.safetensors"

    @property
    def card(self) -> Path:
        return self.path / "README.md"

    def require_free(self) -> None:
        """Raises RunError where something is in the folder already; what a killed process half wrote is nothing."""
        if self.path.is_dir() and all(_half_written(path) for path in self.path.iterdir()):
            return
        if self.path.exists():
            remedy = f"go on with it by --resume {self.path}, or choose" if self.config.is_file() else "choose"
            raise RunError(f"{self.path}: exists already and is never overwritten; {remedy} another place by --out")

    def begin(self) -> None:
        """Make the folder; raises RunError where something is in it already."""
        self.require_free()
        try:
            self.path.mkdir(parents=True, exist_ok=self.path.is_dir())  # of two that begin at once, one is refused
        except OSError as error:
            raise RunError(f"{self.path}: cannot be made ({error.strerror}); choose another place by --out") from error

    @contextmanager
    def gone_unless_begun(self) -> Iterator[None]:
        """A folder that `begin` made vanishes when the block raises before there is anything worth going on with.

        What another process trains in stays.
        """
        try:
            yield
        except BaseException:
            if not self.weights.exists() and not any(self.checkpoints.glob("[0-9]*")) and not self._in_use():
                shutil.rmtree(self.path, ignore_errors=True)
            raise

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Inside, no other process may train here, and what a killed one half wrote is gone.

        Raises RunError where another process is at it. A process that is killed lets go by itself.
        """
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            if not _locked(descriptor):
                raise RunError(f"{self.path}: another process is training in it; wait for its end, or stop it")
            self._sweep()
            yield
        finally:
            os.close(descriptor)

    def _in_use(self) -> bool:
        """Whether another process trains here."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY)
        except OSError:
            return False
        try:
            return not _locked(descriptor)
        finally:
            os.close(descriptor)

    def _sweep(self) -> None:
        for folder in (self.path, self.checkpoints):
            for path in folder.glob(".*.tmp"):
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)

    def check(self) -> None:
        """Raises RunError where this is no run folder."""
        if not self.config.is_file():
            raise RunError(
                f"{self.path}: no run folder (it holds no config.yaml); give the folder that training wrote to"
            )

    def write_config(self, experiment: "Experiment") -> None:
        write_atomically(self.config, to_yaml(experiment))

    def read_config(self) -> "Experiment":
        from dragoman.runs.config import read_experiment  # it knows all networks, and with them PyTorch

        self.check()
        return read_experiment(self.config)

    def read_plain_config(self) -> Tree:
        """The configuration as it was written down, unchecked, for who must not wait for PyTorch."""
        self.check()
        return read_yaml(self.config)

    def require_weights(self) -> None:
        """Raises RunError where the training has not ended."""
        if not self.weights.exists():
            raise RunError(f"{self.path}: its training has not ended; go on with: dragoman train --resume {self.path}")

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

    def read_export(self) -> dict[str, Any]:
        """How the weights are stored, where the folder was exported; empty for a run."""
        return _read_json(self.export)

    def read_scores(self) -> dict[str, Any]:
        return _read_json(self.scores)


def _half_written(path: Path) -> bool:
    return path.name.startswith(".") and path.name.endswith(".tmp")


def _locked(descriptor: int) -> bool:
    """Whether this process alone holds the lock; where the system has none, everyone does."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _read_json(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{path}: damaged ({error}); restore it from a copy") from error
    if not isinstance(tree, dict):
        raise RunError(f"{path}: damaged (it holds no mapping); restore it from a copy")
    return tree
