"""Cleaned texts of a run: from the cache, from the corpora of a configuration, or from a prepared folder."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import final

from dragoman.atomic_files import new_folder, open_or_build, read_json
from dragoman.config import Tree
from dragoman.data.cleaning_rules import CleaningReport
from dragoman.data.config import DataConfig
from dragoman.data.datasets.parallel import TextStore, TokenStore
from dragoman.data.fingerprints import file_fingerprint, json_fingerprint
from dragoman.data.preprocessing.pipeline import SequentialRunner, clean_in_blocks, remove_intermediate_files
from dragoman.data.readers.parallel import corpus_paths
from dragoman.data.tokenizers import Tokenizer
from dragoman.errors import DataError

_VERSION = 3
_SUMMARY = "summary.json"

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
class PreparedData:
    """Cleaned texts of a run."""

    train: TextStore
    valid: TextStore
    test: TextStore | None
    report: CleaningReport
    """Cleaning of the training text."""
    notes: tuple[str, ...]
    """Messages about repairs, empty validation pairs and leaks."""
    fingerprints: dict[str, str]
    """SHA-256 of every corpus file, by path."""
    ends: tuple[int, ...]
    """Last line of each training corpus; line numbers continue from corpus to corpus."""
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

    def build() -> PreparedData:
        with new_folder(folder) as partial:
            cleaned = clean_in_blocks(settings, partial, seed=seed, runner=SequentialRunner())
            remove_intermediate_files(partial)
            summary = {"notes": cleaned.notes, "report": cleaned.report.to_json(), "ends": cleaned.ends}
            (partial / _SUMMARY).write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
        return _open(folder, fingerprints)

    return open_or_build(folder, lambda: _open(folder, fingerprints), build)


def cache_key_fields(settings: DataConfig) -> Tree:
    """Return the settings that determine the cleaned texts; the others concern tokens or epochs."""
    later = {"max_source_length", "max_target_length", "tokenizer_sample_size", "noise", "temperature"}
    chosen = settings.model_dump(mode="json", exclude={*later, "extra_corpora"})
    return {**chosen, "extra_corpora": [extra.corpus.model_dump(mode="json") for extra in settings.extra_corpora]}


def corpus_files(settings: DataConfig) -> list[Path]:
    """Return the files of all corpora of a run."""
    corpora = [*settings.train_corpora, settings.valid, settings.test]
    return [path for corpus in corpora if corpus is not None for path in corpus_paths(corpus)]


def _open(folder: Path, fingerprints: dict[str, str]) -> PreparedData:
    try:
        summary = json.loads((folder / _SUMMARY).read_text(encoding="utf-8"))
        report, notes = CleaningReport.from_json(summary["report"]), tuple(summary["notes"])
        ends = tuple(summary["ends"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder}: no prepared texts; they are built again from the corpus") from error
    return PreparedData(*_open_texts(folder), report=report, notes=notes, fingerprints=fingerprints, ends=ends)


def _open_texts(folder: Path) -> tuple[TextStore, TextStore, TextStore | None]:
    test = TextStore(folder / "test") if (folder / "test").is_dir() else None
    return TextStore(folder / "texts"), TextStore(folder / "valid"), test


def open_prepared(folder: Path) -> PreparedData:
    """Open a folder written by `dragoman data prepare`. Raises DataError if it is missing, damaged or outdated."""
    index = read_index(folder)
    try:
        report, wanted = CleaningReport.from_json(index["report"]), index["stores"]
        corpora = {
            str(folder / str(number) / corpus["file"]): corpus["sha256"]
            for number, corpus in enumerate(index["corpora"])
        }
        notes, ends, weights = tuple(index["notes"]), tuple(index["ends"]), tuple(index["weights"])
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{folder / INDEX_FILE}: damaged ({error!r}); prepare the corpus again") from error
    texts, valid, test = _open_texts(folder)
    tokens = TokenStore(folder / "ids")
    stores = {"texts": texts, "ids": tokens, "valid": valid}
    if not isinstance(wanted, dict) or any(wanted.get(name) != one.fingerprint for name, one in stores.items()):
        raise DataError(f"{folder}: its files do not match {INDEX_FILE}; prepare the corpus again")
    fingerprints = {str(folder / INDEX_FILE): file_fingerprint(folder / INDEX_FILE), **corpora}
    tokenized = TokenizedText(folder, tokens, Tokenizer.load(folder / TOKENIZER_FILE), weights)
    return PreparedData(
        texts, valid, test, report=report, notes=notes, fingerprints=fingerprints, ends=ends, tokenized=tokenized
    )


def read_index(folder: Path) -> Tree:
    """Read the index of a prepared folder. Raises DataError if it is missing, damaged or of another version."""
    remedy = "give a folder that dragoman data prepare of this version has written"
    return read_json(folder / INDEX_FILE, format_name=FORMAT, version=FORMAT_VERSION, remedy=remedy)
