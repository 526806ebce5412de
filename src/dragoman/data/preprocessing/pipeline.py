"""Preprocessing of parallel corpora: reading, cleaning, deduplication, held-out split and tokenization, in blocks.

Training from text files and `dragoman data prepare` run the same steps. Blocks are processed one after the other or by
many workers, with the same result.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, TypeVar, final

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt, PositiveInt, ValidationError

from dragoman.atomic_files import new_folder, open_or_build, sync_files
from dragoman.checksums import check_json, to_checked_json
from dragoman.config_errors import describe_rule
from dragoman.config_trees import Tree
from dragoman.data.augmentation.config import AugmentationConfig
from dragoman.data.augmentation.noise import NoiseConfig
from dragoman.data.cleaning_rules import (
    MAX_SAMPLES,
    MIN_EXAMPLES,
    CleaningReport,
    SamplePair,
    leak_key,
    remove_empty,
    require_examples,
)
from dragoman.data.config import DataConfig
from dragoman.data.datasets.parallel import TextStore, TokenStore
from dragoman.data.document_context import ContextConfig, with_context
from dragoman.data.fingerprints import file_fingerprint, json_fingerprint
from dragoman.data.preprocessing.cleaning_tasks import (
    BLOCK_SIZE,
    BlockTask,
    DeduplicateTask,
    ReadTask,
    block_folder,
    find_duplicates,
    kept_split_hashes,
    once,
    read_blocks,
    write_shard,
)
from dragoman.data.preprocessing.tokenize_corpus import (
    TokenizeTask,
    default_direction,
    tokenization_facts,
    tokenize_shard,
)
from dragoman.data.readers.line_reader import ReadWarnings
from dragoman.data.readers.parallel import (
    Example,
    ParallelCorpus,
    corpus_name,
    corpus_paths,
    corpus_shards,
    read_corpus,
)
from dragoman.data.readers.recognize_format import corpus_notes
from dragoman.data.splits import default_valid_size
from dragoman.data.tokenizers import Tokenizer, TokenizerConfig
from dragoman.errors import DataError
from dragoman.untrusted_files import MEBIBYTE, FileKind

_VERSION = 3
_SUMMARY = "summary.json"
_FORMAT = "dragoman.cleaned"
_SUMMARY_FILE = FileKind(16 * MEBIBYTE, "it is built again from the corpus")
_INDEX = FileKind(16 * MEBIBYTE, "give a folder that dragoman data prepare of this version has written")

INDEX_FILE = "index.json"
TOKENIZER_FILE = "tokenizer.json"
FORMAT = "dragoman.prepared"
FORMAT_VERSION = 1
HASHES_PER_TASK = 2**20
"""Pairs whose hashes are sorted at a time."""

LANGUAGES = ("source_language", "target_language")
"""Settings of a corpus that its cleaned texts do not depend on."""

_T = TypeVar("_T")


TaskRunner = Callable[[Callable[[Any], Tree], Sequence[Any]], list[Tree]]
"""Function that runs independent tasks: it returns the result of a function for each task, in order."""


def run_sequentially(function: Callable[[_T], Tree], tasks: Sequence[_T]) -> list[Tree]:
    """Run one task after the other in this process, as a `TaskRunner`."""
    return [function(task) for task in tasks]


@dataclass(frozen=True)
class CleanedTexts:
    """Cleaned texts of a run."""

    train: TextStore
    valid: TextStore
    test: TextStore | None
    report: CleaningReport
    """Cleaning of the training text."""
    notes: tuple[str, ...]
    """Messages about repairs, empty validation pairs and leaks."""
    ends: tuple[int, ...]
    """Last line of each training corpus; line numbers continue from corpus to corpus."""


@final
@dataclass(frozen=True)
class ShardedTexts(CleanedTexts):
    """Cleaned texts, and the folders of the shards of the training text."""

    shards: tuple[Path, ...]


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


def prepare_data(
    settings: DataConfig, cache: Path, *, seed: int, report: Callable[[str], None] = lambda _: None
) -> PreparedData:
    """Return the cleaned texts, from `cache` if the same files and settings were prepared before.

    `seed` draws the held-out part. `report` receives a message if the texts are not in the cache. Raises
    DataError if a corpus is unreadable or too little of it is left.
    """
    if settings.prepared_folder is not None:
        return open_prepared(settings.prepared_folder)
    fingerprints = {str(path): file_fingerprint(path) for path in corpus_files(settings)}
    facts = {"version": _VERSION, "settings": cache_key_fields(settings), "files": fingerprints, "seed": seed}
    folder = cache / f"texts-{json_fingerprint(facts)[:16]}"

    def build(folder: Path) -> PreparedData:
        report("reading and cleaning the corpus")
        with new_folder(folder) as work:
            cleaned = clean_in_blocks(
                settings,
                work,
                fingerprints=fingerprints,
                seed=seed,
                runner=run_sequentially,
                report_progress=report,
            )
            remove_intermediate_files(work)
            summary = {"format": _FORMAT, "format_version": _VERSION}
            summary |= {"notes": cleaned.notes, "report": cleaned.report.to_json(), "ends": cleaned.ends}
            (work / _SUMMARY).write_text(to_checked_json(summary), encoding="utf-8")
        return open_folder(folder)

    def open_folder(folder: Path) -> PreparedData:
        file = folder / _SUMMARY
        summary = _read_summary(_Summary, file, _SUMMARY_FILE, format_name=_FORMAT, version=_VERSION)
        return _open(folder, summary, fingerprints)

    return open_or_build(folder, open_folder, build)


def cache_key_fields(settings: DataConfig) -> Tree:
    """Return the settings that determine the cleaned texts; the others concern tokens or epochs."""
    limits = {"max_source_length", "max_target_length", "tokenizer_sample_size"}
    later = {"noise", "augmentation", "temperature", "prompt"}
    excluded: Any = dict.fromkeys((*limits, *later, "extra_corpora"), True)
    excluded |= {key: {*LANGUAGES} for key in ("train", "valid", "test")}
    chosen = settings.model_dump(mode="json", exclude=excluded)
    extra = [one.corpus.model_dump(mode="json", exclude={*LANGUAGES}) for one in settings.extra_corpora]
    return _without_defaults({**chosen, "extra_corpora": extra})


def _without_defaults(tree: Any) -> Any:
    """Return settings without the ones that older versions lack, where they are not given; their texts are used."""
    if isinstance(tree, list):
        return list(map(_without_defaults, tree))
    if not isinstance(tree, dict):
        return tree
    later = ("context", "document_column", "document_field")
    return {key: _without_defaults(one) for key, one in tree.items() if one is not None or key not in later}


def corpus_files(settings: DataConfig) -> list[Path]:
    """Return the files of all corpora of a run."""
    return [path for corpus in _all_corpora(settings) for path in corpus_paths(corpus)]


def _all_corpora(settings: DataConfig) -> list[ParallelCorpus]:
    corpora = [*settings.train_corpora, settings.valid, settings.test]
    return [corpus for corpus in corpora if corpus is not None]


class _Summary(BaseModel):
    """Facts about cleaned texts."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    report: Tree
    notes: tuple[str, ...]
    ends: tuple[NonNegativeInt, ...] = Field(min_length=1)


