"""Load the model of a run folder, on the CPU backend where possible and otherwise with PyTorch."""

import platform
import re
from collections.abc import Mapping, Sequence
from copy import copy
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack, get_args, overload

import numpy as np

from dragoman import cpu_library, inference, runs, tasks
from dragoman.config import parse
from dragoman.config_trees import Tree
from dragoman.data.chat_template import ChatTemplate, PromptFormat
from dragoman.data.shortlist import Shortlist
from dragoman.data.tokenizers import Tokenizer
from dragoman.decoding import DecodingConfig, SamplingConfig
from dragoman.errors import ConfigError, DataError, RunError, known_word, quote, shorten, warn
from dragoman.inference.backends import cpu_backend
from dragoman.inference.backends.cpu_backend import CpuBackend, CpuEnsemble
from dragoman.inference.backends.int8_shift_backend import Int8ShiftBackend
from dragoman.inference.backends.onnx_backend import OnnxBackend
from dragoman.inference.length_batches import BATCH_TOKENS, check_positive
from dragoman.inference.model_facts import ModelFacts
from dragoman.inference.text_segmentation import DEFAULT_LANGUAGE
from dragoman.inference.translator import Translator
from dragoman.models.alignment_head import AlignmentHead
from dragoman.models.weight_quantization import ComputeType, dequantize_weights, load_arrays
from dragoman.runs.corpus_languages import recorded_languages
from dragoman.runs.folder import RunFolder

if TYPE_CHECKING:
    from dragoman.inference import Classifier, Embedder, Generator, QuestionAnswerer, Tagger

    LoadedModel = Translator | Generator | Classifier | Tagger | QuestionAnswerer | Embedder

RequestedComputeType = Literal["auto", "float32", "bfloat16", "int8", "int8_int16", "int8_shift"]
"""Compute type for inference; `auto` is the type that the weights are stored in.

`int8_shift` is the arithmetic of Firefox's engine, for models that come from its files.
"""
_SHARED_KEYS = {
    *("kind", "d_model", "num_heads", "num_kv_heads", "d_ff", "activation", "gated", "bias", "norm", "norm_position"),
    *("norm_embedding", "positions", "scale_embedding", "dropout", "attention", "tie_embeddings"),
}
MODEL_KEYS = {
    "encoder_decoder": _SHARED_KEYS | {"encoder_layers", "decoder_layers"},
    "decoder_only": _SHARED_KEYS | {"num_layers"},
}
"""Keys of complete model configurations by kind; the classes cannot tell, because they import PyTorch."""
LATER_KEYS = {
    *("head_size", "norm_epsilon", "qkv_bias", "output_bias", "scale_output", "decoder_layer", "source_eos"),
    "start_embedding",
}
"""Keys that the configurations of older runs lack, and whose defaults the CPU library knows."""
LOADED_AS = {
    "translation": ("Translator", "translate"),
    "language_modeling": ("Generator", "generate"),
    "masked_lm": ("Embedder", "embed"),
    "classification": ("Classifier", "classify"),
    "tagging": ("Tagger", "classify"),
    "question_answering": ("QuestionAnswerer", "answer"),
}
"""Class that the runs of each task are loaded as, and the verb that uses them."""
_DRIVERS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
"""Device files of accelerator drivers on Linux."""


_M = TypeVar("_M", bound="LoadedModel")
_N = TypeVar("_N", bound="LoadedModel")


class ComputeTypeWarning(UserWarning):
    """A model does not run with the fastest backend or compute type."""


class LoadOptions(TypedDict, total=False):
    """Keyword arguments of `load`."""

    device: str | None
    compute_type: RequestedComputeType
    batch_tokens: int
    shortlist: bool
    ensemble: Sequence[str | Path]


@overload
def load(path: str | Path, kind: None = None, **options: Unpack[LoadOptions]) -> "LoadedModel": ...


@overload
def load(path: str | Path, kind: type[_M], **options: Unpack[LoadOptions]) -> _M: ...


@overload
def load(path: str | Path, kind: tuple[type[_M], type[_N]], **options: Unpack[LoadOptions]) -> _M | _N: ...


