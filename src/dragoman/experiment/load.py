"""From a run folder to something that translates."""

from pathlib import Path

from dragoman.errors import RunError
from dragoman.experiment.build import build_model
from dragoman.experiment.device import choose_device
from dragoman.experiment.run import RunFolder
from dragoman.models.weights import load_tensors, set_weights
from dragoman.runtime.translator import BATCH_TOKENS, Translator


def load(path: str | Path, *, device: str | None = None, batch_tokens: int = BATCH_TOKENS) -> Translator:
    """The translator of a run folder, on the device given or chosen.

    Raises RunError where the folder is no run, unfinished, or holds files that do not belong together, and ConfigError
    where the device is not there.
    """
    folder = RunFolder(Path(path))
    experiment = folder.read_config()
    if not folder.weights.exists():
        raise RunError(f"{folder.path}: its training has not ended; go on with: dragoman train --resume {folder.path}")
    tokenizer = folder.read_tokenizer()
    chosen = choose_device(device)
    model = build_model(experiment, tokenizer, device=chosen)
    set_weights(model, load_tensors(folder.weights), where=str(folder.weights))
    return Translator(model.eval(), tokenizer, device=chosen, batch_tokens=batch_tokens)
