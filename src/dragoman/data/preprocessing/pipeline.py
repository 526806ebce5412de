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
from dragoman.data.cleaning import SPECIMENS, Report, require_enough
from dragoman.data.config import DataSettings
from dragoman.data.datasets.parallel import TextStore, TokenStore
from dragoman.data.hashing import KeySet
from dragoman.data.heldout_split import size_of_held_out
from dragoman.data.preprocessing.blocks import (
    BLOCK,
    BlockTask,
    Part,
    ReadTask,
    SearchTask,
    block_folder,
    keep,
    read_lowest_keys,
    read_part,
    search_repeated,
    write_lowest_keys,
)
from dragoman.data.preprocessing.prepare import build_valid, leak_notes, noting, require_left
from dragoman.data.preprocessing.tokenize import ShardTask, segment_shard, segmented_by
from dragoman.data.readers import Repairs, name_of, parts_of, read
from dragoman.data.tokenizers import Tokenizer

SEARCHED = 2**20
"""Pairs whose hashes are sorted at a time."""

T = TypeVar("T")


class Engine(Protocol):
    """What works at many tasks that do not hang on each other."""

    def run(self, function: Callable[[T], Tree], tasks: Sequence[T]) -> list[Tree]:
        """What the function gives for each task, in the order of the tasks."""
        ...


@final
class Single:
    """Implements `Engine` in this process: one task after the other."""

    def run(self, function: Callable[[T], Tree], tasks: Sequence[T]) -> list[Tree]:
        """What the function gives for each task, in the order of the tasks."""
        return [function(task) for task in tasks]


@final
@dataclass(frozen=True)
class Cleaned:
    """What is left of a corpus, and what is to be said of it."""

    texts: TextStore
    valid: TextStore
    test: TextStore | None
    shards: tuple[Path, ...]
    report: Report
    notes: tuple[str, ...]
    ends: tuple[int, ...]


def clean_in_blocks(settings: DataSettings, work: Path, *, seed: int, engine: Engine, size: int = BLOCK) -> Cleaned:
    """Read, clean and hold out in the folder `work`; what was whole in it is not made again.

    `size` pairs make a block. Raises DataError where a corpus cannot be read or too little of it is left.
    """
    repairs, held_out = Repairs(), KeySet()
    if settings.test is not None:
        TextStore.build(work / "test", noting(read(settings.test, repairs), held_out))
    notes: list[str] = []
    if settings.valid is not None:
        notes = build_valid(settings.valid, work / "valid", repairs, held_out)
    reading = _Reading(settings, work, engine)
    parts = reading.parts(tuple(held_out), seed=seed if settings.valid is None else None, size=size)
    for part in parts:
        repairs.found.update(part.repairs.found)
    report, where = reading.report(parts), " and ".join(map(name_of, settings.corpora))
    searches = reading.searches(parts)
    report.kept = sum(map(sum, (part.blocks for part in parts))) - report.findings["duplicate"].count
    require_enough(report, where=where)
    held = 0
    tasks = reading.tasks(parts, searches)
    if settings.valid is None:
        held = size_of_held_out(report.kept) if settings.held_out is None else settings.held_out
        tasks = _with_threshold([replace(task, size=held, seed=seed) for task in tasks], engine)
    _keep(tasks, report, engine)
    texts = TextStore.join(work / "texts", [task.shard / "texts" for task in tasks])
    if settings.valid is None:
        found = (TextStore(task.shard / "held_out").examples() for task in tasks)
        TextStore.build(work / "valid", chain.from_iterable(found))
        require_left(len(texts), of=report.kept, held_out=held)
    return Cleaned(
        texts,
        TextStore(work / "valid"),
        None if settings.test is None else TextStore(work / "test"),
        tuple(task.shard for task in tasks),
        report,
        tuple(repairs.sentences() + notes + leak_notes(report, settings, where=where)),
        reading.ends(parts),
    )


