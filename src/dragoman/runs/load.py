"""From a run folder, or an exported one, to something that translates, writes, classifies, labels or answers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dragoman.errors import RunError, warn
from dragoman.runs.compute_type import RequestedComputeType, ComputeTypeWarning, load_cpu_backend
from dragoman.runs.folder import RunFolder
from dragoman.inference.translator import BATCH_TOKENS, Translator


def load(
    path: str | Path,
    *,
    device: str | None = None,
    compute_type: RequestedComputeType = "auto",
    batch_tokens: int = BATCH_TOKENS,
    shortlist: bool = False,
    ensemble: Sequence[str | Path] = (),
) -> Any:
    """What a run folder or an exported one holds, for use, on the device given or chosen.

    A `Translator` where the run's task is translation, and likewise for the other tasks. On a CPU the compiled core
    computes translators and generators where it is installed and knows the configuration, in the precision that the
    weights are stored in or in the one given as `compute`: `float32`, `bfloat16` or `int8`. Everything else PyTorch
    computes, in float32; a translator that the core computes does not import it. With `shortlist` a translator writes
    none but the candidates of each text, by the list that was exported with the model. Translators of one tokenizer may be asked
    together: `ensemble` names the others, and a symbol is as probable as all find it in the mean; the core computes that
    where it computes each of them.
    Raises RunError where the folder is no run, unfinished, or holds files that do not belong together, and ConfigError
    where the device is not there or does not compute in that precision, where there is no shortlist, and where runs cannot be asked together.
    """
    if isinstance(ensemble, str | Path):
        raise TypeError("expected a list of runs ensemble, got one; put it into a list")
    folder = RunFolder(Path(path))
    folder.check()
    loaded: Any = None
    if ensemble:
        loaded = _load_ensemble([path, *ensemble], device=device, compute_type=compute_type, batch_tokens=batch_tokens)
    elif folder.weights.exists():
        loaded = load_cpu_backend(folder, device=device, compute_type=compute_type, batch_tokens=batch_tokens)
    if loaded is None:
        loaded = load_torch_model(path, device=device, batch_tokens=batch_tokens)
    if not shortlist:
        return loaded
    from dragoman.runs.shortlist import load_with_shortlist

    return load_with_shortlist(loaded, folder)


def load_torch_model(path: str | Path, *, device: str | None = None, batch_tokens: int = BATCH_TOKENS) -> Any:
    """What `load` gives, computed by PyTorch whatever else is installed: for who wants to look into the network."""
    from dragoman.tasks.factory import build_task
    from dragoman.runs.device import choose_device

    folder = RunFolder(Path(path))
    experiment = folder.read_config()
    folder.check_finished()
    return build_task(experiment).load(folder, device=choose_device(device), batch_tokens=batch_tokens)


def _load_ensemble(runs: Sequence[str | Path], **options: Any) -> Translator:
    """By the compiled core where it computes them all, else by PyTorch."""
    from dragoman.runs.ensemble import build_ensemble

    folders = [RunFolder(Path(run)) for run in runs]
    for folder in folders:
        folder.check()
    loaded = [load_cpu_backend(folder, **options) if folder.weights.exists() else None for folder in folders]
    if any(one is None for one in loaded):
        for folder, one in zip(folders, loaded, strict=True):
            if one is not None and folder.read_export().get("compute") == "int8":
                message = f"{folder.path} holds int8 weights, and PyTorch computes with them in float32, as with others"
                warn(message, ComputeTypeWarning)
        del options["compute_type"]
        loaded = [load_torch_model(run, **options) for run in runs]
    translators = []
    for run, one in zip(runs, loaded, strict=True):
        if not isinstance(one, Translator):
            raise RunError(f"{run}: is no translator, and only translators are asked together; leave it out")
        translators.append(one)
    return build_ensemble(runs, translators)
