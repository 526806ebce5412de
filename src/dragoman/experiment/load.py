"""From a run folder to something that translates, writes, classifies, labels or answers."""

from pathlib import Path
from typing import Any

from dragoman.errors import RunError
from dragoman.experiment.build import task_of
from dragoman.experiment.device import choose_device
from dragoman.experiment.run import RunFolder
from dragoman.runtime.translator import BATCH_TOKENS


def load(path: str | Path, *, device: str | None = None, batch_tokens: int = BATCH_TOKENS) -> Any:
    """What a run folder holds, for use, on the device given or chosen.

    A `Translator` where the run's task is translation, and likewise for the other tasks. Raises RunError where the
    folder is no run, unfinished, or holds files that do not belong together, and ConfigError where the device is not
    there.
    """
    folder = RunFolder(Path(path))
    experiment = folder.read_config()
    if not folder.weights.exists():
        raise RunError(f"{folder.path}: its training has not ended; go on with: dragoman train --resume {folder.path}")
    return task_of(experiment).load(folder, device=choose_device(device), batch_tokens=batch_tokens)
