"""Dependency trees of sources: stored by line, and converted from words to tokens.

A tree is about the words of a text, a model about tokens: a token that begins with a space begins a word.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self, final

import numpy as np
import torch
from numpy.typing import NDArray

from dragoman.array_types import SourceFeatures
from dragoman.atomic_files import open_or_build
from dragoman.data.datasets.memory_map import (
    LENGTH_DTYPES,
    Columns,
    RaggedArray,
    chunked,
    ragged_columns,
    write_columns,
)
from dragoman.data.datasets.parallel import TextStore
from dragoman.data.fingerprints import json_fingerprint
from dragoman.data.readers.conllu import Heads, read_heads
from dragoman.data.readers.line_reader import ReadWarnings, read_lines
from dragoman.data.tokenizers import LanguageTokenizer, SubwordTokenizer
from dragoman.data.tokenizers.normalization import SPACE
from dragoman.data.tokenizers.vocabulary import WordModel
from dragoman.errors import DataError

_VERSION = 1
_Rows = NDArray[np.int64]
Starts = NDArray[np.bool_]
"""Whether each token of a vocabulary begins a word."""


@final
class FeatureStore:
    """Memory-mapped dependency tree of each line of a text."""

    format = "dragoman.trees"

    def __init__(self, folder: Path) -> None:
        """Open a store. Raises DataError if it is missing, damaged, cut off or of another version."""
        columns = Columns(folder, self.format)
        self.heads = RaggedArray(
            columns.column("heads.values", ("int32",)), columns.column("heads.lengths", LENGTH_DTYPES)
        )
        if not self.heads.is_consistent(len(self.heads)):
            raise columns.damaged_error("its files do not fit each other")
        self._columns = columns

    @classmethod
    def open_verified(cls, folder: Path) -> Self:
        """Open a store, and compare its files with their hashes. Raises DataError if it is missing or damaged."""
        store = cls(folder)
        store._columns.verify()
        return store

    @classmethod
    def build(cls, folder: Path, trees: Iterable[Heads]) -> Self:
        """Write the heads of each line, in order; a line without words has no heads."""
        columns = (ragged_columns("heads", some, "int32") for some in chunked(trees))
        dtypes = {"heads.values": "int32", "heads.lengths": "int32"}
        write_columns(folder, columns, dtypes=dtypes, header={"format": cls.format})
        return cls(folder)


def prepare_source_features(source: Path, trees: Path, cache: Path, *, fingerprints: Mapping[str, str]) -> FeatureStore:
    """Return the trees of the lines of `source` from a CoNLL-U file, stored in `cache`.

    Raises DataError if the file is not CoNLL-U, its trees do not fit the text, or a file is not that of its
    fingerprint.
    """
    facts = [_VERSION, *(fingerprints[str(path)] for path in (source, trees))]
    folder = cache / f"trees-{json_fingerprint(facts)[:16]}"

    def build(folder: Path) -> FeatureStore:
        warnings = ReadWarnings(fingerprints=dict(fingerprints))
        texts = (text for _, text in read_lines(source, warnings))
        return FeatureStore.build(folder, read_heads(texts, trees, name=str(source), warnings=warnings))

    return open_or_build(folder, FeatureStore.open_verified, build)


@final
class StoredFeatures:
    """Trees of the sources of a text store."""

    def __init__(self, trees: FeatureStore, texts: TextStore, side: LanguageTokenizer) -> None:
        """`side` is the tokenizer of the sources. Raises DataError as `word_start_mask` does."""
        self._trees = trees
        self._texts = texts
        self._starts = word_start_mask(side)

    def heads(self, text: int) -> Heads:
        """Return the heads of the words of a text."""
        return tuple(self._trees.heads.row(self._texts.line(text) - 1).tolist())

    def features(self, texts: _Rows, source: _Rows, lengths: _Rows) -> SourceFeatures:
        """Return the trees of texts, given their padded ids and their lengths, EOS included."""
        rows = self._texts.origins[texts] - 1
        counts = self._trees.heads.lengths[rows].astype(np.int64)
        heads = np.zeros((len(rows), 1 + int(counts.max())), dtype=np.int64)
        self._trees.heads.fill(rows, heads[:, 1:])
        return _features(source, lengths, heads, counts, self._starts)


def word_start_mask(side: LanguageTokenizer) -> Starts:
    """Return whether each token of a vocabulary begins a word.

    Raises DataError for a tokenizer whose tokens do not show it.
    """
    marks_words = (
        isinstance(side, SubwordTokenizer)
        and side.normalizer.add_prefix_space
        and side.normalizer.normalization != "nfkc"
        and SPACE in side.tokens
        and not isinstance(side.model, WordModel)
    )
    if not marks_words:
        raise DataError(
            "the tokens of this tokenizer do not show where words begin, which trees need; train a tokenizer of kind "
            "bpe or unigram that collapses white space, with the normalization nfc or none"
        )
    return np.array([token.startswith(SPACE) for token in side.tokens])


def build_source_features(ids: Sequence[Sequence[int]], trees: Sequence[Heads], starts: Starts) -> SourceFeatures:
    """Return the trees of texts, given their ids without EOS."""
    lengths = np.array([len(row) + 1 for row in ids], dtype=np.int64)
    counts = np.array([len(heads) for heads in trees], dtype=np.int64)
    source = np.zeros((len(ids), int(lengths.max())), dtype=np.int64)
    padded = np.zeros((len(trees), 1 + int(counts.max())), dtype=np.int64)
    for row, (some, heads) in enumerate(zip(ids, trees, strict=True)):
        source[row, : len(some)] = some
        padded[row, 1 : 1 + len(heads)] = heads
    return _features(source, lengths, padded, counts, starts)


def split_tree(heads: Heads, text: str, segments: Sequence[str]) -> list[Heads]:
    """Return the trees of the segments of a text; a word whose head is in another segment is a root.

    Each part of a divided word has the head of the word.
    """
    sizes = [0, *map(len, text.split())]
    trees, word, left = [], 0, 0
    for segment in segments:
        numbers = []
        for part in segment.split():
            if not left:
                word, left = word + 1, sizes[word + 1]
            left -= len(part)
            numbers.append(word)
        own = {number: place for place, number in enumerate(numbers, start=1)}
        trees.append(tuple(own.get(heads[number - 1], 0) for number in numbers))
    return trees


def _features(source: _Rows, lengths: _Rows, heads: _Rows, counts: _Rows, starts: Starts) -> SourceFeatures:
    """Assign each token to the word that began last; EOS and padding belong to word 0."""
    words = np.cumsum(starts[source], axis=1)
    words[np.arange(source.shape[1]) >= lengths[:, None] - 1] = 0
    assert (words.max(axis=1) == counts).all(), "tokens and trees have the same words"
    return SourceFeatures(torch.from_numpy(words), torch.from_numpy(heads))
