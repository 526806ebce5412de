"""Export: copy what inference needs from a run to a folder, with weights of lower precision and a shortlist."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, final, get_args

from dragoman import cpu_library
from dragoman.atomic_files import new_folder, write_atomically
from dragoman.checksums import to_checked_json
from dragoman.data.preprocessing.pipeline import prepare_data
from dragoman.data.readers.parallel import ParallelFiles, read_corpus
from dragoman.data.shortlist import ShortlistConfig, build_shortlist
from dragoman.errors import ConfigError, RunError, known_word
from dragoman.inference.backends import cpu_backend
from dragoman.interop.recognize_format import require_format
from dragoman.models.config import DecoderOnlyConfig, EncoderDecoderConfig
from dragoman.models.weight_quantization import ComputeType, load_arrays, quantize_weights, save_arrays
from dragoman.models.weight_storage import parameter_shapes
from dragoman.profiling.memory_and_time_estimate import build_meta_model
from dragoman.runs.config import CORPUS_PATH_KEYS, map_paths
from dragoman.runs.export_format import write_format
from dragoman.runs.folder import RunFolder, scoring_command
from dragoman.runs.load import open_run
from dragoman.runs.model_card import SCORES_HEADING, describe_model, usage_section
from dragoman.tasks.config import Experiment, ModelConfig, TranslationConfig
from dragoman.tasks.factory import build_task
from dragoman.tasks.task import cache_dir, check_unchanged

MEBIBYTE = 2**20
_PATH_KEYS = {*CORPUS_PATH_KEYS, "init_from", "teacher", "extra_teachers"}
"""Configuration keys of paths on the training machine."""


@final
@dataclass(frozen=True)
class ExportResult:
    """Exported model."""

    path: Path
    compute_type: ComputeType
    before: int
    """Bytes of the weights of the run."""
    after: int
    """Bytes of the exported weights; of all files in the format of another program."""
    pairs: int | None = None
    """Pairs that the shortlist was built from."""
    format: str | None = None
    """Format of another program; None for an exported run."""
    self_check: str | None = None
    """Result of a comparison of the files with the run in words, for formats that have one."""

    def to_dict(self) -> dict[str, Any]:
        """Return the output of `dragoman export --json`."""
        return {
            "path": str(self.path),
            "format": self.format,
            "compute_type": self.compute_type,
            "self_check": self.self_check,
            "shortlist_pairs": self.pairs,
            "bytes": {"run": self.before, "export": self.after},
        }


def export(
    run: str | Path,
    output_dir: str | Path,
    *,
    format: str | None = None,  # noqa: A002  # the name of the option
    compute_type: ComputeType = "float32",
    shortlist: ShortlistConfig | bool = False,
    source: str | Path | None = None,
    target: str | Path | None = None,
    languages: tuple[str, str] | None = None,
) -> ExportResult:
    """Write the model of a finished run to a new folder, without training state.

    `dragoman.load` accepts the folder like a run, unless `format` names another program that reads it. Weights have the
    given compute type, of which `int8` needs a quarter of the space of `float32`. A `shortlist` is built from the
    aligned files `source` and `target`, by default from the training data, which must still exist. `languages` are the
    codes of source and target language, for formats that name them. Raises RunError if the run is unfinished or the
    folder exists, ConfigError if the model does not support the format, the compute type or a shortlist, and DataError
    if the corpus is unusable.
    """
    folder, out = open_run(run), Path(output_dir)
    compute_type = _read_compute_type(compute_type, format)
    if (source is None) != (target is None):
        raise ConfigError("source and target are the two sides of one corpus. Give both, or neither.")
    if languages is not None and format is None:
        raise ConfigError("languages have no effect without format. Leave them out.")
    config = ShortlistConfig() if shortlist is True else shortlist or None
    _check_shortlist(format, config, has_corpus=source is not None)
    stored = compute_type if format is None else "float32"
    experiment = _read_exportable(folder, out, stored, shortlist=config is not None)

    def texts() -> Iterator[tuple[str, str]]:
        if source is not None and target is not None:
            return _read_pairs(source, target)
        return _read_training_pairs(experiment, folder)

    built, pairs, check = None, None, None
    with new_folder(out) as path:
        if config is not None:
            built, pairs = build_shortlist(texts(), folder.read_tokenizer(), config)
        if format is not None:
            check = write_format(
                folder,
                experiment,
                path,
                name=out.name,
                format_name=format,
                compute_type=compute_type,
                shortlist=built,
                texts=texts,
                languages=languages,
            )
        if format is None or require_format(format, writes=True).is_run:
            if built is not None:
                built.save(RunFolder(path).shortlist)
            _write_run(RunFolder(path), folder, experiment, name=out.name, compute_type=compute_type)
    weights = (file for file in out.rglob("*") if file.is_file()) if format is not None else [RunFolder(out).weights]
    after = sum(file.stat().st_size for file in weights)
    return ExportResult(out, compute_type, folder.weights.stat().st_size, after, pairs, format, check)


def _read_compute_type(word: ComputeType, format_name: str | None) -> ComputeType:
    """Return a compute type in its own spelling. Raises ConfigError if it is unknown, or unknown to other programs."""
    compute_type = known_word(word, get_args(ComputeType))
    if compute_type not in get_args(ComputeType):
        raise ConfigError(
            f"compute_type = {compute_type!r} does not exist. Choose one of {', '.join(get_args(ComputeType))}."
        )
    if format_name is not None and compute_type == "int8_int16":
        raise ConfigError("compute_type = int8_int16 is for run folders. Choose another one, or leave format out.")
    return compute_type


def _check_shortlist(format_name: str | None, config: ShortlistConfig | None, *, has_corpus: bool) -> None:
    """Raise ConfigError if the format holds no shortlist, or a corpus has no effect."""
    has_shortlists = format_name is None or require_format(format_name, writes=True).has_shortlists
    if has_corpus and config is None and (format_name is None or not has_shortlists):
        raise ConfigError("source and target have no effect without shortlist. Leave them out.")
    if config is not None and not has_shortlists:
        raise ConfigError(f"format = {format_name} holds no shortlists. Leave shortlist or format out.")


def _read_exportable(folder: RunFolder, out: Path, compute_type: ComputeType, *, shortlist: bool) -> Experiment:
    """Return the configuration of a run. Raises an error if it cannot be exported in this way."""
    experiment = folder.read_config()
    folder.check_finished()
    if folder.read_export():
        raise RunError(f"{folder.path}: is an exported model. Export the run that it comes from.")
    if out.exists():
        raise RunError(f"{out}: exists, and exports are never overwritten. Choose another --output-dir.")
    if compute_type != "float32" and (reason := _unsupported_reason(experiment.model)) is not None:
        raise ConfigError(f"{folder.path}: {reason}. {compute_type} would only lose precision; export it as float32.")
    if shortlist and not isinstance(experiment, TranslationConfig):
        raise ConfigError(
            "A shortlist restricts the words of translations, and this run is no translator. Leave it out."
        )
    return experiment


def _read_pairs(source: str | Path, target: str | Path) -> Iterator[tuple[str, str]]:
    corpus = ParallelFiles(source=Path(source), target=Path(target))
    return ((one.source, one.target) for one in read_corpus(corpus) if one.source and one.target)


def _read_training_pairs(experiment: Experiment, folder: RunFolder) -> Iterator[tuple[str, str]]:
    if not isinstance(experiment, TranslationConfig) or experiment.data.train is None:
        raise ConfigError(f"{folder.path}: has no training data here. Give a corpus with --source and --target.")
    data = prepare_data(experiment.data, cache_dir(), seed=experiment.training.seed)
    check_unchanged(data.fingerprints, folder)
    return iter(data.train)


def _write_run(
    export: RunFolder, run: RunFolder, experiment: Experiment, *, name: str, compute_type: ComputeType
) -> None:
    """Write everything that inference needs: weights, unless there are graphs, settings, tokenizer and model card."""
    run.copy_files(
        export,
        *(run.tokenizer, run.labels, run.environment, run.scores, run.quality, run.familiarity, run.alignment),
        run.origin,
    )
    shapes = parameter_shapes(build_meta_model(experiment, run))
    if not export.graph.exists():
        save_arrays(export.weights, quantize_weights(load_arrays(run.weights, shapes), compute_type))
    tree = experiment.model_dump(mode="json")
    for key in tree.keys() & {"data", "init_from", "training"}:  # without folders, because exports are published
        tree[key] = map_paths(tree[key], lambda path: Path(path).name, keys=_PATH_KEYS, key=key)
    export.write_config_tree(tree)
    size = sum(file.stat().st_size for file in export.weight_files()) / MEBIBYTE
    what = "weights" if export.weights.exists() else "graphs of ONNX"
    facts = {"run": run.path.resolve().name, "compute_type": compute_type, "dragoman": version("dragoman")}
    write_atomically(export.export, to_checked_json(facts))
    card = renamed_card(run, experiment, name)
    if compute_type != "float32":
        note = _describe_origin_of_scores(experiment, name, compute_type)
        card = card.replace(f"{SCORES_HEADING}\n", f"{SCORES_HEADING}\n\n{note}\n", 1)
    content = f"The folder `{name}` contains the {what} of the run `{facts['run']}` as {compute_type} ({size:.1f} MiB)"
    note = "It has no checkpoint: commands with `--resume` are for the run"
    description = f"{content}: {describe_model(experiment.model)}. {note}."
    write_atomically(export.model_card, f"{card}\n\n## Export\n\n{description}\n")


def renamed_card(run: RunFolder, experiment: Experiment, name: str) -> str:
    """Return the model card of a run with title and commands for its export, which may be the only copy elsewhere."""
    card, old = run.read_model_card().rstrip(), run.path.resolve().name
    if not card:
        return f"# {name}"
    task = build_task(experiment).description
    card = card.replace(usage_section(task, old), usage_section(task, name))
    return f"# {name}{card.removeprefix(f'# {old}')}" if card.startswith(f"# {old}\n") else card


def _describe_origin_of_scores(experiment: Experiment, name: str, compute_type: ComputeType) -> str:
    """Return a note for the model card that its scores are not those of the exported weights."""
    command = scoring_command(experiment.task, name)
    note = (
        f"**These are the scores of the float32 weights of the run, not of the {compute_type} weights in this folder.**"
    )
    return f"{note} Score the {compute_type} weights with:\n\n```\n{command}\n```" if command else note


def _unsupported_reason(model: ModelConfig) -> str | None:
    """Return why a model only runs in float32; None if it does not, or if the CPU library is missing."""
    if not isinstance(model, EncoderDecoderConfig | DecoderOnlyConfig):
        return f"models of kind {model.kind} run in float32"
    if not cpu_library.is_installed() or cpu_library.unusable_reason() is not None:
        return None
    return cpu_backend.unsupported_reason(model.model_dump(mode="json"))
