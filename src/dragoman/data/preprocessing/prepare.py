"""From the corpora of a configuration to cleaned texts on disk, once."""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from dragoman.atomic import new_folder, opened_or_made
from dragoman.config import Tree
from dragoman.data.batching.mixing import CorpusMixture
from dragoman.data.cleaning import MIN_EXAMPLES, CleaningReport, clean, leak_key, remove_empty, require_examples
from dragoman.data.config import DataConfig
from dragoman.data.datasets.parallel import TextStore, TokenStore
from dragoman.data.hashing import HashSet, file_fingerprint
from dragoman.data.heldout_split import default_valid_size, split_hash, split_threshold
from dragoman.data.readers.corpus import ParallelCorpus, corpus_name, corpus_paths, read_corpus
from dragoman.data.readers.parallel import Example
from dragoman.data.readers.text_lines import ReadWarnings
from dragoman.data.tokenizers import Tokenizer
from dragoman.errors import DataError

_VERSION = 2
_SUMMARY = "summary.json"

INDEX_FILE = "index.json"
TOKENIZER_FILE = "tokenizer.json"
FORMAT = "dragoman.prepared"
FORMAT_VERSION = 1


@final
@dataclass(frozen=True)
class TokenizedText:
    """The training text as ids, and what they hang on."""

    folder: Path
    """Where it was prepared."""
    tokens: TokenStore
    tokenizer: Tokenizer
    corpus_weights: tuple[float, ...]
    """How often pairs of each corpus should be learnt from in an epoch."""


@final
@dataclass(frozen=True)
class PreparedData:
    """The texts of a run, on disk, and what was found on the way."""

    train: TextStore
    valid: TextStore
    test: TextStore | None
    report: CleaningReport
    """What cleaning did to the training text."""
    notes: tuple[str, ...]
    """Sentences to be printed: repairs, empty validation pairs, leaks."""
    fingerprints: dict[str, str]
    """SHA-256 of every corpus file, by path."""
    ends: tuple[int, ...]
    """The last line of each corpus that is learnt from; a line of the training text counts on from one to the next."""
    tokenized: TokenizedText | None = None
    """Those of the training text, where they were made before."""


def prepare_data(settings: DataConfig, cache: Path, *, seed: int) -> PreparedData:
    """Read, clean, hold out and store, or open what the same files and settings gave before.

    `seed` draws the held-out part. Raises DataError where a corpus cannot be read or too little of it is left.
    """
    if settings.prepared_folder is not None:
        return open_prepared(settings.prepared_folder)
    fingerprints = {str(path): file_fingerprint(path) for path in corpus_files(settings)}
    facts = {"version": _VERSION, "settings": cache_key_fields(settings), "files": fingerprints, "seed": seed}
    folder = cache / f"texts-{hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]}"

    def built() -> PreparedData:
        with new_folder(folder) as partial:
            _build(settings, partial, seed=seed)
        return _open(folder, fingerprints)

    return opened_or_made(folder, lambda: _open(folder, fingerprints), built)


def cache_key_fields(settings: DataConfig) -> Tree:
    """What is said of the texts of a run; the rest counts tokens, which do not exist yet, or is of an epoch."""
    later = {"max_source_length", "max_target_length", "tokenizer_sample_size", "noise", "temperature"}
    chosen = settings.model_dump(mode="json", exclude={*later, "extra_corpora"})
    return {**chosen, "extra_corpora": [one.corpus.model_dump(mode="json") for one in settings.extra_corpora]}


def _open(folder: Path, fingerprints: dict[str, str]) -> PreparedData:
    try:
        summary = json.loads((folder / _SUMMARY).read_text(encoding="utf-8"))
        report, notes = CleaningReport.from_json(summary["report"]), tuple(summary["notes"])
        ends = tuple(summary["ends"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder}: no prepared texts; they are built again from the corpus") from error
    test = TextStore.open(folder / "test") if (folder / "test").is_dir() else None
    train, valid = TextStore.open(folder / "train"), TextStore.open(folder / "valid")
    return PreparedData(train, valid, test, report=report, notes=notes, fingerprints=fingerprints, ends=ends)


def open_prepared(folder: Path) -> PreparedData:
    """What `dragoman data prepare` has written. Raises DataError where it is missing, damaged or of another version."""
    index = read_index(folder)
    try:
        report, fingerprints = CleaningReport.from_json(index["report"]), _corpora(folder, index["corpora"])
        wanted = {name: index["stores"][name] for name in ("texts", "ids", "valid")}
        notes, ends, times = tuple(index["notes"]), tuple(index["ends"]), tuple(index["weights"])
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{folder / INDEX_FILE}: damaged ({error!r}); prepare the corpus again") from error
    texts, valid, tokens = TextStore(folder / "texts"), TextStore(folder / "valid"), TokenStore(folder / "ids")
    test = TextStore(folder / "test") if (folder / "test").is_dir() else None
    found = {"texts": texts.fingerprint, "ids": tokens.fingerprint, "valid": valid.fingerprint}
    if found != wanted:
        raise DataError(f"{folder}: its stores are not those that {INDEX_FILE} names; prepare the corpus again")
    fingerprints = {str(folder / INDEX_FILE): file_fingerprint(folder / INDEX_FILE), **fingerprints}
    ids = TokenizedText(folder, tokens, Tokenizer.load(folder / TOKENIZER_FILE), times)
    return PreparedData(
        texts, valid, test, report=report, notes=notes, fingerprints=fingerprints, ends=ends, tokenized=ids
    )


def _corpora(folder: Path, corpora: Sequence[Tree]) -> dict[str, str]:
    """The fingerprint of each file that was prepared, by a name of its own."""
    return {str(folder / str(number) / one["file"]): one["sha256"] for number, one in enumerate(corpora)}


def read_index(folder: Path) -> Tree:
    """What a prepared folder says of itself. Raises DataError where it is none, or of another version."""
    path = folder / INDEX_FILE
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read ({error.strerror}); give the folder that dragoman data prepare has written"
        ) from error
    except ValueError as error:
        raise DataError(f"{path}: damaged (not valid JSON); prepare the corpus again") from error
    if not isinstance(index, dict) or index.get("format") != FORMAT or index.get("format_version") != FORMAT_VERSION:
        raise DataError(f"{path}: is not of {FORMAT}, version {FORMAT_VERSION}; prepare the corpus with this version")
    return index