class _CorpusHash(BaseModel):
    file: str
    sha256: str


class _TokenizerFacts(BaseModel):
    config: TokenizerConfig
    fingerprint: str


class PreparedIndex(_Summary):
    """Index of a prepared folder: its origin, and the settings that it gives to a training."""

    max_source_length: PositiveInt
    max_target_length: PositiveInt
    temperature: float | None = None
    noise: NoiseConfig | None = None
    augmentation: AugmentationConfig | None = None
    context: ContextConfig | None = None
    weights: tuple[NonNegativeFloat, ...]
    tokenizer: _TokenizerFacts
    corpora: tuple[_CorpusHash, ...]
    stores: Tree

    def settings(self) -> Tree:
        """Return the settings of an experiment."""
        keys = {"max_source_length", "max_target_length", "temperature", "noise", "augmentation", "context"}
        data = self.model_dump(mode="json", include=keys, exclude_none=True)
        return {"tokenizer": self.tokenizer.config.model_dump(mode="json"), "data": data}


_I = TypeVar("_I", bound=_Summary)


def _read_summary(kind: type[_I], file: Path, bounds: FileKind, *, format_name: str, version: int) -> _I:
    tree = bounds.read_versioned_json(file, format_name=format_name, version=version)
    try:
        return kind.model_validate(check_json(tree))
    except ValidationError as error:
        found = error.errors()[0]
        raise bounds.damaged(file, f"{'.'.join(map(str, found['loc']))} {describe_rule(found)}") from error
    except ValueError as error:
        raise bounds.damaged(file, str(error)) from error


