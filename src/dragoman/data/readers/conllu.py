"""Dependency trees beside a text, in CoNLL-U (universaldependencies.org/format.html).

Of a word are read its number, its head, and whether white space follows it: none does where it says `SpaceAfter=No`,
and inside of ranges such as `1-2`, which are written as one word. Comments are passed over, and so are empty nodes such
as `8.1`, which stand in no text.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from dragoman.data.readers.text_lines import read_lines
from dragoman.errors import DataError

Heads = tuple[int, ...]
"""The word that each word of a sentence hangs on, counted from 1; 0 for a root, of which there may be several."""

COLUMNS = 10
ID, HEAD, MISC = 0, 6, 9
NUMBER = re.compile(r"[1-9][0-9]{0,8}|[0-9]{1,9}-(?P<last>[0-9]{1,9})|(?P<empty>[0-9]+\.[0-9]+)")
LOST, UNKNOWN = -1, -2


class TreeError(NamedTuple):
    """Why heads are no tree, and the word (from 1) where that shows."""

    word: int
    reason: str


@dataclass(frozen=True, slots=True)
class DependencyTree:
    """A sentence and how it was written."""

    heads: Heads
    space_after: tuple[bool, ...]
    """Whether white space follows each word; none stands inside of the last."""
    line: int
    """Where the sentence begins, from 1."""

    @property
    def num_surface_words(self) -> int:
        """Words between white space, as the sentence was written before it was parsed."""
        return sum(self.space_after)

    def heads_for(self, count: int) -> Heads | None:
        """The tree of a text of `count` words between white space, or None where it is none of this sentence.

        The text has a space between all words of the tree, or is as it was written. Then words that are written as one
        are one, which hangs on what the highest of them hangs on.
        """
        if count == len(self.heads):
            return self.heads
        return _joined(self.heads, self.space_after) if count == self.num_surface_words else None


def read_trees(path: Path) -> Iterator[DependencyTree]:
    """The sentences of a file, plain or .gz, .bz2, .xz, .zst, streamed.

    Raises DataError, with file and line, at what is no CoNLL-U, and at words that do not hang together as a tree.
    """
    sentence = _Sentence(path)
    for number, line in read_lines(path):
        if not line.strip():
            yield from sentence.ended()
            sentence = _Sentence(path)
        elif not line.startswith("#"):
            sentence.add(line, number)
    yield from sentence.ended()


def read_heads(texts: Iterable[str], trees: Path, *, name: str) -> Iterator[Heads]:
    """The heads of the words, between white space, of each text, from a file with a tree for each that has words.

    Raises DataError as `read_trees` does, and where the sentences are not those of the texts, which messages call
    `name`.
    """
    sentences, count = read_trees(trees), 0
    for number, text in enumerate(texts, start=1):
        words = len(text.split())
        if not words:
            yield ()
            continue
        tree = next(sentences, None)
        if tree is None:
            raise DataError(
                f"{trees}: ends after {count:,} sentences, but {name}:{number} has words too; give a tree for each "
                "line that has words"
            )
        count += 1
        yield _fitted(tree, words, where=f"{trees}:{tree.line}", text=f"{name}:{number}")
    if (more := next(sentences, None)) is not None:
        raise DataError(
            f"{trees}:{more.line}: a sentence beyond the {count:,} lines of {name} that have words; give one for each"
        )


def find_tree_error(heads: Sequence[int]) -> TreeError | None:
    """What keeps heads from being a tree; None where they are one."""
    for word, head in enumerate(heads, start=1):
        if not 0 <= head <= len(heads):
            return TreeError(
                word, f"word {word} hangs on {head}, but there are words 1 to {len(heads)}, and 0 for a root"
            )
    if heads and 0 not in heads:
        return TreeError(1, "no word hangs on 0, so that the tree has no root")
    depths = _depths(heads)
    if LOST not in depths:
        return None
    return TreeError(depths.index(LOST), f"from word {depths.index(LOST)} the heads lead round in a circle, to no root")


def _depths(heads: Sequence[int]) -> list[int]:
    """How far each word is from above the roots, which is word 0; -1 for words that never get there."""
    depths = [0, *[UNKNOWN] * len(heads)]
    for first in range(1, len(heads) + 1):
        word, way = first, list[int]()
        while depths[word] == UNKNOWN:
            depths[word] = LOST
            way.append(word)
            word = heads[word - 1]
        if depths[word] != LOST:
            for depth, passed in enumerate(reversed(way), start=depths[word] + 1):
                depths[passed] = depth
    return depths


def _joined(heads: Heads, spaced: Sequence[bool]) -> Heads:
    """The tree of words written as one; the head of the highest stands higher, so that there are no circles."""
    number = [0, *accumulate(spaced[:-1], initial=1)]  # of what a word is written as
    depths, highest = _depths(heads), dict[int, int]()
    for word in range(1, len(heads) + 1):
        known = highest.setdefault(number[word], word)
        if depths[word] < depths[known]:
            highest[number[word]] = word
    return tuple(number[heads[highest[one] - 1]] for one in range(1, number[-1] + 1))


def _fitted(tree: DependencyTree, words: int, *, where: str, text: str) -> Heads:
    heads = tree.heads_for(words)
    if heads is None:
        written = (
            "" if tree.num_surface_words == len(tree.heads) else f" ({tree.num_surface_words} as they are written)"
        )
        raise DataError(
            f"{where}: a tree of {len(tree.heads)} words{written}, but {text} has {words} between spaces; give the "
            "trees of this very text, or write spaces between all words"
        )
    return heads


@dataclass
class _Sentence:
    """A sentence that is being read."""

    path: Path
    heads: list[int] = field(default_factory=list)
    spaced: list[bool] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    """The line of each word."""
    together: int = 0
    """The last word of the range that was met last."""
    space: bool = True
    """Whether white space follows that range."""

    def add(self, line: str, place: int) -> None:
        where, columns = f"{self.path}:{place}", line.split("\t")
        if len(columns) != COLUMNS:
            raise DataError(
                f"{where}: {len(columns)} columns, but CoNLL-U has {COLUMNS}, separated by tabs; mend the line"
            )
        found = NUMBER.fullmatch(columns[ID])
        if found is None:
            raise DataError(f"{where}: {columns[ID]!r} is not the number of a word; mend the line")
        space = "SpaceAfter=No" not in columns[MISC].split("|")
        if found["last"] is not None:
            self.together, self.space = int(found["last"]), space
        elif found["empty"] is None:
            self._add_word(int(columns[ID]), columns[HEAD], where=where)
            within = len(self.heads) <= self.together
            self.spaced.append(len(self.heads) == self.together and self.space if within else space)
            self.places.append(place)

    def ended(self) -> Iterator[DependencyTree]:
        """The sentence, unless there is none."""
        if not self.heads:
            return
        if (fault := find_tree_error(self.heads)) is not None:
            raise DataError(f"{self.path}:{self.places[fault.word - 1]}: {fault.reason}; mend the tree")
        yield DependencyTree(tuple(self.heads), (*self.spaced[:-1], True), self.places[0])

    def _add_word(self, number: int, head: str, *, where: str) -> None:
        if number != len(self.heads) + 1:
            raise DataError(
                f"{where}: word {number} where word {len(self.heads) + 1} is expected; number the words from 1, with a "
                "blank line between sentences"
            )
        if not re.fullmatch(r"[0-9]{1,9}", head):
            raise DataError(f"{where}: the head of word {number} is {head!r}, not a number; mend the line")
        self.heads.append(int(head))