def load(
    path: str | Path,
    kind: type[Any] | tuple[type[Any], ...] | None = None,
    *,
    device: str | None = None,
    compute_type: RequestedComputeType = "auto",
    batch_tokens: int = BATCH_TOKENS,
    shortlist: bool = False,
    ensemble: Sequence[str | Path] = (),
) -> "Translator | Generator | Classifier | Tagger | QuestionAnswerer | Embedder":
    """Load the model of a run folder, or of an exported one, for inference.

    The result depends on the task of the run: a `Translator`, `Generator`, `Classifier`, `Tagger`,
    `QuestionAnswerer` or `Embedder`. With `kind`, such as `load("runs/en-de", Translator)`, it has this type, also for
    type checkers.
    On a CPU, the CPU backend runs translators and generators where it is installed and supports the model; PyTorch runs
    all other models, in float32.

    Args:
        path: Run folder.
        kind: Class of the result, or a pair of classes; by default any.
        device: `cpu`, `cuda`, `mps`, …; by default the fastest available device.
        compute_type: Number format of the CPU backend.
        batch_tokens: Token budget of an inference batch.
        shortlist: Restrict each translation to the candidate words that were exported with the model.
        ensemble: Further runs with the same tokenizer, whose token probabilities are averaged with those of `path`.

    Raises:
        RunError: The folder is no finished run, its files do not belong together, or it is of another kind.
        ConfigError: Device, compute type, shortlist or ensemble are not available.
    """
    if isinstance(ensemble, str | Path):
        raise TypeError("`ensemble` is one path. Give a list of run folders.")
    check_positive(batch_tokens=batch_tokens)
    folder = open_run(path)
    if kind is not None:
        _check_kind(folder, kind)
    folder.check()
    model: Any = None
    if ensemble:
        model = _load_ensemble([path, *ensemble], device=device, compute_type=compute_type, batch_tokens=batch_tokens)
    elif folder.graph.exists():
        model = _load_graphs(folder, device=device, compute_type=compute_type, batch_tokens=batch_tokens)
    else:
        model = load_cpu_backend(folder, device=device, compute_type=compute_type, batch_tokens=batch_tokens)
    if model is None:
        model = load_torch_model(path, device=device, batch_tokens=batch_tokens)
    if isinstance(model, Translator) and not ensemble:
        model.facts = _read_facts(folder)
    if not shortlist:
        return model
    if not isinstance(model, Translator):
        raise ConfigError(f"{path}: is not a translator. Leave shortlist out.")
    if not folder.shortlist.exists():
        command = f"dragoman export {quote(path)} --shortlist --output-dir MODEL"
        raise ConfigError(f"{path}: has no shortlist. Create a model with one: {command}")
    return apply_shortlist(model, Shortlist.load(folder.shortlist))


def load_torch_model(
    path: str | Path,
    kind: type[Any] | tuple[type[Any], ...] | None = None,
    *,
    device: str | None = None,
    batch_tokens: int = BATCH_TOKENS,
) -> Any:
    """Load a run as `load` does, always with the PyTorch backend, whose modules can be inspected."""
    check_positive(batch_tokens=batch_tokens)
    folder = open_run(path)
    if kind is not None:
        _check_kind(folder, kind)
    experiment = folder.read_config()
    folder.check_finished()
    return tasks.build_task(experiment).load(folder, device=runs.choose_device(device), batch_tokens=batch_tokens)


def _read_facts(folder: RunFolder) -> ModelFacts:
    """Return what a run records about its model."""
    source, _ = recorded_languages(folder.read_raw_config())
    return ModelFacts(
        source or DEFAULT_LANGUAGE, folder.read_quality(), folder.read_familiarity(), _read_alignment_head(folder)
    )


def _read_alignment_head(folder: RunFolder) -> AlignmentHead | None:
    """Return the cross-attention that aligns the words of a calibrated model. Raises RunError if it has no such."""
    if not (tree := folder.read_alignment()):
        return None
    head = AlignmentHead(tree["layer"], tree["head"], tree["shifted"])
    model = folder.read_raw_config().get("model")
    layers, heads = (
        int(model.get(name) or 0) if isinstance(model, dict) else 0 for name in ("decoder_layers", "num_heads")
    )
    if head.layer >= layers or (head.head or 0) >= heads:
        raise RunError(f"{folder.alignment}: the model has no such head. Calibrate it again, or remove the file.")
    return head