def segment_in_shards(
    cleaned: Cleaned, tokenizer: Path, settings: DataSettings, work: Path, engine: Engine
) -> TokenStore:
    """The ids of the texts, shard by shard, with the tokenizer of a file."""
    limits = settings.longest_source, settings.longest_target
    before = accumulate((len(TextStore(shard / "texts")) for shard in cleaned.shards), initial=0)
    tasks = [
        ShardTask(shard / "texts", shard / "ids", tokenizer, rows, *limits)
        for shard, rows in zip(cleaned.shards, before, strict=False)
    ]
    engine.run(segment_shard, tasks)
    facts = segmented_by(cleaned.texts, Tokenizer.load(tokenizer), *limits)
    return TokenStore.join(work / "ids", [task.ids for task in tasks], facts=facts)


def sweep(work: Path) -> None:
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

    settings: DataSettings
    work: Path
    engine: Engine

    def parts(self, held_out: tuple[int, ...], *, seed: int | None, size: int) -> list[Part]:
        """All parts, read into blocks."""
        corpora = [part for corpus in self.settings.corpora for part in parts_of(corpus)]
        tasks = [
            ReadTask(number, corpus, self._blocks, self.settings.cleaning, held_out, seed, size)
            for number, corpus in enumerate(corpora)
        ]
        return [Part.from_json(tree) for tree in self.engine.run(read_part, tasks)]

    def report(self, parts: Sequence[Part]) -> Report:
        """What the pairs met by themselves, and how many came before."""
        report = Report()
        for part, before in zip(parts, self._lines_before(parts), strict=False):
            report.add(part.report, before=before)
        tasks = self._searches(parts)
        found = self.engine.run(search_repeated, tasks) if self.settings.cleaning.duplicates else []
        report.findings["duplicate"].count = sum(tree["repeated"] for tree in found)
        return report

    def searches(self, parts: Sequence[Part]) -> tuple[Path, ...]:
        """Where it is said which pairs came before."""
        tasks = self._searches(parts) if self.settings.cleaning.duplicates else []
        return tuple(task.result for task in tasks)

    def tasks(self, parts: Sequence[Part], repeated: tuple[Path, ...]) -> list[BlockTask]:
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

    def ends(self, parts: Sequence[Part]) -> tuple[int, ...]:
        """The last line of each corpus."""
        counts = accumulate(len(parts_of(corpus)) for corpus in self.settings.corpora)
        lines = list(self._lines_before(parts))
        return tuple(lines[count] for count in counts)

    @property
    def _blocks(self) -> Path:
        return self.work / "blocks"

    def _lines_before(self, parts: Sequence[Part]) -> "accumulate[int]":
        return accumulate((part.lines for part in parts), initial=0)

    def _searches(self, parts: Sequence[Part]) -> list[SearchTask]:
        folders = tuple(
            block_folder(self._blocks, number, block)
            for number, part in enumerate(parts)
            for block in range(len(part.blocks))
        )
        pairs = sum(map(sum, (part.blocks for part in parts)))
        of = -(-pairs // SEARCHED)
        return [SearchTask(number, of, folders, self.work / "repeated") for number in range(of)]


def _with_threshold(tasks: list[BlockTask], engine: Engine) -> list[BlockTask]:
    """The tasks with the key up to which a pair is held out: that of the last of so many different sources."""
    engine.run(write_lowest_keys, tasks)
    lowest = np.zeros(0, dtype=np.uint64)
    for task in tasks:  # one block at a time, for they may be many
        lowest = np.union1d(lowest, read_lowest_keys(task))[: task.size]
    return [replace(task, last=int(lowest[-1]) if len(lowest) else -1) for task in tasks]


def _keep(tasks: list[BlockTask], report: Report, engine: Engine) -> None:
    """Make the shards, and put specimens of what came before into the report."""
    finding = report.findings["duplicate"]
    for tree in engine.run(keep, tasks):
        specimens = Report.from_json(tree["report"]).findings["duplicate"].specimens
        finding.specimens = [*finding.specimens, *specimens][:SPECIMENS]
