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
from dragoman.runs.folder import RunFolder
from dragoman.models.quantization import Arrays, ComputeType, load_arrays, dequantize_weights
from dragoman.inference.backends import cpu_backend
from dragoman.inference.translator import Translator

if TYPE_CHECKING:
    from dragoman.inference.generator import Generator

RequestedComputeType = Literal["auto", "float32", "bfloat16", "int8"]
"""The precision that a person asks for; `auto` is the one that the weights are stored in."""

MODEL_KEYS = {
    *("kind", "size", "heads", "key_value_heads", "feed_forward", "activation", "gated", "bias", "encoder_layers"),
    *("norm", "norm_position", "norm_embedding", "positions", "scale_embedding", "dropout", "decoder_layers"),
    *("attention", "tie"),
}
"""Those of a Transformer's whole configuration, `models.transformer.config`, which comes with PyTorch."""
_DRIVERS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
"""What Linux has where a driver offers a device that PyTorch may compute on."""


class ComputeTypeWarning(UserWarning):
    """A run is not computed as it might be; the message says why."""


class _Reason(NamedTuple):
    """Why the core does not compute a run."""

    text: str
    warn: bool = False
    """Whether one might have expected that it does."""


def load_cpu_backend(
    folder: RunFolder, *, device: str | None, compute_type: RequestedComputeType, batch_tokens: int
) -> "Translator | Generator | None":
    """What a finished run is used by, as the compiled core computes it, or None where PyTorch is to do it.

    A warning of one line says why, where the core is there and is not used. Raises ConfigError on a precision that
    PyTorch, which has to compute this run, does not offer.
    """
    if compute_type not in get_args(RequestedComputeType):
        choices = ', '.join(get_args(RequestedComputeType))
        raise ConfigError(f"`compute_type` is {compute_type!r}. Choose one of {choices}.")
    try:
        return _load_cpu_backend(folder, device=device, compute_type=compute_type, batch_tokens=batch_tokens)
    except (AttributeError, KeyError, RuntimeError, TypeError):
        folder.read_config()  # says what is wrong with it, where that is why
        raise


def _load_cpu_backend(
    folder: RunFolder, *, device: str | None, compute_type: RequestedComputeType, batch_tokens: int
) -> "Translator | Generator | None":
    tree = _raw_config(folder)
    stored = folder.read_export().get("compute", "float32")
    if stored not in get_args(ComputeType):
        raise RunError(f"{folder.export}: compute = {stored}: no such precision of weights; put back the original file")
    reason = _reason_against(tree, device)
    if reason is None:
        use = _generator if _task(tree) == "language_modeling" else _translator
        return use(folder, tree, stored if compute_type == "auto" else compute_type, batch_tokens)
    if compute_type in ("bfloat16", "int8"):
        raise ConfigError(f"compute_type = {compute_type}: {reason.text}; leave compute_type out, and PyTorch computes in float32")
    if stored == "int8" and compute_type == "auto":
        warn(
            f"{folder.path} holds int8 weights, and PyTorch computes with them in float32: {reason.text}",
            ComputeTypeWarning,
        )
    elif reason.warn:
        warn(f"{folder.path} is computed by PyTorch: {reason.text}", ComputeTypeWarning)
    return None


def _raw_config(folder: RunFolder) -> Tree:
    """The configuration as it was written; where an older version wrote it, with the defaults of what came later."""
    tree = folder.read_raw_config()
    model = tree.get("model")
    old = isinstance(model, Mapping) and model.get("kind") == "transformer" and not model.keys() >= MODEL_KEYS
    if old or _task(tree) == "language_modeling":  # its draws need PyTorch, and with it comes the whole configuration
        return folder.read_config().model_dump(mode="json")
    return tree


def _task(tree: Mapping[str, Any]) -> str:
    return str(tree.get("task", "translation"))


def _reason_against(tree: Mapping[str, Any], device: str | None) -> _Reason | None:
    """Why the core cannot compute a run on this device, the reason that is found fastest first."""
    if _task(tree) not in ("translation", "language_modeling") or not isinstance(tree.get("model"), Mapping):
        return _Reason("the compiled core computes models that translate or write alone")
    if not cpu_library.is_installed():
        return _Reason(f"the compiled core is not installed (pip install {cpu_library.PACKAGE})")
    if (elsewhere := _accelerator(device)) is not None:
        return _Reason(f"the compiled core is for the CPU, and the device is {elsewhere}")
    if (fault := cpu_library.fault()) is not None:
        return _Reason(fault, warn=True)
    if (refusal := cpu_backend.refusal(tree["model"])) is not None:
        return _Reason(refusal, warn=True)
    return None


def _accelerator(name: str | None) -> str | None:
    """The device that PyTorch would compute on, unless it is the CPU."""
    if name == "cpu" or (name is None and not _may_have_accelerator()):
        return None
    from dragoman.runs.device import choose_device

    device = choose_device(name)
    return None if device.type == "cpu" else str(device)


def _may_have_accelerator() -> bool:
    """Whether it is worth importing PyTorch to see what device there is."""
    match platform.system():
        case "Linux":
            return any(Path(driver).exists() for driver in _DRIVERS)
        case "Darwin":
            return platform.machine() == "arm64"
        case _:
            return True


def _translator(folder: RunFolder, tree: Mapping[str, Any], compute: ComputeType, batch_tokens: int) -> Translator:
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


def _generator(folder: RunFolder, tree: Mapping[str, Any], compute: ComputeType, batch_tokens: int) -> "Generator":
    from dragoman.tasks.config import LanguageModelingConfig
    from dragoman.tasks.language_modeling import build_generator
    from dragoman.inference.backends.cpu_decoder_only import CompiledPredicting

    tokenizer, experiment = folder.read_tokenizer(), folder.read_config()
    assert isinstance(experiment, LanguageModelingConfig), "this is its task"
    network = CompiledPredicting(
        tree["model"],
        _arrays(folder, compute),
        compute=compute,
        vocabulary=len(tokenizer.source),
        where=str(folder.weights),
    )
    return build_generator(experiment, network, tokenizer, device=network.device, batch_tokens=batch_tokens)


def _arrays(folder: RunFolder, compute: ComputeType) -> Arrays:
    """The weights as the core takes them; what was stored as int8 is computed in float32 as what it stands for."""
    arrays = load_arrays(folder.weights)
    return dequantize_weights(arrays) if compute == "float32" else arrays