def _open(folder: Path, summary: _Summary, fingerprints: dict[str, str]) -> PreparedData:
    try:
        report = CleaningReport.from_json(summary.report)
    except (KeyError, ValueError) as error:
        raise DataError(f"{folder}: damaged cleaning report; prepare the corpus again") from error
    test = TextStore.open_verified(folder / "test") if (folder / "test").is_dir() else None
    train, valid = TextStore(folder / "texts"), TextStore.open_verified(folder / "valid")
    if train.origins.max(initial=0) > summary.ends[-1]:
        raise train.damaged_error("it has lines beyond the end of its corpora")
    return PreparedData(train, valid, test, report, summary.notes, summary.ends, fingerprints)


def open_prepared(folder: Path) -> PreparedData:
    """Open a folder written by `dragoman data prepare`. Raises DataError if it is missing, damaged or outdated."""
    index, file = read_index(folder), folder / INDEX_FILE
    fingerprints = {str(file): file_fingerprint(file)}
    for number, corpus in enumerate(index.corpora):
        fingerprints[str(folder / str(number) / corpus.file)] = corpus.sha256
    data, tokens = _open(folder, index, fingerprints), TokenStore.open_verified(folder / "ids")
    stores = {"texts": data.train, "ids": tokens, "valid": data.valid}
    if any(index.stores.get(name) != one.fingerprint for name, one in stores.items()):
        raise DataError(f"{folder}: its files do not match {INDEX_FILE}; prepare the corpus again")
    if len(tokens) and not 0 <= tokens.origins.min() <= tokens.origins.max() < len(data.train):
        raise tokens.damaged_error("it has ids of texts that do not exist")
    if len(index.weights) != len(index.ends):
        raise DataError(f"{file}: has {len(index.weights)} weights of {len(index.ends)} corpora; prepare them again")
    tokenizer = Tokenizer.load(folder / TOKENIZER_FILE)
    tokens.source.limit, tokens.target.limit = len(tokenizer.source), len(tokenizer.target)
    return replace(data, tokenized=TokenizedText(folder, tokens, tokenizer, index.weights))


def read_index(folder: Path) -> PreparedIndex:
    """Read the index of a prepared folder. Raises DataError if it is missing, damaged or of another version."""
    return _read_summary(PreparedIndex, folder / INDEX_FILE, _INDEX, format_name=FORMAT, version=FORMAT_VERSION)


