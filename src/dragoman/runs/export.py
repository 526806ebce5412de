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
from dragoman.data.preprocessing.prepare import prepare
from dragoman.data.readers import ParallelFiles, read
from dragoman.data.shortlist import ShortlistSettings, learn_shortlist
from dragoman.errors import ConfigError, RunError
from dragoman.inference.backends import cpu_backend
from dragoman.models.config import CausalConfig, TransformerConfig
from dragoman.models.quantization import Compute, read_arrays, stored, write_arrays
from dragoman.runs.config import Experiment
from dragoman.runs.folder import RunFolder
from dragoman.tasks.compatibility import Network
from dragoman.tasks.config import Translation as TranslationSettings
from dragoman.tasks.network_description import network_in_words
from dragoman.tasks.prepared_data import cache_folder

MEBIBYTE = 2**20


@final
@dataclass(frozen=True)
class Exported:
    """Sizes of the weights on disk, in bytes."""

    before: int
    after: int
    pairs: int | None = None
    """What a shortlist was learnt from."""


def export(
    run: Path,
    out: Path,
    *,
    compute: Compute,
    shortlist: ShortlistSettings | None = None,
    corpus: ParallelFiles | None = None,
) -> Exported:
    """Write the model of a finished run to a folder of its own, its weights stored in this precision.

    `load` takes it as it takes the run. A `shortlist` is learnt from the corpus given, or from what the run learnt
    from, which must still be there, and stored too. The folder is there whole or not at all. Raises RunError where the
    run is none or unfinished, or the folder is there already, ConfigError where the network has nothing to gain from
    less than float32 or no words to shortlist, and DataError where there is nothing to learn a shortlist from.
    """
    folder = RunFolder(run)
    experiment = folder.read_config()
    folder.require_weights()
    if folder.read_export():
        raise RunError(f"{run}: is an exported model already; export the run that it came from")
    if out.exists():
        raise RunError(f"{out}: exists already and is never overwritten; choose another place by --out")
    if compute != "float32" and (reason := _reason_against(experiment.model)) is not None:
        raise ConfigError(f"{run}: {reason}; {compute} would only lose precision, so export it as float32")
    pairs = None
    with new_folder(out) as place:
        if shortlist is not None:
            texts = _training_pairs(experiment) if corpus is None else _pairs_of(corpus)
            learnt, pairs = learn_shortlist(texts, folder.read_tokenizer(), shortlist)
            learnt.save(RunFolder(place).shortlist)
        _fill(RunFolder(place), folder, experiment, name=out.name, compute=compute)
    return Exported(folder.weights.stat().st_size, RunFolder(out).weights.stat().st_size, pairs)


def _training_pairs(experiment: Experiment) -> Iterator[tuple[str, str]]:
    """What a run of translation learnt from, as it was cleaned then."""
    if not isinstance(experiment, TranslationSettings):
        raise ConfigError(
            "a shortlist is about the words of translations, and this run translates nothing; leave it out"
        )
    return prepare(experiment.data, cache_folder(), seed=experiment.training.seed).train.pairs()


def _pairs_of(corpus: ParallelFiles) -> Iterator[tuple[str, str]]:
    return ((example.source, example.target) for example in read(corpus) if example.source and example.target)


def _fill(place: RunFolder, folder: RunFolder, experiment: Experiment, *, name: str, compute: Compute) -> None:
    for path in (folder.tokenizer, folder.labels, folder.environment, folder.scores):
        if path.exists():
            shutil.copyfile(path, place.path / path.name)
    write_arrays(place.weights, stored(read_arrays(folder.weights), compute))
    tree = _without_folders(experiment.model_dump(mode="json"))
    write_atomically(place.config, yaml.safe_dump(tree, sort_keys=False, allow_unicode=True))
    size = place.weights.stat().st_size / MEBIBYTE
    facts = {"run": folder.path.resolve().name, "compute": compute, "dragoman": version("dragoman")}
    write_atomically(place.export, json.dumps(facts, indent=2) + "\n")
    card = folder.card.read_text(encoding="utf-8").rstrip() if folder.card.exists() else f"# {name}"
    about = f"The folder `{name}` holds the weights of the run `{facts['run']}` as {compute} ({size:.1f} MiB)"
    write_atomically(place.card, f"{card}\n\n## Export\n\n{about}: {network_in_words(experiment.model)}.\n")


def _without_folders(tree: Tree) -> Tree:
    """The configuration with corpora and runs named as anyone may know them, for the model is made to be handed on."""
    named = {"source", "target", "source_trees", "path", "folder", "start", "teacher", "beside"}

    def plain(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: plain(one, name) for name, one in value.items()}
        if isinstance(value, list):
            return [plain(one, key) for one in value]
        return Path(value).name if key in named and isinstance(value, str) else value

    return {**tree, **{key: plain(tree[key], key) for key in ("data", "start", "training") if key in tree}}


def _reason_against(model: Network) -> str | None:
    """Why nothing computes this network in less than float32, as far as can be known here: the core is asked."""
    if not isinstance(model, TransformerConfig | CausalConfig):
        return f"networks of kind {model.kind} are computed in float32"
    if not cpu_library.is_installed() or cpu_library.fault() is not None:
        return None
    return cpu_backend.refusal(model.model_dump(mode="json"))
