"""Cleaning a large corpus block by block, so that blocks may be worked at in any order and on any machine.

A pair passes or fails the rules about itself alone. Whether it came before is decided by all blocks together: their
pairs are sorted by a hash, stretch of hashes by stretch, and the first of equal ones in the order of the corpus stays.
What each function writes follows from its task alone, so that what is whole already is not made again.
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from dragoman.atomic import write_atomically
from dragoman.config import Tree
from dragoman.data.cleaning import MAX_SAMPLES, CleaningConfig, CleaningReport, passes_pair_rules
from dragoman.data.datasets.memory_map import Columns, write_columns
from dragoman.data.datasets.parallel import TextStore
from dragoman.data.hashing import HashSet, pair_hash
from dragoman.data.heldout_split import split_hash
from dragoman.data.readers.corpus import ParallelCorpus, read_corpus
from dragoman.data.readers.parallel import Example
from dragoman.data.readers.text_lines import ReadWarnings
from dragoman.errors import DataError

BLOCK_SIZE = 2**17
"""Pairs of a corpus that make a block, and what is left of them a shard."""

_KEYS = "dragoman.block-keys"
_REPEATED = "dragoman.block-repeated"
Keys = NDArray[np.uint64]


@final
@dataclass(frozen=True)
class ReadTask:
    """A part of a corpus, such as a file, to be read into blocks."""

    number: int
    """Of the part, among those of all corpora."""
    corpus: ParallelCorpus
    blocks: Path
    """The folder in which the blocks are made."""
    cleaning: CleaningConfig
    held_out: tuple[int, ...]
    """`held_out_key` of every text that must not be trained on."""
    seed: int | None
    """What draws a held-out part; None where none is to be drawn."""
    size: int = BLOCK_SIZE


@final
@dataclass(frozen=True)
class ReadResult:
    """What was read of a part of a corpus."""

    lines: int
    blocks: tuple[int, ...]
    """The pairs of each block that passed."""
    report: CleaningReport
    repairs: ReadWarnings

    @classmethod
    def from_json(cls, tree: Tree) -> "ReadResult":
        """What `read_part` gave."""
        repairs = ReadWarnings({(Path(path), kind): (count, first) for path, kind, count, first in tree["repairs"]})
        return cls(tree["lines"], tuple(tree["blocks"]), CleaningReport.from_json(tree["report"]), repairs)


@final
@dataclass(frozen=True)
class DeduplicateTask:
    """A stretch of hashes in which repeated pairs are searched."""

    number: int
    of: int
    """Into how many stretches all hashes are divided."""
    blocks: tuple[Path, ...]
    """All blocks, in the order of the corpus."""
    folder: Path
    """Where the results are put."""

    @property
    def result(self) -> Path:
        """Where the result of this stretch is put."""
        return self.folder / f"{self.number:05d}-of-{self.of:05d}"


@final
@dataclass(frozen=True)
class BlockTask:
    """A block that is to become a shard."""

    number: int
    """Of the block, among all."""
    block: Path
    repeated: tuple[Path, ...]
    """What the searches have found."""
    shard: Path
    before: int
    """Lines of the mixture before the part that the block is of."""
    size: int = 0
    """Different sources that may be held out."""
    seed: int | None = None
    last: int = -1
    """The key up to which a pair is held out."""


def block_folder(blocks: Path, part: int, number: int) -> Path:
    """Where a block of a part is."""
    return blocks / f"{part:05d}-{number:05d}"


def read_blocks(task: ReadTask) -> Tree:
    """Read a part of a corpus into blocks of the pairs that pass by themselves. Raises DataError as `read` does."""
    done = task.blocks / f"{task.number:05d}.json"
    if done.is_file():
        return dict(json.loads(done.read_text(encoding="utf-8")))
    repairs, report, last = ReadWarnings(), CleaningReport(), 0
    held_out = HashSet(task.held_out)
    examples = read_corpus(task.corpus, repairs)
    sizes: list[int] = []
    while (block := _Block(task, held_out, report)).fill(examples, number=len(sizes)):
        sizes.append(block.kept)
        last = block.last
    tree = {
        "lines": last,
        "blocks": sizes,
        "report": report.to_json(),
        "repairs": [[str(path), kind, count, first] for (path, kind), (count, first) in repairs.found.items()],
    }
    write_atomically(done, json.dumps(tree) + "\n")
    return tree


@final
class _Block:
    """A block as it is made: the texts go to the disk, the keys stay until all are there."""

    def __init__(self, task: ReadTask, held_out: HashSet, report: CleaningReport) -> None:
        self.kept = self.last = 0
        self._task, self._held_out, self._report = task, held_out, report
        self._digests = bytearray()
        self._drawn: list[int] = []

    def fill(self, examples: Iterator[Example], *, number: int) -> bool:
        """Write the block of the next examples; False where there is none left."""
        first = next(examples, None)
        if first is None:
            return False
        folder = block_folder(self._task.blocks, self._task.number, number)
        TextStore.build(folder / "texts", self._passing(chain([first], islice(examples, self._task.size - 1))))
        _write_keys(folder / "keys", bytes(self._digests), self._drawn)
        return True

    def _passing(self, examples: Iterator[Example]) -> Iterator[Example]:
        task = self._task
        for example in examples:
            self.last = example.line
            if not passes_pair_rules(example, task.cleaning, report=self._report, held_out=self._held_out):
                continue
            self.kept += 1
            if task.cleaning.remove_duplicates:
                self._digests += pair_hash(example.source, example.target)
            if task.seed is not None:
                self._drawn.append(split_hash(example, seed=task.seed))
            yield example


def _write_keys(folder: Path, digests: bytes, drawn: Sequence[int]) -> None:
    """The hashes of a block with its rows, sorted, and the place of each row in the draw of a held-out part."""
    high, low = np.frombuffer(digests, dtype="<u8").reshape(-1, 2).T
    order = np.lexsort((low, high))
    columns = {"high": high[order], "low": low[order], "row": order, "drawn": np.array(drawn, dtype=np.uint64)}
    kinds = {"high": "uint64", "low": "uint64", "row": "int32", "drawn": "uint64"}
    write_columns(folder, [columns], dtypes=kinds, header={"format": _KEYS})


def find_duplicates(task: DeduplicateTask) -> Tree:
    """Find the pairs that came before, among those whose hashes are in a stretch, and count them."""
    try:
        return {"repeated": int(Columns(task.result, _REPEATED).header["repeated"])}
    except DataError:
        pass
    found = [_stretch(block / "keys", task.number, task.of) for block in task.blocks]
    counts = [len(rows) for _, _, rows in found]
    high, low, rows = (np.concatenate(column) if found else np.zeros(0) for column in zip(*found, strict=True))
    blocks = np.repeat(np.arange(len(found)), counts)
    order = np.lexsort((low, high))  # stable: equal pairs stay in the order of the corpus
    high, low = high[order], low[order]
    again = np.zeros(len(order), dtype=bool)
    again[1:] = (high[1:] == high[:-1]) & (low[1:] == low[:-1])
    again = np.sort(order[again])
    repeated = np.lexsort((rows[again], blocks[again]))
    ends = np.searchsorted(blocks[again][repeated], np.arange(len(found)), side="right")
    columns = {"rows": rows[again][repeated], "ends": ends}
    header = {"format": _REPEATED, "repeated": len(again)}
    write_columns(task.result, [columns], dtypes={"rows": "int32", "ends": "int64"}, header=header)
    return {"repeated": len(again)}


def _stretch(keys: Path, number: int, of: int) -> tuple[Keys, Keys, NDArray[Any]]:
    """The hashes of a block that are in a stretch, and their rows."""
    columns = Columns(keys, _KEYS)
    high = columns.column("high")
    bounds = [index * 2**64 // of for index in (number, number + 1)]
    start = np.searchsorted(high, np.uint64(bounds[0]), side="left")
    stop = len(high) if number + 1 == of else np.searchsorted(high, np.uint64(bounds[1]), side="left")
    return high[start:stop], columns.column("low")[start:stop], columns.column("row")[start:stop]


def _repeated_rows(task: BlockTask) -> NDArray[np.int64]:
    """The rows of a block that came before, of all searches."""
    found = []
    for folder in task.repeated:
        columns = Columns(folder, _REPEATED)
        ends = columns.column("ends")
        start = int(ends[task.number - 1]) if task.number else 0
        found.append(columns.column("rows")[start : int(ends[task.number])].astype(np.int64))
    return np.sort(np.concatenate(found)) if found else np.zeros(0, dtype=np.int64)


def write_lowest_hashes(task: BlockTask) -> Tree:
    """Find the lowest different keys of a block by which a held-out part is drawn, as many as may be held out."""
    done = task.shard / "lowest_keys.json"
    if not done.is_file():
        drawn = Columns(task.block / "keys", _KEYS).column("drawn")
        kept = np.delete(drawn, _repeated_rows(task))
        task.shard.mkdir(parents=True, exist_ok=True)
        write_atomically(done, json.dumps(np.unique(kept)[: task.size].tolist()) + "\n")
    return {}


def read_lowest_hashes(task: BlockTask) -> Keys:
    """What `write_lowest_keys` found."""
    return np.array(json.loads((task.shard / "lowest_keys.json").read_text(encoding="utf-8")), dtype=np.uint64)


def write_shard(task: BlockTask) -> Tree:
    """Make a shard of what a block holds for the first time; what is held out goes beside it.

    Gives the number of pairs of both, and specimens of those that came before.
    """
    done = task.shard / "kept.json"
    if done.is_file():
        return dict(json.loads(done.read_text(encoding="utf-8")))
    texts, report = TextStore(task.block / "texts"), CleaningReport()
    repeated = _repeated_rows(task)
    dropped = np.zeros(len(texts), dtype=bool)
    dropped[repeated] = True
    for row in repeated[:MAX_SAMPLES].tolist():
        report.record("duplicate", _example(texts, row, task.before), removes=True)
    held = np.zeros(len(texts), dtype=bool)
    if task.seed is not None:
        held = ~dropped & (Columns(task.block / "keys", _KEYS).column("drawn") <= task.last)
    names = {"texts": ~dropped & ~held, "held_out": held}
    counts = {name: len(texts.select(task.shard / name, chosen, before=task.before)) for name, chosen in names.items()}
    tree = {**counts, "report": report.to_json()}
    write_atomically(done, json.dumps(tree) + "\n")
    shutil.rmtree(task.block)
    return tree


def _example(texts: TextStore, row: int, before: int) -> Example:
    return Example(*texts.pair(row), before + texts.line(row))
