"""Cleaning in blocks, which can be processed in any order and on any machine.

Rules about a single pair are applied while a block is read. Duplicates are found across blocks: the pairs are sorted by
hash, one range of hashes at a time, and the first of equal pairs in corpus order is kept. The output of each function
depends on its task alone, so completed output is not computed again.
"""

import json
import shutil
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from dragoman.atomic_files import write_atomically
from dragoman.config import Tree
from dragoman.data.cleaning_rules import MAX_SAMPLES, CleaningConfig, CleaningReport, passes_pair_rules
from dragoman.data.datasets.memory_map import Columns, write_columns
from dragoman.data.datasets.parallel import TextStore
from dragoman.data.fingerprints import pair_hash
from dragoman.data.readers.line_reader import ReadWarnings
from dragoman.data.readers.parallel import Example, ParallelCorpus, read_corpus
from dragoman.data.splits import split_hash
from dragoman.errors import DataError

BLOCK_SIZE = 2**17
"""Pairs per block; the pairs of a block that are kept form a shard."""

_HASHES = "dragoman.block-keys"
_DUPLICATES = "dragoman.block-repeated"
Hashes = NDArray[np.uint64]


@final
@dataclass(frozen=True)
class ReadTask:
    """Part of a corpus, such as a file, to read into blocks."""

    number: int
    """Number of the part among the parts of all corpora."""
    corpus: ParallelCorpus
    blocks: Path
    """Folder of the blocks."""
    cleaning: CleaningConfig
    held_out: tuple[int, ...]
    """`leak_key` of every validation and test text."""
    seed: int | None
    """Seed of the held-out part; None if none is drawn."""
    size: int = BLOCK_SIZE


@final
@dataclass(frozen=True)
class ReadResult:
    """Result of reading a part of a corpus."""

    lines: int
    blocks: tuple[int, ...]
    """Number of pairs of each block that passed."""
    report: CleaningReport
    warnings: ReadWarnings

    @classmethod
    def from_json(cls, tree: Tree) -> "ReadResult":
        """Convert the output of `read_blocks`."""
        warnings = ReadWarnings({(Path(path), kind): (count, first) for path, kind, count, first in tree["repairs"]})
        return cls(tree["lines"], tuple(tree["blocks"]), CleaningReport.from_json(tree["report"]), warnings)


@final
@dataclass(frozen=True)
class DeduplicateTask:
    """Range of hashes to search for duplicates."""

    number: int
    of: int
    """Number of ranges."""
    blocks: tuple[Path, ...]
    """All blocks in corpus order."""
    folder: Path
    """Folder of the results."""

    @property
    def result(self) -> Path:
        """Folder of the result of this range."""
        return self.folder / f"{self.number:05d}-of-{self.of:05d}"


@final
@dataclass(frozen=True)
class BlockTask:
    """Block to convert to a shard."""

    number: int
    """Number of the block among all blocks."""
    block: Path
    duplicates: tuple[Path, ...]
    """Results of the search for duplicates."""
    shard: Path
    before: int
    """Lines of the mixture before the part of the block."""
    valid_size: int = 0
    """Number of different sources to hold out."""
    seed: int | None = None
    threshold: int = -1
    """Highest hash of a held-out pair."""


def block_folder(blocks: Path, part: int, number: int) -> Path:
    """Return the folder of a block of a part."""
    return blocks / f"{part:05d}-{number:05d}"


def read_blocks(task: ReadTask) -> Tree:
    """Read a part of a corpus into blocks of pairs that pass the pair rules. Raises DataError as `read_corpus` does."""
    done = task.blocks / f"{task.number:05d}.json"
    if done.is_file():
        return dict(json.loads(done.read_text(encoding="utf-8")))
    warnings, report, last = ReadWarnings(), CleaningReport(), 0
    held_out = frozenset(task.held_out)
    examples = read_corpus(task.corpus, warnings)
    sizes: list[int] = []
    while (block := _Block(task, held_out, report)).fill(examples, number=len(sizes)):
        sizes.append(block.kept)
        last = block.last
    tree = {
        "lines": last,
        "blocks": sizes,
        "report": report.to_json(),
        "repairs": [[str(path), kind, count, first] for (path, kind), (count, first) in warnings.found.items()],
    }
    write_atomically(done, json.dumps(tree) + "\n")
    return tree


@final
class _Block:
    """Block under construction; its texts go to disk, its hashes stay in memory."""

    def __init__(self, task: ReadTask, held_out: Set[int], report: CleaningReport) -> None:
        self.kept = self.last = 0
        self._task, self._held_out, self._report = task, held_out, report
        self._pair_hashes = bytearray()
        self._split_hashes: list[int] = []

    def fill(self, examples: Iterator[Example], *, number: int) -> bool:
        """Write the block of the next examples, and return whether there are any."""
        first = next(examples, None)
        if first is None:
            return False
        folder = block_folder(self._task.blocks, self._task.number, number)
        TextStore.build(folder / "texts", self._passing(chain([first], islice(examples, self._task.size - 1))))
        _write_hashes(folder / "keys", bytes(self._pair_hashes), self._split_hashes)
        return True

    def _passing(self, examples: Iterator[Example]) -> Iterator[Example]:
        task = self._task
        for example in examples:
            self.last = example.line
            if not passes_pair_rules(example, task.cleaning, report=self._report, held_out=self._held_out):
                continue
            self.kept += 1
            if task.cleaning.remove_duplicates:
                self._pair_hashes += pair_hash(example.source, example.target)
            if task.seed is not None:
                self._split_hashes.append(split_hash(example.source, seed=task.seed))
            yield example


