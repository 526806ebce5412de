"""Preparing a large corpus in blocks, one after the other or many at a time, to the same folder.

The texts that are held out, and what is said about the corpus, are those that `preparing` gives.
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from pathlib import Path
from typing import Protocol, TypeVar, final

import numpy as np

from dragoman.config import Tree
from dragoman.data.cleaning import MAX_SAMPLES, CleaningReport, require_examples
from dragoman.data.config import DataConfig
from dragoman.data.datasets.parallel import TextStore, TokenStore
from dragoman.data.hashing import HashSet
from dragoman.data.heldout_split import default_valid_size
from dragoman.data.preprocessing.blocks import (
    BLOCK_SIZE,
    BlockTask,
    DeduplicateTask,
    ReadResult,
    ReadTask,
    block_folder,
    find_duplicates,
    read_blocks,
    read_lowest_hashes,
    write_lowest_hashes,
    write_shard,
)
from dragoman.data.preprocessing.prepare import build_valid, leak_notes, record_held_out, require_training_examples
from dragoman.data.preprocessing.tokenize import TokenizeTask, tokenization_facts, tokenize_shard
from dragoman.data.readers.corpus import corpus_name, corpus_shards, read_corpus
from dragoman.data.readers.text_lines import ReadWarnings
from dragoman.data.tokenizers import Tokenizer

HASHES_PER_TASK = 2**20
"""Pairs whose hashes are sorted at a time."""

T = TypeVar("T")


class TaskRunner(Protocol):
    """What works at many tasks that do not hang on each other."""

    def run(self, function: Callable[[T], Tree], tasks: Sequence[T]) -> list[Tree]:
        """What the function gives for each task, in the order of the tasks."""
        ...


@final
class SequentialRunner:
    """Implements `Engine` in this process: one task after the other."""

    def run(self, function: Callable[[T], Tree], tasks: Sequence[T]) -> list[Tree]:
        """What the function gives for each task, in the order of the tasks."""
        return [function(task) for task in tasks]


@final
@dataclass(frozen=True)
class CleanedCorpus:
    """What is left of a corpus, and what is to be said of it."""

    texts: TextStore
    valid: TextStore
    test: TextStore | None
    shards: tuple[Path, ...]
    report: CleaningReport
    notes: tuple[str, ...]
    ends: tuple[int, ...]


def clean_in_blocks(
    settings: DataConfig, work: Path, *, seed: int, engine: TaskRunner, size: int = BLOCK_SIZE
) -> CleanedCorpus:
    """Read, clean and hold out in the folder `work`; what was whole in it is not made again.

    `size` pairs make a block. Raises DataError where a corpus cannot be read or too little of it is left.
    """
    repairs, held_out = ReadWarnings(), HashSet()
    if settings.test is not None:
        TextStore.build(work / "test", record_held_out(read_corpus(settings.test, repairs), held_out))
    notes: list[str] = []
    if settings.valid is not None:
        notes = build_valid(settings.valid, work / "valid", repairs, held_out)
    reading = _Reading(settings, work, engine)
    parts = reading.parts(tuple(held_out), seed=seed if settings.valid is None else None, size=size)
    for part in parts:
        repairs.found.update(part.repairs.found)
    report, where = reading.report(parts), " and ".join(map(corpus_name, settings.train_corpora))
    searches = reading.searches(parts)
    report.kept = sum(map(sum, (part.blocks for part in parts))) - report.rules["duplicate"].count
    require_examples(report, where=where)
    held = 0
    tasks = reading.tasks(parts, searches)
    if settings.valid is None:
        held = default_valid_size(report.kept) if settings.valid_size is None else settings.valid_size
        tasks = _with_threshold([replace(task, size=held, seed=seed) for task in tasks], engine)
    _keep(tasks, report, engine)
    texts = TextStore.concat(work / "texts", [task.shard / "texts" for task in tasks])
    if settings.valid is None:
        found = (TextStore(task.shard / "held_out").examples() for task in tasks)
        TextStore.build(work / "valid", chain.from_iterable(found))
        require_training_examples(len(texts), of=report.kept, held_out=held)
    return CleanedCorpus(
        texts,
        TextStore(work / "valid"),
        None if settings.test is None else TextStore(work / "test"),
        tuple(task.shard for task in tasks),
        report,
        tuple(repairs.messages() + notes + leak_notes(report, settings, where=where)),
        reading.ends(parts),
    )


def tokenize_shards(
    cleaned: CleanedCorpus, tokenizer: Path, settings: DataConfig, work: Path, engine: TaskRunner
) -> TokenStore:
    """The ids of the texts, shard by shard, with the tokenizer of a file."""
    limits = settings.max_source_length, settings.max_target_length
    before = accumulate((len(TextStore(shard / "texts")) for shard in cleaned.shards), initial=0)
    tasks = [
        TokenizeTask(shard / "texts", shard / "ids", tokenizer, rows, *limits)
        for shard, rows in zip(cleaned.shards, before, strict=False)
    ]
    engine.run(tokenize_shard, tasks)
    facts = tokenization_facts(cleaned.texts, Tokenizer.load(tokenizer), *limits)
    return TokenStore.concat(work / "ids", [task.ids for task in tasks], facts=facts)


def remove_intermediate_files(work: Path) -> None:
    """Remove what was needed on the way alone."""
    for name in ("blocks", "repeated"):
        shutil.rmtree(work / name, ignore_errors=True)
    for shard in (work / "shards").iterdir():
        shutil.rmtree(shard / "held_out", ignore_errors=True)
        for name in ("lowest_keys.json", "kept.json"):
            (shard / name).unlink(missing_ok=True)


@final
@dataclass(frozen=True)
class _Reading:
    """The parts of all corpora and what is done with them, in their order."""

    settings: DataConfig
    work: Path
    engine: TaskRunner

    def parts(self, held_out: tuple[int, ...], *, seed: int | None, size: int) -> list[ReadResult]:
        """All parts, read into blocks."""
        corpora = [part for corpus in self.settings.train_corpora for part in corpus_shards(corpus)]
        tasks = [
            ReadTask(number, corpus, self._blocks, self.settings.cleaning, held_out, seed, size)
            for number, corpus in enumerate(corpora)
        ]
        return [ReadResult.from_json(tree) for tree in self.engine.run(read_blocks, tasks)]

    def report(self, parts: Sequence[ReadResult]) -> CleaningReport:
        """What the pairs met by themselves, and how many came before."""
        report = CleaningReport()
        for part, before in zip(parts, self._lines_before(parts), strict=False):
            report.merge(part.report, before=before)
        tasks = self._searches(parts)
        found = self.engine.run(find_duplicates, tasks) if self.settings.cleaning.remove_duplicates else []
        report.rules["duplicate"].count = sum(tree["repeated"] for tree in found)
        return report

    def searches(self, parts: Sequence[ReadResult]) -> tuple[Path, ...]:
        """Where it is said which pairs came before."""
        tasks = self._searches(parts) if self.settings.cleaning.remove_duplicates else []
        return tuple(task.result for task in tasks)

    def tasks(self, parts: Sequence[ReadResult], repeated: tuple[Path, ...]) -> list[BlockTask]:
        """What is to be done with each block."""
        lines = list(self._lines_before(parts))
        blocks = [(part, block) for part, one in enumerate(parts) for block in range(len(one.blocks))]
        return [
            BlockTask(
                number,
                block_folder(self._blocks, part, block),
                repeated,
                self.work / "shards" / f"{number:05d}",
                lines[part],
            )
            for number, (part, block) in enumerate(blocks)
        ]

    def ends(self, parts: Sequence[ReadResult]) -> tuple[int, ...]:
        """The last line of each corpus."""
        counts = accumulate(len(corpus_shards(corpus)) for corpus in self.settings.train_corpora)
        lines = list(self._lines_before(parts))
        return tuple(lines[count] for count in counts)

    @property
    def _blocks(self) -> Path:
        return self.work / "blocks"

    def _lines_before(self, parts: Sequence[ReadResult]) -> "accumulate[int]":
        return accumulate((part.lines for part in parts), initial=0)

    def _searches(self, parts: Sequence[ReadResult]) -> list[DeduplicateTask]:
        folders = tuple(
            block_folder(self._blocks, number, block)
            for number, part in enumerate(parts)
            for block in range(len(part.blocks))
        )
        pairs = sum(map(sum, (part.blocks for part in parts)))
        of = -(-pairs // HASHES_PER_TASK)
        return [DeduplicateTask(number, of, folders, self.work / "repeated") for number in range(of)]


def _with_threshold(tasks: list[BlockTask], engine: TaskRunner) -> list[BlockTask]:
    """The tasks with the key up to which a pair is held out: that of the last of so many different sources."""
    engine.run(write_lowest_hashes, tasks)
    lowest = np.zeros(0, dtype=np.uint64)
    for task in tasks:  # one block at a time, for they may be many
        lowest = np.union1d(lowest, read_lowest_hashes(task))[: task.size]
    return [replace(task, last=int(lowest[-1]) if len(lowest) else -1) for task in tasks]


def _keep(tasks: list[BlockTask], report: CleaningReport, engine: TaskRunner) -> None:
    """Make the shards, and put specimens of what came before into the report."""
    finding = report.rules["duplicate"]
    for tree in engine.run(write_shard, tasks):
        specimens = CleaningReport.from_json(tree["report"]).rules["duplicate"].samples
        finding.samples = [*finding.samples, *specimens][:MAX_SAMPLES]