def clean_in_blocks(
    settings: DataConfig,
    work: Path,
    *,
    fingerprints: Mapping[str, str],
    seed: int,
    runner: TaskRunner,
    size: int = BLOCK_SIZE,
    report_progress: Callable[[str], None] | None = None,
) -> ShardedTexts:
    """Read, clean and split the corpora into the folder `work`; completed steps in it are not repeated.

    `fingerprints` holds the SHA-256 of the files, by path, and `size` is the number of pairs per block.
    `report_progress` receives the number of lines that this process has read. Raises DataError if a corpus is
    unreadable, is not that of its fingerprint, or too little of it is left.
    """
    (work / "blocks").mkdir(parents=True, exist_ok=True)
    warnings, held_out = ReadWarnings(fingerprints=dict(fingerprints), report=report_progress), set[int]()
    if settings.test is not None:
        TextStore.build(work / "test", _read_held_out(settings, settings.test, warnings, held_out))
    notes = [] if settings.valid is None else _build_valid(settings, work / "valid", warnings, held_out)
    draws = settings.valid is None
    report, where = CleaningReport(), corpus_name(*settings.train_corpora)
    shards = [corpus_shards(corpus) for corpus in settings.train_corpora]
    fixed = (settings.cleaning, tuple(held_out), seed if draws else None)
    read_tasks = [
        ReadTask(number, corpus, work / "blocks", *fixed, _known_content(corpus, fingerprints), size, settings.context)
        for number, corpus in enumerate(chain.from_iterable(shards))
    ]
    is_here = runner is run_sequentially  # elsewhere the function cannot be called
    parts = runner(partial(read_blocks, report_progress=report_progress) if is_here else read_blocks, read_tasks)
    lines = list(accumulate((part["lines"] for part in parts), initial=0))
    for part, before in zip(parts, lines, strict=False):
        report.merge(CleaningReport.from_json(part["report"]), before=before)
        warnings.update(part["warnings"])
    tasks = _deduplicate(settings, work, parts, lines, report, runner)
    require_examples(report, where=where)
    if draws:
        valid_size = default_valid_size(report.kept) if settings.valid_size is None else settings.valid_size
        threshold = once(work / "threshold.json", lambda: _find_threshold(tasks, valid_size))["threshold"]
        tasks = [replace(task, threshold=threshold) for task in tasks]
    samples = [SamplePair(**sample) for tree in runner(write_shard, tasks) for sample in tree["samples"]]
    report.rules["duplicate"].samples = samples[:MAX_SAMPLES]
    texts = TextStore.concat(work / "texts", [task.shard / "texts" for task in tasks])
    if draws:
        examples = (TextStore(task.shard / "held_out").examples() for task in tasks)
        TextStore.build(work / "valid", chain.from_iterable(examples))
        _require_training_examples(len(texts), of=report.kept, held_out=valid_size)
    test = None if settings.test is None else TextStore(work / "test")
    notes += chain.from_iterable(map(corpus_notes, _all_corpora(settings)))
    all_notes = tuple(warnings.messages() + notes + _leak_notes(report, settings, where=where))
    ends = tuple(lines[count] for count in accumulate(map(len, shards)))
    folders = tuple(task.shard for task in tasks)
    return ShardedTexts(texts, TextStore(work / "valid"), test, report, all_notes, ends, folders)


def tokenize_shards(
    cleaned: ShardedTexts, tokenizer: Path, settings: DataConfig, work: Path, runner: TaskRunner
) -> TokenStore:
    """Tokenize the texts shard by shard with the tokenizer of a file."""
    limits = settings.max_source_length, settings.max_target_length
    before = accumulate((len(TextStore(shard / "texts")) for shard in cleaned.shards), initial=0)
    tasks = [
        TokenizeTask(shard / "texts", shard / "ids", tokenizer, rows, *limits)
        for shard, rows in zip(cleaned.shards, before, strict=False)
    ]
    runner(tokenize_shard, tasks)
    loaded = Tokenizer.load(tokenizer)
    facts = tokenization_facts(cleaned.train, loaded, *limits) | default_direction(loaded).facts()
    return TokenStore.concat(work / "ids", [task.ids for task in tasks], facts=facts)


def remove_intermediate_files(work: Path) -> None:
    """Remove the files that only the next steps needed."""
    for name in ("blocks", "repeated"):
        shutil.rmtree(work / name, ignore_errors=True)
    (work / "threshold.json").unlink(missing_ok=True)
    for shard in (work / "shards").iterdir():
        shutil.rmtree(shard / "held_out", ignore_errors=True)
        (shard / "kept.json").unlink(missing_ok=True)
        sync_files(shard)


