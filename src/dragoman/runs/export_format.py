"""Export of a run to the format of another program."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, assert_never

from dragoman.data.shortlist import Shortlist
from dragoman.errors import ConfigError
from dragoman.interop.imported_model import ExportedModel, ImportedTask, Origin
from dragoman.interop.recognize_format import require_format
from dragoman.interop.vocabulary_order import VocabularyOrder
from dragoman.models.weight_quantization import ComputeType, dequantize_weights, load_arrays
from dragoman.models.weight_storage import parameter_shapes
from dragoman.profiling.memory_and_time_estimate import build_meta_model
from dragoman.runs.folder import RunFolder
from dragoman.tasks.config import (
    ClassificationConfig,
    Experiment,
    LanguageModelingConfig,
    MaskedLMConfig,
    QuestionAnsweringConfig,
    TranslationConfig,
)

_Exported = TranslationConfig | LanguageModelingConfig | MaskedLMConfig | ClassificationConfig | QuestionAnsweringConfig


def write_format(
    folder: RunFolder,
    experiment: Experiment,
    out: Path,
    *,
    name: str,
    format_name: str,
    compute_type: ComputeType,
    shortlist: Shortlist | None,
    texts: Callable[[], Iterable[tuple[str, str]]],
    languages: tuple[str, str] | None,
) -> str | None:
    """Write the model of a finished run to an empty folder, which is later called `name`.

    The shortlist is by default that of the run; `texts` returns the pairs of texts of the training corpus. Returns what
    a check of the files found, for formats that have one.

    Raises ConfigError if the format is unknown, only read, or lacks a part of the model.
    """
    write = require_format(format_name, writes=True).write
    assert write is not None, "checked"
    if not isinstance(experiment, _Exported):
        raise ConfigError(
            f"{folder.path}: is a run of task {experiment.task}, which no format of other programs holds. Export it "
            "without --format."
        )
    task: ImportedTask = experiment.task
    shapes = parameter_shapes(build_meta_model(experiment, folder))
    template = getattr(experiment, "chat_template", None)
    options: dict[str, Any] = {"decoding": experiment.decoding} if isinstance(experiment, TranslationConfig) else {}
    model = ExportedModel(
        name=name,
        task=task,
        network=experiment.model,
        weights=dequantize_weights(load_arrays(folder.weights, shapes)),
        tokenizer=folder.read_tokenizer(),
        max_length=_max_length(experiment),
        head=getattr(experiment, "head", None),
        origin=read_origin(folder),
        chat_template=None if template is None else template.model_dump(mode="json"),
        shortlist=Shortlist.load(folder.shortlist) if shortlist is None and folder.shortlist.exists() else shortlist,
        texts=texts,
        compute_type=compute_type,
        scores=_scores(folder),
        languages=languages,
        **options,
    )
    return write(model, out)


def _max_length(experiment: _Exported) -> int:
    match experiment:
        case TranslationConfig():
            return max(experiment.data.max_source_length, experiment.data.max_target_length) + 1
        case ClassificationConfig():
            return experiment.data.max_length
        case QuestionAnsweringConfig():
            return experiment.data.windows.max_length
        case LanguageModelingConfig() | MaskedLMConfig():
            return experiment.data.context_length
        case _:
            assert_never(experiment)


def read_origin(folder: RunFolder) -> Origin | None:
    """Return the origin of an imported model; None for a model trained here."""
    tree = folder.read_origin()
    if not tree:
        return None
    orders = {side: VocabularyOrder.from_json(order) for side, order in tree["orders"].items()}
    kept = ("format", "family", "version", "license", "documents", "number_formats")
    return Origin(orders=orders, **{key: tree[key] for key in kept})


def _scores(folder: RunFolder) -> dict[str, float]:
    """Return the scores of the test set by metric, in lowercase."""
    scores = folder.read_scores().get("scores", {}).get("test", [])
    return {str(score["metric"]).lower(): float(score["value"]) for score in scores}