def open_run(path: str | Path) -> RunFolder:
    """Return the run folder of a path. Raises TypeError where it is no path, and RunError where it is empty."""
    if not isinstance(path, str | PathLike):
        raise TypeError(f"{path!r:.60} is no path. Give the path of a run folder, such as 'runs/en-de'.")
    if not str(path).strip():
        raise RunError(f"{path!r} is an empty path. Give the path of a run folder, such as 'runs/en-de'.")
    return RunFolder(Path(path))


def _check_kind(folder: RunFolder, kind: type[Any] | tuple[type[Any], ...]) -> None:
    """Raise RunError if the run is loaded as another class, before anything is loaded."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    known = [name for name, _ in LOADED_AS.values()]
    for one in kinds:
        if getattr(one, "__name__", None) not in known:
            raise TypeError(f"kind = {one!r} is not a class that runs are loaded as. Give one of {', '.join(known)}.")
    name, verb = LOADED_AS.get(_task(folder.read_raw_config()), (None, ""))
    names = [one.__name__ for one in kinds]
    if name is not None and name not in names:
        raise RunError(
            f"{folder.path}: is {_with_article(name)}, not {' or '.join(map(_with_article, names))}. "
            f"Use it with: dragoman {verb} {quote(folder.path)} (in Python: dragoman.{name})"
        )


def _with_article(name: str) -> str:
    """Return a class name as words: `a question answerer`."""
    return ("an " if name[0] in "AEIOU" else "a ") + re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()


def _load_ensemble(
    paths: Sequence[str | Path], *, device: str | None, compute_type: RequestedComputeType, batch_tokens: int
) -> Translator:
    """Load an ensemble with the CPU backend if it supports all members, and otherwise with PyTorch."""
    if compute_type == "int8_shift":
        raise ConfigError("compute_type = int8_shift: is not for ensembles. Leave it or the ensemble out.")
    folders = [open_run(path) for path in paths]
    for folder in folders:
        folder.check()
    loaded: list[Any] = [
        load_cpu_backend(folder, device=device, compute_type=compute_type, batch_tokens=batch_tokens)
        for folder in folders
    ]
    if any(one is None for one in loaded):
        for folder, one in zip(folders, loaded, strict=True):
            if one is not None and folder.read_export().get("compute_type") == "int8":
                warn(f"{folder.path} has int8 weights, which PyTorch runs in float32", ComputeTypeWarning)
        loaded = [load_torch_model(path, device=device, batch_tokens=batch_tokens) for path in paths]
    for path, one in zip(paths, loaded, strict=True):
        if not isinstance(one, Translator):
            raise RunError(f"{path}: is not a translator, and ensembles consist of translators. Leave it out.")
    return build_ensemble(paths, loaded)


def build_ensemble(paths: Sequence[str | Path], translators: Sequence[Translator]) -> Translator:
    """Build a translator that averages the token probabilities of all, with the decoding settings of the first.

    Raises ConfigError if the tokenizers differ or a model needs dependency trees.
    """
    first = translators[0]
    for path, one in zip(paths, translators, strict=True):
        if one.tokenizer.fingerprint != first.tokenizer.fingerprint:
            raise ConfigError(f"{path}: has another tokenizer than {paths[0]}. Members of an ensemble share one.")
        if one.backend.needs_source_features:
            raise ConfigError(f"{path}: has tree positions, which ensembles do not support. Leave it out.")
    models: list[Any] = [one.model for one in translators]
    is_cpu = all(isinstance(model, CpuBackend) for model in models)
    return Translator(
        CpuEnsemble(models) if is_cpu else tasks.build_torch_ensemble(models),
        first.tokenizer,
        device=first.device,
        batch_tokens=first.batch_tokens,
        config=first.config,
    )


def apply_shortlist(translator: Translator, shortlist: Shortlist) -> Translator:
    """Restrict a translator to a shortlist; forced decoding still scores all words.

    Raises DataError if it does not fit the vocabulary.
    """
    sides = translator.tokenizer
    if not shortlist.matches_vocabs(source=len(sides.source), target=len(sides.target)):
        raise DataError("The shortlist belongs to another vocabulary. Export the model with it again.")
    backend = copy(translator.backend)
    backend.shortlist = shortlist
    restricted = Translator(
        backend,
        sides,
        batch_tokens=translator.batch_tokens,
        max_segment_length=translator.max_segment_length,
        config=translator.config,
    )
    restricted.facts = translator.facts
    return restricted


def load_cpu_backend(
    folder: RunFolder, *, device: str | None, compute_type: RequestedComputeType, batch_tokens: int
) -> "Translator | Generator | None":
    """Load a run with the CPU backend; None if it is unfinished, or PyTorch has to run it, which may need a warning.

    Raises ConfigError if PyTorch has to run the model and does not support the compute type.
    """
    if not folder.weights.exists():
        return None
    compute_type = known_word(compute_type, get_args(RequestedComputeType))
    if compute_type not in get_args(RequestedComputeType):
        choices = ", ".join(get_args(RequestedComputeType))
        raise ConfigError(f"compute_type = {compute_type!r} does not exist. Choose one of {choices}.")
    stored = folder.read_export().get("compute_type", "float32")
    if stored not in get_args(ComputeType):
        raise RunError(f"{folder.export}: compute_type = {shorten(stored)} does not exist. Restore the original file.")
    options: Any = {"stored": stored, "device": device, "requested": compute_type, "batch_tokens": batch_tokens}
    try:
        return _load_on_cpu(folder, _raw_config(folder), **options)
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError):
        complete = folder.read_config().model_dump(mode="json")  # raises a clear error if it is invalid
        return _load_on_cpu(folder, complete, **options)


def _load_on_cpu(
    folder: RunFolder,
    tree: Tree,
    *,
    stored: ComputeType,
    device: str | None,
    requested: RequestedComputeType,
    batch_tokens: int,
) -> "Translator | Generator | None":
    """Load a run of this configuration as `load_cpu_backend` does."""
    reason, is_expected = _reason_against_cpu_backend(tree, device)
    if reason is None:
        return _build_on_cpu(folder, tree, stored if requested == "auto" else requested, batch_tokens)
    if requested not in ("auto", "float32"):
        raise ConfigError(f"compute_type = {requested}: {reason}. Leave compute_type out to use PyTorch in float32.")
    if stored.startswith("int8") and requested == "auto":
        warn(f"{folder.path} has {stored} weights, which PyTorch runs in float32: {reason}", ComputeTypeWarning)
    elif not is_expected:
        warn(f"PyTorch runs {folder.path}: {reason}", ComputeTypeWarning)
    return None


def _raw_config(folder: RunFolder) -> Tree:
    """Return the configuration, without importing PyTorch if it is complete and as dragoman wrote it.

    Raises ConfigError if it is invalid.
    """
    if folder.has_written_config():
        tree = folder.read_raw_config()
        model = tree.get("model")
        if isinstance(model, Mapping) and model.keys() >= MODEL_KEYS.get(model.get("kind", ""), set()):
            return tree
    return folder.read_config().model_dump(mode="json")


def _task(tree: Mapping[str, Any]) -> str:
    return str(tree.get("task", "translation"))


def _reason_against_cpu_backend(tree: Mapping[str, Any], device: str | None) -> tuple[str | None, bool]:
    """Return the first reason why the CPU backend cannot run a model, cheapest first, and whether users expect it."""
    if _task(tree) not in ("translation", "language_modeling") or not isinstance(tree.get("model"), Mapping):
        return "the CPU backend supports translators and generators only", True
    if not cpu_library.is_installed():
        return f"the CPU backend is not installed (pip install {cpu_library.PACKAGE})", True
    if (accelerator := _accelerator(device)) is not None:
        return f"the CPU backend does not run on {accelerator}", True
    return cpu_library.unusable_reason() or cpu_backend.unsupported_reason(tree["model"]), False


def _accelerator(name: str | None) -> str | None:
    """Return the device that PyTorch would choose; None for the CPU."""
    if name == "cpu" or (name is None and not _may_have_accelerator()):
        return None
    device = runs.choose_device(name)
    return None if device.type == "cpu" else str(device)


def _may_have_accelerator() -> bool:
    """Return whether an accelerator is possible, without importing PyTorch."""
    if platform.system() == "Linux":
        return any(Path(driver).exists() for driver in _DRIVERS)
    return platform.system() != "Darwin" or platform.machine() == "arm64"


def _load_graphs(
    folder: RunFolder, *, device: str | None, compute_type: RequestedComputeType, batch_tokens: int
) -> "Translator | Generator":
    """Load graphs of ONNX. Raises ConfigError for a device or compute type that they do not have."""
    if device not in (None, "cpu"):
        raise ConfigError(f"device = {device}: graphs of ONNX run on the CPU. Leave it out.")
    if compute_type not in ("auto", "float32"):
        raise ConfigError(f"compute_type = {compute_type}: graphs of ONNX have float32 weights. Leave it out.")
    tokenizer = folder.read_tokenizer()
    backend = OnnxBackend(folder.path, vocabulary=len(tokenizer.target))
    return _wrap_backend(backend, folder, folder.read_raw_config(), tokenizer, batch_tokens)


def _build_on_cpu(
    folder: RunFolder,
    tree: Mapping[str, Any],
    compute_type: ComputeType | Literal["int8_shift"],
    batch_tokens: int,
) -> "Translator | Generator":
    arrays, tokenizer = load_arrays(folder.weights), folder.read_tokenizer()
    if compute_type == "int8_shift":
        engine = _build_int8_shift(folder, arrays)
        return _wrap_backend(engine, folder, tree, tokenizer.with_split_unknown(), batch_tokens)
    backend = CpuBackend(
        tree["model"],
        dequantize_weights(arrays) if compute_type == "float32" else arrays,
        compute_type=compute_type,
        source_vocabulary=len(tokenizer.source),
        target_vocabulary=len(tokenizer.target),
        where=str(folder.weights),
    )
    return _wrap_backend(backend, folder, tree, tokenizer, batch_tokens)


def _build_int8_shift(folder: RunFolder, arrays: Mapping[str, np.ndarray]) -> Int8ShiftBackend:
    """Build the backend in Firefox's arithmetic. Raises ConfigError if the run comes from another format."""
    marian: Any = import_module("dragoman.interop.marian.int8_products")  # imports PyTorch
    network: Any = folder.read_config().model
    multipliers = marian.recorded_multipliers(folder.read_origin())
    products = marian.recorded_products(network, arrays, multipliers)
    return Int8ShiftBackend(network.model_dump(mode="json"), arrays, products)


def _wrap_backend(
    backend: CpuBackend | OnnxBackend | Int8ShiftBackend,
    folder: RunFolder,
    tree: Mapping[str, Any],
    tokenizer: Tokenizer,
    batch_tokens: int,
) -> "Translator | Generator":
    """Return the translator or generator of a backend, with the settings of a complete configuration."""
    if _task(tree) == "language_modeling":
        data, template = tree["data"], tree.get("chat_template")
        pairs = data["kind"] == "pairs"
        prompt = parse(PromptFormat, data.get("prompt", {}), where=f"{folder.config}: data.prompt")
        where = f"{folder.config}: chat_template"
        return inference.Generator(
            backend,
            tokenizer,
            context=data["max_source_length"] + data["max_target_length"] + 1 if pairs else data["context_length"],
            pairs=pairs and not prompt.chat,
            template=None if template is None else parse(ChatTemplate, template, where=where),
            prompt_format=prompt,
            batch_tokens=batch_tokens,
            config=parse(SamplingConfig, tree.get("generation", {}), where=f"{folder.config}: generation"),
        )
    config = parse(DecodingConfig, tree.get("decoding", {}), where=f"{folder.config}: decoding")
    return Translator(backend, tokenizer, batch_tokens=batch_tokens, config=config)
