"""From a run folder, or an exported one, to something that translates, writes, classifies, labels or answers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dragoman.errors import RunError, warn
from dragoman.inference.translator import BATCH_TOKENS, Translator
from dragoman.runs.compute_type import Asked, ComputeWarning, by_the_core
from dragoman.runs.folder import RunFolder


def load(
    path: str | Path,
    *,
    device: str | None = None,
    compute: Asked = "auto",
    batch_tokens: int = BATCH_TOKENS,
    shortlist: bool = False,
    draft: str | Path | None = None,
    beside: Sequence[str | Path] = (),
) -> Any:
    """What a run folder or an exported one holds, for use, on the device given or chosen.

    A `Translator` where the run's task is translation, and likewise for the other tasks. On a CPU the compiled core
    computes translators and generators where it is installed and knows the configuration, in the precision that the
    weights are stored in or in the one given as `compute`: `float32`, `bfloat16` or `int8`. Everything else PyTorch
    computes, in float32; a translator that the core computes does not import it. With `shortlist` a translator writes
    none but the candidates of each text, by the list that was exported with the model; with `draft`, "copy" or a
    smaller run of the same tokenizer, it guesses ahead in greedy search. Translators of one tokenizer may be asked
    together: `beside` names the others, and a symbol is as probable as all find it in the mean; the core computes that
    where it computes each of them.
    Raises RunError where the folder is no run, unfinished, or holds files that do not belong together, and ConfigError
    where the device is not there or does not compute in that precision, where there is no shortlist or no use for a
    draft, and where runs cannot be asked together.
    """
    if isinstance(beside, str | Path):
        raise TypeError("expected a list of runs beside, got one; put it into a list")
    folder = RunFolder(Path(path))
    folder.check()
    loaded: Any = None
    if beside:
        loaded = _together([path, *beside], device=device, compute=compute, batch_tokens=batch_tokens)
    elif folder.weights.exists():
        loaded = by_the_core(folder, device=device, compute=compute, batch_tokens=batch_tokens)
    if loaded is None:
        loaded = load_in_pytorch(path, device=device, batch_tokens=batch_tokens)
    if not shortlist and draft is None:
        return loaded
    from dragoman.runs.shortlist import quickened

    return quickened(loaded, folder, shortlist=shortlist, draft=draft, device=device)


def load_in_pytorch(path: str | Path, *, device: str | None = None, batch_tokens: int = BATCH_TOKENS) -> Any:
    """What `load` gives, computed by PyTorch whatever else is installed: for who wants to look into the network."""
    from dragoman.runs.device import choose_device
    from dragoman.tasks.factory import task_of

    folder = RunFolder(Path(path))
    experiment = folder.read_config()
    folder.require_weights()
    return task_of(experiment).load(folder, device=choose_device(device), batch_tokens=batch_tokens)


def _together(runs: Sequence[str | Path], **options: Any) -> Translator:
    """By the compiled core where it computes them all, else by PyTorch."""
    from dragoman.runs.ensemble import asked_together

    folders = [RunFolder(Path(run)) for run in runs]
    for folder in folders:
        folder.check()
    loaded = [by_the_core(folder, **options) if folder.weights.exists() else None for folder in folders]
    if any(one is None for one in loaded):
        for folder, one in zip(folders, loaded, strict=True):
            if one is not None and folder.read_export().get("compute") == "int8":
                message = f"{folder.path} holds int8 weights, and PyTorch computes with them in float32, as with others"
                warn(message, ComputeWarning)
        del options["compute"]
        loaded = [load_in_pytorch(run, **options) for run in runs]
    translators = []
    for run, one in zip(runs, loaded, strict=True):
        if not isinstance(one, Translator):
            raise RunError(f"{run}: is no translator, and only translators are asked together; leave it out")
        translators.append(one)
    return asked_together(runs, translators)
