"""Import: write the model of another program as a run folder, and check it."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import torch

from dragoman.atomic_files import new_folder, write_atomically
from dragoman.checksums import to_checked_json
from dragoman.config_trees import Tree
from dragoman.data.datasets.labeled import Labels
from dragoman.data.fingerprints import file_fingerprint
from dragoman.errors import ConfigError, TextWarning
from dragoman.inference.classifier_and_tagger import Classifier
from dragoman.inference.generation.generator import Generator
from dragoman.inference.translator import Translator
from dragoman.interop.imported_model import ImportedModel, ImportOptions, NetworkConfig, network_shapes
from dragoman.interop.recognize_format import Partner, recognize_format
from dragoman.interop.self_check import LogitsCheck, check_logits
from dragoman.models.config import EncoderOnlyConfig
from dragoman.models.weight_quantization import save_arrays
from dragoman.models.weight_validation import check_shapes, check_values
from dragoman.number_words import counted
from dragoman.runs.config import parse_experiment
from dragoman.runs.folder import RunFolder
from dragoman.runs.load import load
from dragoman.runs.model_card import collect_environment, describe_model, describe_vocabulary, usage_section
from dragoman.tasks.config import Experiment
from dragoman.tasks.factory import build_task
from dragoman.tasks.task import TaskDescription

if TYPE_CHECKING:
    from dragoman.runs.load import LoadedModel

SAMPLE_TEXT = "This is a test."
"""Text that the self-check translates or continues."""
SAMPLE_TOKENS = 20


@final
@dataclass(frozen=True)
class Published:
    """Page that the files of a model were downloaded from."""

    name: str
    """Name of the model there."""
    url: str
    """Address of its files at one revision."""
    license: str | None = None


@final
@dataclass(frozen=True)
class ImportResult:
    """Imported model, and the self-check."""

    path: Path
    format: str
    task: str
    model: str
    """The network in words."""
    parameters: int
    tensors: Mapping[str, Any]
    """Number of tensors `used`, the reason for each one `left_over`, and the value of each one `filled` here."""
    logits: LogitsCheck | None
    """Comparison with the other program; None where it is not installed."""
    sample: tuple[str, str] | None
    """A text and its translation, continuation or label; None for a model whose output is no text."""
    notes: tuple[str, ...]

    def describe(self) -> str:
        """Return the model and its format in words."""
        return f"{self.model}, {self.parameters:,} parameters, imported from {self.format}"

    def lines(self) -> list[str]:
        """Return the self-check in words."""
        left, filled = self.tensors["left_over"], self.tensors["filled"]
        lines = [f"tensors: {self.tensors['used']:,} used, {len(left)} left over, 0 missing"]
        lines += [f"left over: {name}, {reason}" for name, reason in left.items()]
        lines += [f"added here: {name}, all {value:g}" for name, value in filled.items()]
        lines.append(self.logits.describe() if self.logits else "logits: not compared, the other program is not here")
        if self.sample is not None:
            lines.append(f"sample: {self.sample[0]!r} gives {self.sample[1]!r}")
        return [*lines, *(f"note: {note}" for note in self.notes)]

    def to_dict(self) -> dict[str, Any]:
        """Return the output of `dragoman import --json`."""
        tree = asdict(self) | {"path": str(self.path), "notes": list(self.notes)}
        return tree | {
            "sample": None if self.sample is None else dict(zip(("text", "output"), self.sample, strict=True))
        }

    def load(self) -> "LoadedModel":
        """Load the model as `dragoman.load` does."""
        return load(self.path)


def import_model(
    source: str | Path,
    output_dir: str | Path,
    *,
    format: str | None = None,  # noqa: A002  # the name of the option
    source_language: str | None = None,
    target_language: str | None = None,
    allow_unused: Sequence[str] = (),
) -> ImportResult:
    """Read a model of another program and write it to a new run folder.

    The folder is used like a run that was trained here: `load`, `evaluate`, `export`, and `train(init_from=…)`. It
    records its origin, from which `export(format=…)` finds the way back.

    Args:
        source: File or folder of the model.
        output_dir: Folder of the new run; must not exist.
        format: Name of the format; by default it is recognized by the content of the files.
        source_language, target_language: Default languages of a multilingual model.
        allow_unused: Tensors and settings that may be left out; any other one without a place in the model is an error.

    Raises:
        ConfigError: The model has a part that dragoman does not compute.
        DataError: A file is damaged, its tensors do not fit the model, or the result differs from the other program's.
        RunError: The folder exists.
    """
    options = ImportOptions(source_language, target_language, tuple(allow_unused))
    return import_files(Path(source), RunFolder(Path(output_dir)), format=format, options=options)


def import_files(
    path: Path,
    folder: RunFolder,
    *,
    format: str | None,  # noqa: A002  # the name of the option
    options: ImportOptions,
    published: Published | None = None,
) -> ImportResult:
    """Import files as `import_model` does, and note where they were `published` in the origin and the model card."""
    folder.check_new(resumes=False)
    partner = recognize_format(path, format)
    check_languages(partner, options, where=str(path))
    assert partner.read is not None, "recognized formats are read"
    model = partner.read(path, options)
    if model.task != "translation" and (options.source_language, options.target_language) != (None, None):
        raise ConfigError(
            f"{path}: is no translation model, and has no languages. Leave --source-language and --target-language out."
        )
    if published is not None and model.origin.license is None:
        model = replace(model, origin=replace(model.origin, license=published.license))
    experiment = parse_experiment(_settings(model), where=str(path))
    _check_weights(model, where=str(path))
    with new_folder(folder.path) as work:
        files = RunFolder(work)
        _write_model(files, model, experiment)
        result = _describe(folder.path, model, experiment, check_logits(model), _sample(files))
        url = None if published is None else published.url
        write_atomically(files.origin, to_checked_json(_origin(model, result, url)))
        source = path.resolve().name if published is None else published.name
        card = _model_card(folder.path.resolve().name, source, model, result, build_task(experiment).description)
        write_atomically(files.model_card, card)
    return result


def check_languages(partner: Partner, options: ImportOptions, *, where: str) -> None:
    """Raise ConfigError if languages are given for a format that does not ask for them."""
    if not partner.reads_languages and (options.source_language, options.target_language) != (None, None):
        raise ConfigError(
            f"{where}: is a {partner.description}, which does not ask for languages. Leave --source-language and "
            "--target-language out."
        )


def _settings(model: ImportedModel) -> Tree:
    """Return the configuration of a run without a corpus."""
    tree: Tree = {
        "task": model.task,
        "tokenizer": model.tokenizer.config.model_dump(mode="json"),
        "model": model.network.model_dump(mode="json"),
    }
    match model.task:
        case "translation":
            longest = model.max_length - 1  # the end symbol does not count
            data: Tree = {"train": None, "max_source_length": longest, "max_target_length": longest}
            return {**tree, "data": data, "decoding": model.decoding.model_dump(mode="json")}
        case "language_modeling":
            data = {"kind": "text", "train": None, "context_length": model.max_length}
            generation = model.generation.model_dump(mode="json")
            return {**tree, "data": data, "generation": generation, "chat_template": model.chat_template}
        case "masked_lm":
            pooled = model.sentence_embedding.model_dump(mode="json")
            data = {"train": None, "context_length": model.max_length}
            return {**tree, "data": data, "sentence_embedding": pooled}
        case "classification" | "question_answering":
            assert model.head is not None, "a model of this task has a head"
            limits: Tree = {"max_length": model.max_length}
            if model.task == "question_answering":
                limits = {"windows": model.windows.model_dump(mode="json")}
            return {**tree, "data": {"train": None, **limits}, "head": model.head.model_dump(mode="json")}


def _check_weights(model: ImportedModel, *, where: str) -> None:
    """Raise RunError if weights are not those of the network, or not finite."""
    sizes = _vocabularies(model.network, model)
    expected = network_shapes(model.network, **sizes, head=model.head, num_labels=len(model.labels))
    check_shapes({name: array.shape for name, array in model.weights.items()}, expected, where=where)
    check_values(model.weights, where=where)


def _vocabularies(network: NetworkConfig, model: ImportedModel) -> dict[str, int]:
    masks = isinstance(network, EncoderOnlyConfig)  # the mask symbol follows the tokens
    sides = model.tokenizer
    return {"source_vocabulary": len(sides.source), "target_vocabulary": len(sides.target) + masks}


def _write_model(folder: RunFolder, model: ImportedModel, experiment: Experiment) -> None:
    """Write all files but the origin and the model card."""
    folder.write_config(experiment)
    model.tokenizer.save(folder.tokenizer)
    save_arrays(folder.weights, dict(model.weights))
    if model.labels:
        Labels(model.labels).save(folder.labels)
    if model.shortlist is not None:
        model.shortlist.save(folder.shortlist)
    facts = collect_environment(device=torch.device("cpu"), seed=0, tokenizer=model.tokenizer, corpora={})
    write_atomically(folder.environment, to_checked_json(facts))


def _sample(folder: RunFolder) -> tuple[str, str] | None:
    """Translate, continue or classify a text with the model of a folder."""
    if folder.read_config().task in ("masked_lm", "question_answering"):
        return None
    loaded: Any = load(folder.path, device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TextWarning)  # the sample itself shows that it is cut off or has unknown words
        match loaded:
            case Translator():
                languages: Any = loaded.tokenizer.prefixes.example()
                return SAMPLE_TEXT, loaded.translate(SAMPLE_TEXT, max_length=SAMPLE_TOKENS, **languages).text
            case Classifier():
                return SAMPLE_TEXT, loaded.classify(SAMPLE_TEXT).label
            case Generator():
                return SAMPLE_TEXT, loaded.generate(SAMPLE_TEXT, max_new_tokens=SAMPLE_TOKENS, temperature=0).text
    return None


def _describe(
    path: Path, model: ImportedModel, experiment: Experiment, logits: LogitsCheck | None, sample: tuple[str, str] | None
) -> ImportResult:
    return ImportResult(
        path=path,
        format=model.origin.format,
        task=model.task,
        model=describe_model(experiment.model),
        parameters=sum(array.size for array in model.weights.values()),
        tensors=model.tensors.to_json(),
        logits=logits,
        sample=sample,
        notes=model.notes,
    )


def _origin(model: ImportedModel, result: ImportResult, url: str | None) -> dict[str, Any]:
    """Return the record of the origin and of the self-check; `url` is where the files were downloaded from."""
    origin, check = model.origin, result.to_dict()
    return {
        "format": origin.format,
        "family": origin.family,
        "version": origin.version,
        "license": origin.license,
        "url": url,
        "dragoman": version("dragoman"),
        "orders": {side: order.to_json() for side, order in origin.orders.items()},
        "files": [{"file": file.name, "sha256": file_fingerprint(file)} for file in origin.files],
        "documents": dict(origin.documents),
        "number_formats": dict(origin.number_formats),
        "self_check": {key: check[key] for key in ("tensors", "logits", "sample", "notes")},
    }


def _model_card(name: str, source: str, model: ImportedModel, result: ImportResult, task: TaskDescription) -> str:
    """Return the model card: origin, network, self-check and usage."""
    origin = model.origin
    kind = f"format `{origin.format}`" + (f", family `{origin.family}`" if origin.family else "")
    terms = origin.license or "not named in its files; look at the page that the model comes from"
    network = f"{result.model}; {describe_vocabulary(model.tokenizer)}; {counted(result.parameters, 'parameters')}."
    parts = [
        f"# {name}",
        f"{'An' if task.noun[0] in 'aeiou' else 'A'} {task.noun}, imported by dragoman from `{source}` ({kind}).",
        f"License: {terms}.",
        "## Model",
        network,
        "## Self-check",
        "\n".join(f"- {line}" for line in result.lines()),
        usage_section(task, name),
    ]
    return "\n\n".join(parts) + "\n"
