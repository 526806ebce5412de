"""What computes a translator or a generator: the compiled core on a CPU where it can, else PyTorch.

A translator that the core computes needs no PyTorch, which is not imported then.

The configuration of a run is read as it was written: a fault in it is found by who reads it whole.
"""

import platform
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from dragoman import cpu_library
from dragoman.config import Tree, parse
from dragoman.decoding import SearchSettings
from dragoman.errors import ConfigError, RunError, warn
from dragoman.inference.backends import cpu_backend
from dragoman.inference.translator import Translator
from dragoman.models.quantization import Arrays, Compute, read_arrays, restored
from dragoman.runs.folder import RunFolder

if TYPE_CHECKING:
    from dragoman.inference.generator import Generator

Asked = Literal["auto", "float32", "bfloat16", "int8"]
"""The precision that a person asks for; `auto` is the one that the weights are stored in."""

KEYS = {
    *("kind", "size", "heads", "key_value_heads", "feed_forward", "activation", "gated", "bias", "encoder_layers"),
    *("norm", "norm_position", "norm_embedding", "positions", "scale_embedding", "dropout", "decoder_layers"),
    *("attention", "tie"),
}
"""Those of a Transformer's whole configuration, `models.transformer.config`, which comes with PyTorch."""
_DRIVERS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
"""What Linux has where a driver offers a device that PyTorch may compute on."""


class ComputeWarning(UserWarning):
    """A run is not computed as it might be; the message says why."""


class _Reason(NamedTuple):
    """Why the core does not compute a run."""

    text: str
    worth_saying: bool = False
    """Whether one might have expected that it does."""


def by_the_core(
    folder: RunFolder, *, device: str | None, compute: Asked, batch_tokens: int
) -> "Translator | Generator | None":
    """What a finished run is used by, as the compiled core computes it, or None where PyTorch is to do it.

    A warning of one line says why, where the core is there and is not used. Raises ConfigError on a precision that
    PyTorch, which has to compute this run, does not offer.
    """
    if compute not in get_args(Asked):
        raise ConfigError(f"compute = {compute}: no such precision; choose one of {', '.join(get_args(Asked))}")
    try:
        return _by_the_core(folder, device=device, compute=compute, batch_tokens=batch_tokens)
    except (AttributeError, KeyError, RuntimeError, TypeError):
        folder.read_config()  # says what is wrong with it, where that is why
        raise


def _by_the_core(
    folder: RunFolder, *, device: str | None, compute: Asked, batch_tokens: int
) -> "Translator | Generator | None":
    tree = _plain_config(folder)
    stored = folder.read_export().get("compute", "float32")
    if stored not in get_args(Compute):
        raise RunError(f"{folder.export}: compute = {stored}: no such precision of weights; put back the original file")
    reason = _reason_against(tree, device)
    if reason is None:
        use = _generator if _task(tree) == "language_modelling" else _translator
        return use(folder, tree, stored if compute == "auto" else compute, batch_tokens)
    if compute in ("bfloat16", "int8"):
        raise ConfigError(f"compute = {compute}: {reason.text}; leave compute out, and PyTorch computes in float32")
    if stored == "int8" and compute == "auto":
        warn(
            f"{folder.path} holds int8 weights, and PyTorch computes with them in float32: {reason.text}",
            ComputeWarning,
        )
    elif reason.worth_saying:
        warn(f"{folder.path} is computed by PyTorch: {reason.text}", ComputeWarning)
    return None


def _plain_config(folder: RunFolder) -> Tree:
    """The configuration as it was written; where an older version wrote it, with the defaults of what came later."""
    tree = folder.read_plain_config()
    model = tree.get("model")
    old = isinstance(model, Mapping) and model.get("kind") == "transformer" and not model.keys() >= KEYS
    if old or _task(tree) == "language_modelling":  # its draws need PyTorch, and with it comes the whole configuration
        return folder.read_config().model_dump(mode="json")
    return tree


def _task(tree: Mapping[str, Any]) -> str:
    return str(tree.get("task", "translation"))


def _reason_against(tree: Mapping[str, Any], device: str | None) -> _Reason | None:
    """Why the core cannot compute a run on this device, the reason that is found fastest first."""
    if _task(tree) not in ("translation", "language_modelling") or not isinstance(tree.get("model"), Mapping):
        return _Reason("the compiled core computes models that translate or write alone")
    if not cpu_library.is_installed():
        return _Reason(f"the compiled core is not installed (pip install {cpu_library.PACKAGE})")
    if (elsewhere := _other_device(device)) is not None:
        return _Reason(f"the compiled core is for the CPU, and the device is {elsewhere}")
    if (fault := cpu_library.fault()) is not None:
        return _Reason(fault, worth_saying=True)
    if (refusal := cpu_backend.refusal(tree["model"])) is not None:
        return _Reason(refusal, worth_saying=True)
    return None


def _other_device(name: str | None) -> str | None:
    """The device that PyTorch would compute on, unless it is the CPU."""
    if name == "cpu" or (name is None and not _may_be_accelerated()):
        return None
    from dragoman.runs.device import choose_device

    device = choose_device(name)
    return None if device.type == "cpu" else str(device)


def _may_be_accelerated() -> bool:
    """Whether it is worth importing PyTorch to see what device there is."""
    match platform.system():
        case "Linux":
            return any(Path(driver).exists() for driver in _DRIVERS)
        case "Darwin":
            return platform.machine() == "arm64"
        case _:
            return True


def _translator(folder: RunFolder, tree: Mapping[str, Any], compute: Compute, batch_tokens: int) -> Translator:
    tokenizer = folder.read_tokenizer()
    network = cpu_backend.Compiled(
        tree["model"],
        _arrays(folder, compute),
        compute=compute,
        source_vocabulary=len(tokenizer.source),
        target_vocabulary=len(tokenizer.target),
        where=str(folder.weights),
    )
    settings = parse(SearchSettings, tree.get("decoding", {}), where=f"{folder.config}: decoding")
    return Translator(network, tokenizer, batch_tokens=batch_tokens, settings=settings)


def _generator(folder: RunFolder, tree: Mapping[str, Any], compute: Compute, batch_tokens: int) -> "Generator":
    from dragoman.inference.backends.cpu_decoder_only import CompiledPredicting
    from dragoman.tasks.config import LanguageModelling
    from dragoman.tasks.language_modeling import generator_of

    tokenizer, experiment = folder.read_tokenizer(), folder.read_config()
    assert isinstance(experiment, LanguageModelling), "this is its task"
    network = CompiledPredicting(
        tree["model"],
        _arrays(folder, compute),
        compute=compute,
        vocabulary=len(tokenizer.source),
        where=str(folder.weights),
    )
    return generator_of(experiment, network, tokenizer, device=network.device, batch_tokens=batch_tokens)


def _arrays(folder: RunFolder, compute: Compute) -> Arrays:
    """The weights as the core takes them; what was stored as int8 is computed in float32 as what it stands for."""
    arrays = read_arrays(folder.weights)
    return restored(arrays) if compute == "float32" else arrays
