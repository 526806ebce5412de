"""From the corpora of a configuration to cleaned texts on disk, once."""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

from dragoman.data.cleaning import FEWEST, Report, clean, held_out_key, require_enough, without_empty
from dragoman.data.config import DataSettings
from dragoman.data.corpora import Corpus, Example, Repairs, name_of, paths_of, read
from dragoman.data.fingerprints import KeySet, file_fingerprint
from dragoman.data.holding_out import key_of, size_of_held_out, threshold
from dragoman.data.mixing import Mixture
from dragoman.data.store import TextStore
from dragoman.errors import DataError
from dragoman.files import new_folder

_VERSION = 2
_SUMMARY = "summary.json"


@final
@dataclass(frozen=True)
class Prepared:
    """The texts of a run, on disk, and what was found on the way."""

    train: TextStore
    valid: TextStore
    test: TextStore | None
    report: Report
    """What cleaning did to the training text."""
    notes: tuple[str, ...]
    """Sentences to be printed: repairs, empty validation pairs, leaks."""
    fingerprints: dict[str, str]
    """SHA-256 of every corpus file, by path."""
    ends: tuple[int, ...]
    """The last line of each corpus that is learnt from; a line of the training text counts on from one to the next."""


def prepare(settings: DataSettings, cache: Path, *, seed: int) -> Prepared:
    """Read, clean, hold out and store, or open what the same files and settings gave before.

    `seed` draws the held-out part. Raises DataError where a corpus cannot be read or too little of it is left.
    """
    fingerprints = {str(path): file_fingerprint(path) for path in _paths(settings)}
    # The longest_* limits count tokens, which do not exist yet; noise and times are of an epoch.
    chosen = settings.model_dump(
        mode="json", exclude={"longest_source", "longest_target", "noise", "beside", "temperature"}
    )
    chosen["beside"] = [one.corpus.model_dump(mode="json") for one in settings.beside]
    facts = {"version": _VERSION, "settings": chosen, "files": fingerprints, "seed": seed}
    folder = cache / f"texts-{hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]}"
    try:
        return _open(folder, fingerprints)
    except DataError:
        with new_folder(folder) as partial:
            _build(settings, partial, seed=seed)
        return _open(folder, fingerprints)


def _open(folder: Path, fingerprints: dict[str, str]) -> Prepared:
    try:
        summary = json.loads((folder / _SUMMARY).read_text(encoding="utf-8"))
        report, notes = Report.from_json(summary["report"]), tuple(summary["notes"])
        ends = tuple(summary["ends"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder}: no prepared texts; they are built again from the corpus") from error
    test = TextStore.open(folder / "test") if (folder / "test").is_dir() else None
    train, valid = TextStore.open(folder / "train"), TextStore.open(folder / "valid")
    return Prepared(train, valid, test, report=report, notes=notes, fingerprints=fingerprints, ends=ends)


def _build(settings: DataSettings, folder: Path, *, seed: int) -> None:
    repairs, report, held_out = Repairs(), Report(), KeySet()
    notes: list[str] = []
    if settings.test is not None:
        TextStore.build(folder / "test", _noting(read(settings.test, repairs), held_out))
    if settings.valid is not None:
        notes += _build_valid(settings.valid, folder / "valid", repairs, held_out)
    mixture = Mixture([settings.train, *(one.corpus for one in settings.beside)])
    examples = clean(mixture.examples(repairs), settings.cleaning, report=report, held_out=held_out)
    where = mixture.name
    if settings.valid is None:
        _split(examples, folder, size=settings.held_out, seed=seed, enough=lambda: require_enough(report, where=where))
    else:
        TextStore.build(folder / "train", examples)
        require_enough(report, where=where)
    if report.leaks:
        notes.append(
            f"{where}: {report.leaks:,} training pairs have a source that stands in the validation or test text; "
            f"they were {'removed' if settings.cleaning.leaks else 'kept, so scores on it mean less'}"
        )
    summary = {"notes": repairs.sentences() + notes, "report": report.to_json(), "ends": mixture.ends}
    (folder / _SUMMARY).write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")


def _build_valid(corpus: Corpus, folder: Path, repairs: Repairs, held_out: KeySet) -> list[str]:
    report = Report()
    store = TextStore.build(folder, _noting(without_empty(read(corpus, repairs), report=report), held_out))
    if not len(store):
        raise DataError(
            f"{name_of(corpus)}: the validation corpus holds no pair of texts; give another, or leave it out"
        )
    empty = report.findings["empty"].count
    return [f"{name_of(corpus)}: {empty:,} pairs with an empty side left out of validation"] if empty else []


def _split(
    examples: Iterable[Example], folder: Path, *, size: int | None, seed: int, enough: Callable[[], None]
) -> None:
    """Store all examples, then those held out and the others apart."""
    whole = TextStore.build(folder / "whole", examples)
    enough()
    size = size_of_held_out(len(whole)) if size is None else size
    last = threshold(whole.examples(), size=size, seed=seed)
    valid = (example for example in whole.examples() if key_of(example, seed=seed) <= last)
    train = (example for example in whole.examples() if key_of(example, seed=seed) > last)
    TextStore.build(folder / "valid", valid)
    kept = len(TextStore.build(folder / "train", train))
    if kept < FEWEST:
        raise DataError(
            f"data.held_out: {size:,} sources held out of {len(whole):,} examples leave {kept:,} to learn from, fewer "
            f"than {FEWEST}; hold out fewer, give more text, or give data.valid"
        )
    shutil.rmtree(whole.folder)


def _noting(examples: Iterable[Example], held_out: KeySet) -> Iterator[Example]:
    """The examples, each noted as text that must not be trained on."""
    for example in examples:
        held_out.add(held_out_key(example))
        yield example


def _paths(settings: DataSettings) -> list[Path]:
    corpora = [settings.train, *(one.corpus for one in settings.beside), settings.valid, settings.test]
    return [path for corpus in corpora if corpus is not None for path in paths_of(corpus)]
