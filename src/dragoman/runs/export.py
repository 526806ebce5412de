"""From a run to a folder that holds what it takes to use the model, and nothing of what it took to train it."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, final

import yaml

from dragoman import cpu_library
from dragoman.atomic import new_folder, write_atomically
from dragoman.config import Tree
from dragoman.data.preprocessing.prepare import prepare_data
from dragoman.data.readers.corpus import read_corpus
from dragoman.data.readers.parallel import ParallelFiles
from dragoman.data.shortlist import ShortlistConfig, build_shortlist
from dragoman.errors import ConfigError, RunError
from dragoman.inference.backends import cpu_backend
from dragoman.models.config import DecoderOnlyConfig, EncoderDecoderConfig
from dragoman.models.quantization import ComputeType, load_arrays, quantize_weights, save_arrays
from dragoman.runs.folder import RunFolder
from dragoman.runs.model_card import describe_model
from dragoman.tasks.base import cache_dir
from dragoman.tasks.config import Experiment, ModelConfig
from dragoman.tasks.config import TranslationConfig as TranslationSettings

MEBIBYTE = 2**20


@final
@dataclass(frozen=True)
class ExportResult:
    """Sizes of the weights on disk, in bytes."""

    before: int
    after: int
    pairs: int | None = None
    """What a shortlist was learnt from."""


def export_run(
    run: Path,
    out: Path,
    *,
    compute_type: ComputeType,
    shortlist: ShortlistConfig | None = None,
    corpus: ParallelFiles | None = None,
) -> ExportResult:
    """Write the model of a finished run to a folder of its own, its weights stored in this precision.

    `load` takes it as it takes the run. A `shortlist` is learnt from the corpus given, or from what the run learnt
    from, which must still be there, and stored too. The folder is there whole or not at all. Raises RunError where the
    run is none or unfinished, or the folder is there already, ConfigError where the network has nothing to gain from
    less than float32 or no words to shortlist, and DataError where there is nothing to learn a shortlist from.
    """
    folder = RunFolder(run)
    experiment = folder.read_config()
    folder.check_finished()
    if folder.read_export():
        raise RunError(f"{run}: is an exported model already; export the run that it came from")
    if out.exists():
        raise RunError(f"{out}: exists already and is never overwritten; choose another place by --out")
    if compute_type != "float32" and (reason := _reason_against(experiment.model)) is not None:
        raise ConfigError(f"{run}: {reason}; {compute_type} would only lose precision, so export it as float32")
    pairs = None
    with new_folder(out) as place:
        if shortlist is not None:
            texts = _read_training_pairs(experiment) if corpus is None else _read_pairs(corpus)
            learnt, pairs = build_shortlist(texts, folder.read_tokenizer(), shortlist)
            learnt.save(RunFolder(place).shortlist)
        _write_export(RunFolder(place), folder, experiment, name=out.name, compute_type=compute_type)
    return ExportResult(folder.weights.stat().st_size, RunFolder(out).weights.stat().st_size, pairs)


def _read_training_pairs(experiment: Experiment) -> Iterator[tuple[str, str]]:
    """What a run of translation learnt from, as it was cleaned then."""
    if not isinstance(experiment, TranslationSettings):
        raise ConfigError(
            "a shortlist is about the words of translations, and this run translates nothing; leave it out"
        )
    return prepare_data(experiment.data, cache_dir(), seed=experiment.training.seed).train.pairs()


def _read_pairs(corpus: ParallelFiles) -> Iterator[tuple[str, str]]:
    return ((example.source, example.target) for example in read_corpus(corpus) if example.source and example.target)


def _write_export(
    place: RunFolder, folder: RunFolder, experiment: Experiment, *, name: str, compute_type: ComputeType
) -> None:
    for path in (folder.tokenizer, folder.labels, folder.environment, folder.scores):
        if path.exists():
            shutil.copyfile(path, place.path / path.name)
    save_arrays(place.weights, quantize_weights(load_arrays(folder.weights), compute_type))
    tree = _strip_folders(experiment.model_dump(mode="json"))
    write_atomically(place.config, yaml.safe_dump(tree, sort_keys=False, allow_unicode=True))
    size = place.weights.stat().st_size / MEBIBYTE
    facts = {"run": folder.path.resolve().name, "compute_type": compute_type, "dragoman": version("dragoman")}
    write_atomically(place.export, json.dumps(facts, indent=2) + "\n")
    card = folder.model_card.read_text(encoding="utf-8").rstrip() if folder.model_card.exists() else f"# {name}"
    about = f"The folder `{name}` holds the weights of the run `{facts['run']}` as {compute_type} ({size:.1f} MiB)"
    write_atomically(place.model_card, f"{card}\n\n## Export\n\n{about}: {describe_model(experiment.model)}.\n")


def _strip_folders(tree: Tree) -> Tree:
    """The configuration with corpora and runs named as anyone may know them, for the model is made to be handed on."""
    named = {"source", "target", "source_features", "path", "folder", "init_from", "teacher", "beside"}

    def plain(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: plain(one, name) for name, one in value.items()}
        if isinstance(value, list):
            return [plain(one, key) for one in value]
        return Path(value).name if key in named and isinstance(value, str) else value

    return {**tree, **{key: plain(tree[key], key) for key in ("data", "init_from", "training") if key in tree}}


def _reason_against(model: ModelConfig) -> str | None:
    """Why nothing computes this network in less than float32, as far as can be known here: the core is asked."""
    if not isinstance(model, EncoderDecoderConfig | DecoderOnlyConfig):
        return f"networks of kind {model.kind} are computed in float32"
    if not cpu_library.is_installed() or cpu_library.unusable_reason() is not None:
        return None
    return cpu_backend.unsupported_reason(model.model_dump(mode="json"))