def _write_hashes(folder: Path, pair_hashes: bytes, split_hashes: Sequence[int]) -> None:
    """Write the sorted pair hashes of a block with their rows, and the split hash of each row."""
    high, low = np.frombuffer(pair_hashes, dtype="<u8").reshape(-1, 2).T
    order = np.lexsort((low, high))
    drawn = np.array(split_hashes, dtype=np.uint64)
    columns = {"high": high[order], "low": low[order], "row": order, "drawn": drawn}
    dtypes = {"high": "uint64", "low": "uint64", "row": "int32", "drawn": "uint64"}
    write_columns(folder, [columns], dtypes=dtypes, header={"format": _HASHES})


def find_duplicates(task: DeduplicateTask) -> Tree:
    """Find and count the pairs in a range of hashes that occur earlier in the corpus."""
    try:
        return {"repeated": int(Columns(task.result, _DUPLICATES).header["repeated"])}
    except DataError:
        pass
    ranges = [_read_range(block / "keys", task.number, task.of) for block in task.blocks]
    counts = [len(rows) for _, _, rows in ranges]
    high, low, rows = (np.concatenate(column) if ranges else np.zeros(0) for column in zip(*ranges, strict=True))
    blocks = np.repeat(np.arange(len(ranges)), counts)
    order = np.lexsort((low, high))  # stable: equal pairs stay in corpus order
    high, low = high[order], low[order]
    again = np.zeros(len(order), dtype=bool)
    again[1:] = (high[1:] == high[:-1]) & (low[1:] == low[:-1])
    again = np.sort(order[again])
    duplicates = np.lexsort((rows[again], blocks[again]))
    ends = np.searchsorted(blocks[again][duplicates], np.arange(len(ranges)), side="right")
    columns = {"rows": rows[again][duplicates], "ends": ends}
    header = {"format": _DUPLICATES, "repeated": len(again)}
    write_columns(task.result, [columns], dtypes={"rows": "int32", "ends": "int64"}, header=header)
    return {"repeated": len(again)}


def _read_range(folder: Path, number: int, of: int) -> tuple[Hashes, Hashes, NDArray[Any]]:
    """Return the hashes of a block in a range, and their rows."""
    columns = Columns(folder, _HASHES)
    high = columns.column("high")
    bounds = [index * 2**64 // of for index in (number, number + 1)]
    start = np.searchsorted(high, np.uint64(bounds[0]), side="left")
    stop = len(high) if number + 1 == of else np.searchsorted(high, np.uint64(bounds[1]), side="left")
    return high[start:stop], columns.column("low")[start:stop], columns.column("row")[start:stop]


def _duplicate_rows(task: BlockTask) -> NDArray[np.int64]:
    """Return the rows of a block that are duplicates, from the results of all ranges."""
    found = []
    for folder in task.duplicates:
        columns = Columns(folder, _DUPLICATES)
        ends = columns.column("ends")
        start = int(ends[task.number - 1]) if task.number else 0
        found.append(columns.column("rows")[start : int(ends[task.number])].astype(np.int64))
    return np.sort(np.concatenate(found)) if found else np.zeros(0, dtype=np.int64)


def write_lowest_hashes(task: BlockTask) -> Tree:
    """Write the `valid_size` lowest different split hashes of a block."""
    done = task.shard / "lowest_keys.json"
    if not done.is_file():
        drawn = Columns(task.block / "keys", _HASHES).column("drawn")
        kept = np.delete(drawn, _duplicate_rows(task))
        task.shard.mkdir(parents=True, exist_ok=True)
        write_atomically(done, json.dumps(np.unique(kept)[: task.valid_size].tolist()) + "\n")
    return {}


def read_lowest_hashes(task: BlockTask) -> Hashes:
    """Read the hashes written by `write_lowest_hashes`."""
    return np.array(json.loads((task.shard / "lowest_keys.json").read_text(encoding="utf-8")), dtype=np.uint64)


def write_shard(task: BlockTask) -> Tree:
    """Write the kept pairs and the held-out pairs of a block as stores.

    Return the number of pairs of both, and samples of the duplicates.
    """
    done = task.shard / "kept.json"
    if done.is_file():
        return dict(json.loads(done.read_text(encoding="utf-8")))
    texts, report = TextStore(task.block / "texts"), CleaningReport()
    duplicates = _duplicate_rows(task)
    dropped = np.zeros(len(texts), dtype=bool)
    dropped[duplicates] = True
    for row in duplicates[:MAX_SAMPLES].tolist():
        report.record("duplicate", texts.example(row, before=task.before), removes=True)
    held = np.zeros(len(texts), dtype=bool)
    if task.seed is not None:
        held = ~dropped & (Columns(task.block / "keys", _HASHES).column("drawn") <= task.threshold)
    names = {"texts": ~dropped & ~held, "held_out": held}
    counts = {name: len(texts.select(task.shard / name, chosen, before=task.before)) for name, chosen in names.items()}
    tree = {**counts, "report": report.to_json()}
    write_atomically(done, json.dumps(tree) + "\n")
    shutil.rmtree(task.block)
    return tree
