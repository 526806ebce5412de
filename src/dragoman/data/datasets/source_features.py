"""The dependency trees of sources on disk, by the line of their text, and as a network takes them.

A tree is about the words of a text, a network about tokens: a piece that begins with a space begins a word.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Self, final

import numpy as np
import torch
from numpy.typing import NDArray

from dragoman.data.datasets.memory_map import Columns, write_columns
from dragoman.data.datasets.parallel import RaggedArray, TextStore, chunked
from dragoman.data.hashing import file_fingerprint
from dragoman.data.readers.conllu import Heads, read_heads
from dragoman.data.readers.text_lines import read_lines
from dragoman.data.tokenizers import LanguageTokenizer
from dragoman.data.tokenizers.normalization import SPACE
from dragoman.data.tokenizers.vocabulary import WordModel
from dragoman.errors import DataError
from dragoman.typing import SourceFeatures

_VERSION = 1
Rows = NDArray[np.int64]
Starts = NDArray[np.bool_]
"""Of each entry of a vocabulary, whether a word begins with it."""


@final
class FeatureStore:
    """The tree of each line of a text, mapped into memory."""

    format = "dragoman.trees"

    def __init__(self, folder: Path) -> None:
        """Open a store. Raises DataError where it is missing, damaged, cut off or of another version."""
        columns = Columns(folder, self.format)
        self.heads = RaggedArray(columns.column("heads.values"), columns.column("heads.lengths"))
        if int(self.heads.lengths.sum(dtype=np.int64)) != len(self.heads.values):
            raise columns.damaged_error("its files do not fit each other")

    @classmethod
    def build(cls, folder: Path, trees: Iterable[Heads]) -> Self:
        """Write the heads of each line, in order; those of a line without words are none."""
        columns = (
            {
                "heads.values": np.fromiter(chain.from_iterable(some), dtype=np.int32),
                "heads.lengths": np.fromiter(map(len, some), dtype=np.int32, count=len(some)),
            }
            for some in chunked(trees)
        )
        kinds = {"heads.values": "int32", "heads.lengths": "int32"}
        write_columns(folder, columns, dtypes=kinds, header={"format": cls.format})
        return cls(folder)


def prepare_source_features(source: Path, trees: Path, cache: Path) -> FeatureStore:
    """The trees of the lines of `source`, from a CoNLL-U file or from `cache`, if they were stored there before.

    Raises DataError where the file is none, or is about another text.
    """
    facts = [_VERSION, file_fingerprint(source), file_fingerprint(trees)]
    folder = cache / f"trees-{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]}"
    try:
        return FeatureStore(folder)
    except DataError:
        texts = (text for _, text in read_lines(source))
        return FeatureStore.build(folder, read_heads(texts, trees, name=str(source)))


@final
class StoredFeatures:
    """The trees of the sources of a store of texts."""

    def __init__(self, trees: FeatureStore, texts: TextStore, side: LanguageTokenizer) -> None:
        """`side` is the tokenizer of the sources. Raises DataError as `word_starts` does."""
        self._trees = trees
        self._texts = texts
        self._starts = word_start_mask(side)

    def heads(self, text: int) -> Heads:
        """The heads of the words of a text."""
        return tuple(self._trees.heads.row(self._texts.line(text) - 1).tolist())

    def features(self, texts: Rows, source: Rows, lengths: Rows) -> SourceFeatures:
        """The trees of some texts, whose padded ids and lengths are given, END included."""
        rows = self._texts.origins[texts] - 1
        counts = self._trees.heads.lengths[rows].astype(np.int64)
        heads = np.zeros((len(rows), 1 + int(counts.max())), dtype=np.int64)
        self._trees.heads.fill(rows, heads[:, 1:])
        return _structure(source, lengths, heads, counts, self._starts)


def word_start_mask(side: LanguageTokenizer) -> Starts:
    """Whether a word of the text begins with each entry of a vocabulary, be the word known or not.

    Raises DataError for a tokenizer that does not tell.
    """
    preparation, pieces = side.normalizer, side.model.vocab
    told = preparation.add_prefix_space and preparation.normalization != "nfkc" and SPACE in pieces
    if not told or isinstance(side.model, WordModel):
        raise DataError(
            "this tokenizer does not tell where the words of a tree begin; train one of kind bpe or unigram that "
            "collapses white space, with the normalisation nfc or none"
        )
    return np.array([piece.startswith(SPACE) for piece in pieces])


def build_source_features(ids: Sequence[Sequence[int]], trees: Sequence[Heads], starts: Starts) -> SourceFeatures:
    """The trees of some texts, whose ids are given without END."""
    lengths = np.array([len(row) + 1 for row in ids], dtype=np.int64)
    counts = np.array([len(heads) for heads in trees], dtype=np.int64)
    source = np.zeros((len(ids), int(lengths.max())), dtype=np.int64)
    padded = np.zeros((len(trees), 1 + int(counts.max())), dtype=np.int64)
    for row, (some, heads) in enumerate(zip(ids, trees, strict=True)):
        source[row, : len(some)] = some
        padded[row, 1 : 1 + len(heads)] = heads
    return _structure(source, lengths, padded, counts, starts)


def split_tree(heads: Heads, text: str, pieces: Sequence[str]) -> list[Heads]:
    """The trees of the pieces that a text was cut into: what hangs on a word of another piece is a root in its own.

    Each part of a word that was cut itself hangs where the word hangs.
    """
    sizes = [0, *map(len, text.split())]
    trees, word, left = [], 0, 0
    for piece in pieces:
        numbers = []
        for part in piece.split():
            if not left:
                word, left = word + 1, sizes[word + 1]
            left -= len(part)
            numbers.append(word)
        own = {number: place for place, number in enumerate(numbers, start=1)}
        trees.append(tuple(own.get(heads[number - 1], 0) for number in numbers))
    return trees


def _structure(source: Rows, lengths: Rows, heads: Rows, counts: Rows, starts: Starts) -> SourceFeatures:
    """Tokens belong to the word that began last; END and padding to none."""
    words = np.cumsum(starts[source], axis=1)
    words[np.arange(source.shape[1]) >= lengths[:, None] - 1] = 0
    assert (words.max(axis=1) == counts).all(), "the tokens are those of the words that the tree is about"
    return SourceFeatures(torch.from_numpy(words), torch.from_numpy(heads))
