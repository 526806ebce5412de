"""Cleaning in blocks, which can be processed in any order and on any machine.

Rules about a single pair are applied while a block is read. Duplicates are found across blocks: the pairs are sorted by
hash, one range of hashes at a time, and the first of equal pairs in corpus order is kept. The output of each function
depends on its task alone, so completed output is not computed again.
"""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from dragoman.atomic_files import write_atomically
from dragoman.config_trees import Tree
from dragoman.data.cleaning_rules import MAX_SAMPLES, CleaningConfig, CleaningReport, SamplePair, passes_pair_rules
from dragoman.data.datasets.memory_map import Columns, write_columns
from dragoman.data.datasets.parallel import TextStore
from dragoman.data.document_context import ContextConfig, build_context_reader
from dragoman.data.fingerprints import pair_hash
from dragoman.data.readers.line_reader import ReadWarnings
from dragoman.data.readers.parallel import Example, ParallelCorpus, read_corpus
from dragoman.data.splits import split_hash
from dragoman.errors import DataError
from dragoman.untrusted_files import MEBIBYTE, FileKind

BLOCK_SIZE = 2**17
"""Pairs per block; the pairs of a block that are kept form a shard."""

_HASHES = "dragoman.block-keys"
_DUPLICATES = "dragoman.block-repeated"
_RESULT = FileKind(64 * MEBIBYTE, "prepare the corpus again")
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
    fingerprints: Mapping[str, str]
    """SHA-256 of the files of the corpus, by path, as far as they are known."""
    size: int = BLOCK_SIZE
    context: ContextConfig | None = None


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
    threshold: int | None = None
    """Highest hash of a held-out pair; None if none is held out."""


def block_folder(blocks: Path, part: int, number: int) -> Path:
    """Return the folder of a block of a part."""
    return blocks / f"{part:05d}-{number:05d}"


def once(path: Path, compute: Callable[[], Tree]) -> Tree:
    """Return the JSON object in a file, which is computed and written if it is missing."""
    if not path.is_file():
        write_atomically(path, json.dumps(compute()) + "\n")
    return _RESULT.read_json_object(path)


def read_blocks(task: ReadTask, *, report_progress: Callable[[str], None] | None = None) -> Tree:
    """Read a part of a corpus into blocks of pairs that pass the pair rules. Raises DataError as `read_corpus` does.

    Return its last line, the number of pairs of each block, the cleaning report and the warnings.
    """

    def read() -> Tree:
        warnings = ReadWarnings(fingerprints=dict(task.fingerprints), report=report_progress)
        report = CleaningReport()
        hashes = _Hashes(task, frozenset(task.held_out), report)
        examples, sizes = read_corpus(task.corpus, warnings), list[int]()
        while (first := next(examples, None)) is not None:
            folder = block_folder(task.blocks, task.number, len(sizes))
            block = chain([first], islice(examples, task.size - 1))
            sizes.append(len(TextStore.build(folder / "texts", hashes.passing(block))))
            hashes.write(folder / "keys")
        return {"lines": hashes.last, "blocks": sizes, "report": report.to_json(), "warnings": warnings.to_json()}

    return once(task.blocks / f"{task.number:05d}.json", read)


@final
class _Hashes:
    """Hashes of the pairs of a block; they stay in memory, while the texts go to disk."""

    def __init__(self, task: ReadTask, held_out: Set[int], report: CleaningReport) -> None:
        self._task, self._held_out, self._report = task, held_out, report
        self._pairs, self._splits = bytearray(), list[int]()
        self._context = build_context_reader(task.context, is_training=True)
        self.last = 0  # last line of the corpus

    def passing(self, examples: Iterable[Example]) -> Iterator[Example]:
        """Yield the examples of a block that pass the pair rules, with their context, and record their hashes."""
        task, context = self._task, self._context
        for alone in examples:
            self.last = alone.line
            example = alone if context is None else context.join(alone)
            if not passes_pair_rules(alone, task.cleaning, report=self._report, held_out=self._held_out):
                if context is not None:
                    context.forget()
                continue
            if task.cleaning.remove_duplicates:
                self._pairs += pair_hash(example.source, example.target)
            if task.seed is not None:
                self._splits.append(split_hash(example.source, seed=task.seed))
            yield example

    def write(self, folder: Path) -> None:
        """Write the sorted pair hashes with their rows and the split hash of each row, and begin the next block."""
        high, low = np.frombuffer(bytes(self._pairs), dtype="<u8").reshape(-1, 2).T
        order = np.lexsort((low, high))
        drawn = np.array(self._splits, dtype=np.uint64)
        columns = {"high": high[order], "low": low[order], "row": order, "drawn": drawn}
        dtypes = {"high": "uint64", "low": "uint64", "row": "int32", "drawn": "uint64"}
        write_columns(folder, [columns], dtypes=dtypes, header={"format": _HASHES})
        self._pairs, self._splits = bytearray(), []


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


def kept_split_hashes(task: BlockTask) -> Hashes:
    """Return the split hashes of the pairs of a block that are not duplicates."""
    return np.delete(Columns(task.block / "keys", _HASHES).column("drawn"), _duplicate_rows(task))


def write_shard(task: BlockTask) -> Tree:
    """Write the kept pairs and the held-out pairs of a block as stores, and return samples of the duplicates."""

    def write() -> Tree:
        texts, duplicates = TextStore(task.block / "texts"), _duplicate_rows(task)
        dropped, held = np.zeros((2, len(texts)), dtype=bool)
        dropped[duplicates] = True
        if task.threshold is not None:
            held = ~dropped & (Columns(task.block / "keys", _HASHES).column("drawn") <= task.threshold)
        for name, chosen in (("texts", ~dropped & ~held), ("held_out", held)):
            texts.select(task.shard / name, chosen, before=task.before)
        examples = (texts.example(row, before=task.before) for row in duplicates[:MAX_SAMPLES].tolist())
        return {"samples": [asdict(SamplePair.of(example)) for example in examples]}

    tree = once(task.shard / "kept.json", write)
    shutil.rmtree(task.block, ignore_errors=True)
    return tree