def _build(settings: DataConfig, folder: Path, *, seed: int) -> None:
    repairs, report, held_out = ReadWarnings(), CleaningReport(), HashSet()
    notes: list[str] = []
    if settings.test is not None:
        TextStore.build(folder / "test", record_held_out(read_corpus(settings.test, repairs), held_out))
    if settings.valid is not None:
        notes += build_valid(settings.valid, folder / "valid", repairs, held_out)
    mixture = CorpusMixture(settings.train_corpora)
    examples = clean(mixture.examples(repairs), settings.cleaning, report=report, held_out=held_out)
    where = mixture.name
    if settings.valid is None:
        _split(
            examples, folder, size=settings.valid_size, seed=seed, enough=lambda: require_examples(report, where=where)
        )
    else:
        TextStore.build(folder / "train", examples)
        require_examples(report, where=where)
    notes += leak_notes(report, settings, where=where)
    summary = {"notes": repairs.messages() + notes, "report": report.to_json(), "ends": mixture.ends}
    (folder / _SUMMARY).write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")


def leak_notes(report: CleaningReport, settings: DataConfig, *, where: str) -> list[str]:
    """What is to be said of leaks, if there are any."""
    if not report.num_leaks:
        return []
    return [
        f"{where}: training pairs whose source stands in the validation or test text: {report.num_leaks:,}, "
        f"{'removed' if settings.cleaning.remove_leaks else 'kept, so that scores on it mean less'}"
    ]


def build_valid(corpus: ParallelCorpus, folder: Path, repairs: ReadWarnings, held_out: HashSet) -> list[str]:
    """Store a validation corpus, noting what must not be trained on; the sentences to be printed.

    Raises DataError where it holds no pair.
    """
    report = CleaningReport()
    store = TextStore.build(
        folder, record_held_out(remove_empty(read_corpus(corpus, repairs), report=report), held_out)
    )
    if not len(store):
        raise DataError(
            f"{corpus_name(corpus)}: the validation corpus holds no pair of texts; give another, or leave it out"
        )
    empty = report.rules["empty"].count
    return [f"{corpus_name(corpus)}: pairs with an empty side left out of validation: {empty:,}"] if empty else []


def _split(
    examples: Iterable[Example], folder: Path, *, size: int | None, seed: int, enough: Callable[[], None]
) -> None:
    """Store all examples, then those held out and the others apart."""
    whole = TextStore.build(folder / "whole", examples)
    enough()
    size = default_valid_size(len(whole)) if size is None else size
    last = split_threshold(whole.examples(), size=size, seed=seed)
    valid = (example for example in whole.examples() if split_hash(example, seed=seed) <= last)
    train = (example for example in whole.examples() if split_hash(example, seed=seed) > last)
    TextStore.build(folder / "valid", valid)
    require_training_examples(len(TextStore.build(folder / "train", train)), of=len(whole), held_out=size)
    shutil.rmtree(whole.folder)


def require_training_examples(kept: int, *, of: int, held_out: int) -> None:
    """Raise DataError where what is held out leaves too little to learn from."""
    if kept < MIN_EXAMPLES:
        raise DataError(
            f"data.valid_size: {held_out:,} sources held out of {of:,} examples leave {kept:,} to learn from, fewer "
            f"than {MIN_EXAMPLES}; hold out fewer, give more text, or give data.valid"
        )


def record_held_out(examples: Iterable[Example], held_out: HashSet) -> Iterator[Example]:
    """The examples, each noted as text that must not be trained on."""
    for example in examples:
        held_out.add(leak_key(example))
        yield example


def corpus_files(settings: DataConfig) -> list[Path]:
    """The files of all corpora of a run."""
    corpora = [*settings.train_corpora, settings.valid, settings.test]
    return [path for corpus in corpora if corpus is not None for path in corpus_paths(corpus)]