def _known_content(corpus: ParallelCorpus, fingerprints: Mapping[str, str]) -> dict[str, str]:
    """Return the known fingerprints of the files of a corpus."""
    names = map(str, corpus_paths(corpus))
    return {name: fingerprints[name] for name in names if name in fingerprints}


def _deduplicate(
    settings: DataConfig,
    work: Path,
    parts: Sequence[Tree],
    lines: Sequence[int],
    report: CleaningReport,
    runner: TaskRunner,
) -> list[BlockTask]:
    """Find duplicates, complete the counts of the report, and return a task per block."""
    blocks = [(part, block) for part, one in enumerate(parts) for block in range(len(one["blocks"]))]
    folders = tuple(block_folder(work / "blocks", *block) for block in blocks)
    num_pairs = sum(sum(part["blocks"]) for part in parts)
    num_ranges = -(-num_pairs // HASHES_PER_TASK) if settings.cleaning.remove_duplicates else 0
    searches = [DeduplicateTask(number, num_ranges, folders, work / "repeated") for number in range(num_ranges)]
    num_duplicates = sum(tree["repeated"] for tree in runner(find_duplicates, searches))
    report.rules["duplicate"].count = num_duplicates
    report.kept = num_pairs - num_duplicates
    results = tuple(search.result for search in searches)
    return [
        BlockTask(number, folder, results, work / "shards" / f"{number:05d}", lines[part])
        for number, (folder, (part, _)) in enumerate(zip(folders, blocks, strict=True))
    ]


def _find_threshold(tasks: Iterable[BlockTask], valid_size: int) -> Tree:
    """Return the hash up to which pairs are held out: that of `valid_size` different sources."""
    lowest = np.zeros(0, dtype=np.uint64)
    for task in tasks:  # one by one, because there may be many blocks
        hashes = kept_split_hashes(task)
        if len(lowest) == valid_size:
            hashes = hashes[hashes < lowest[-1]]
        lowest = np.union1d(lowest, hashes)[:valid_size]
    return {"threshold": int(lowest[-1]) if len(lowest) else -1}


def _leak_notes(report: CleaningReport, settings: DataConfig, *, where: str) -> list[str]:
    if not report.num_leaks:
        return []
    return [
        f"{where}: training pairs whose source is in the validation or test text: {report.num_leaks:,}, "
        f"{'removed' if settings.cleaning.remove_leaks else 'kept, so that scores on it mean less'}"
    ]


def _build_valid(settings: DataConfig, folder: Path, warnings: ReadWarnings, held_out: set[int]) -> list[str]:
    """Store a validation corpus, record its texts as held out, and return notes. Raises DataError if it is empty."""
    report, corpus = CleaningReport(), settings.valid
    assert corpus is not None
    examples = remove_empty(_read_held_out(settings, corpus, warnings, held_out), report=report)
    if not len(TextStore.build(folder, examples)):
        raise DataError(
            f"{corpus_name(corpus)}: the validation corpus holds no pair of texts; give another, or leave it out"
        )
    empty = report.rules["empty"].count
    return [f"{corpus_name(corpus)}: pairs with an empty side left out of validation: {empty:,}"] if empty else []


def _read_held_out(
    settings: DataConfig, corpus: ParallelCorpus, warnings: ReadWarnings, held_out: set[int]
) -> Iterable[Example]:
    """Yield the pairs of a validation or test corpus with their context, and record their sources."""

    def record() -> Iterator[Example]:
        for example in read_corpus(corpus, warnings):
            if example.source.strip():
                held_out.add(leak_key(example))
            yield example

    return with_context(record(), settings.context)


def _require_training_examples(kept: int, *, of: int, held_out: int) -> None:
    if kept < MIN_EXAMPLES:
        raise DataError(
            f"data.valid_size: {held_out:,} sources held out of {of:,} examples leave {kept:,} for training, fewer "
            f"than {MIN_EXAMPLES}; hold out fewer, give more text, or give data.valid"
        )
