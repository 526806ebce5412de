"""Cleaned texts of a run: from the cache, from the corpora of a configuration, or from a prepared folder."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from dragoman.atomic_files import new_folder, open_or_build, read_json
from dragoman.config import Tree
from dragoman.data.cleaning_rules import CleaningReport
from dragoman.data.config import DataConfig
from dragoman.data.datasets.parallel import TextStore, TokenStore
from dragoman.data.fingerprints import file_fingerprint, json_fingerprint
from dragoman.data.preprocessing.pipeline import (
    CleanedTexts,
    clean_in_blocks,
    remove_intermediate_files,
    run_sequentially,
)
from dragoman.data.readers.parallel import corpus_paths
from dragoman.data.tokenizers import Tokenizer
from dragoman.errors import DataError

_VERSION = 3
_SUMMARY = "summary.json"
_FORMAT = "dragoman.cleaned"

INDEX_FILE = "index.json"
TOKENIZER_FILE = "tokenizer.json"
FORMAT = "dragoman.prepared"
FORMAT_VERSION = 1


@final
@dataclass(frozen=True)
class TokenizedText:
    """Ids of the training text in a prepared folder."""

    folder: Path
    tokens: TokenStore
    tokenizer: Tokenizer
    corpus_weights: tuple[float, ...]
    """Average number of times that pairs of each corpus are used in an epoch."""


@final
@dataclass(frozen=True)
class PreparedData(CleanedTexts):
    """Cleaned texts of a run and their corpus files."""

    fingerprints: dict[str, str]
    """SHA-256 of every corpus file, by path."""
    tokenized: TokenizedText | None = None
    """Ids of the training text, if prepared."""


def prepare_data(settings: DataConfig, cache: Path, *, seed: int) -> PreparedData:
    """Return the cleaned texts, from `cache` if the same files and settings were prepared before.

    `seed` draws the held-out part. Raises DataError if a corpus is unreadable or too little of it is left.
    """
    if settings.prepared_folder is not None:
        return open_prepared(settings.prepared_folder)
    fingerprints = {str(path): file_fingerprint(path) for path in corpus_files(settings)}
    facts = {"version": _VERSION, "settings": cache_key_fields(settings), "files": fingerprints, "seed": seed}
    folder = cache / f"texts-{json_fingerprint(facts)[:16]}"

    def build(folder: Path) -> PreparedData:
        with new_folder(folder) as partial:
            cleaned = clean_in_blocks(settings, partial, seed=seed, runner=run_sequentially)
            remove_intermediate_files(partial)
            summary = {"format": _FORMAT, "format_version": _VERSION}
            summary |= {"notes": cleaned.notes, "report": cleaned.report.to_json(), "ends": cleaned.ends}
            (partial / _SUMMARY).write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
        return open_folder(folder)

    def open_folder(folder: Path) -> PreparedData:
        remedy = "it is built again from the corpus"
        summary = read_json(folder / _SUMMARY, format_name=_FORMAT, version=_VERSION, remedy=remedy)
        with _damaged_unless_read(folder / _SUMMARY):
            return _open(folder, summary, fingerprints)

    return open_or_build(folder, open_folder, build)


def cache_key_fields(settings: DataConfig) -> Tree:
    """Return the settings that determine the cleaned texts; the others concern tokens or epochs."""
    later = {"max_source_length", "max_target_length", "tokenizer_sample_size", "noise", "temperature"}
    chosen = settings.model_dump(mode="json", exclude={*later, "extra_corpora"})
    return {**chosen, "extra_corpora": [extra.corpus.model_dump(mode="json") for extra in settings.extra_corpora]}


def corpus_files(settings: DataConfig) -> list[Path]:
    """Return the files of all corpora of a run."""
    corpora = [*settings.train_corpora, settings.valid, settings.test]
    return [path for corpus in corpora if corpus is not None for path in corpus_paths(corpus)]


@contextmanager
def _damaged_unless_read(file: Path) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{file}: damaged ({error!r}); prepare the corpus again") from error


def _open(folder: Path, tree: Tree, fingerprints: dict[str, str]) -> PreparedData:
    report, notes, ends = CleaningReport.from_json(tree["report"]), tuple(tree["notes"]), tuple(tree["ends"])
    test = TextStore(folder / "test") if (folder / "test").is_dir() else None
    train, valid = TextStore(folder / "texts"), TextStore(folder / "valid")
    return PreparedData(train, valid, test, report, notes, ends, fingerprints)


def open_prepared(folder: Path) -> PreparedData:
    """Open a folder written by `dragoman data prepare`. Raises DataError if it is missing, damaged or outdated."""
    index, file = read_index(folder), folder / INDEX_FILE
    fingerprints = {str(file): file_fingerprint(file)}
    with _damaged_unless_read(file):
        for number, corpus in enumerate(index["corpora"]):
            fingerprints[str(folder / str(number) / corpus["file"])] = corpus["sha256"]
        data, tokens = _open(folder, index, fingerprints), TokenStore(folder / "ids")
        wanted, weights = dict(index["stores"]), tuple(index["weights"])
    stores = {"texts": data.train, "ids": tokens, "valid": data.valid}
    if any(wanted.get(name) != one.fingerprint for name, one in stores.items()):
        raise DataError(f"{folder}: its files do not match {INDEX_FILE}; prepare the corpus again")
    return replace(data, tokenized=TokenizedText(folder, tokens, Tokenizer.load(folder / TOKENIZER_FILE), weights))


def read_index(folder: Path) -> Tree:
    """Read the index of a prepared folder. Raises DataError if it is missing, damaged or of another version."""
    remedy = "give a folder that dragoman data prepare of this version has written"
    return read_json(folder / INDEX_FILE, format_name=FORMAT, version=FORMAT_VERSION, remedy=remedy)
