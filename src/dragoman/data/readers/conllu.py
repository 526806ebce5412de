"""Dependency trees in CoNLL-U (universaldependencies.org/format.html).

The reader uses the number and the head of each word, and whether white space follows the word. No white space follows a
word marked `SpaceAfter=No` or inside a multiword token such as `1-2`. Comments and empty nodes such as `8.1` are
skipped.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from pathlib import Path
from typing import NamedTuple

from dragoman.data.readers.line_reader import ReadWarnings, read_lines
from dragoman.errors import DataError
from dragoman.number_words import counted

Heads = tuple[int, ...]
"""Head of each word of a sentence, from 1; 0 for a root. A sentence may have several roots."""

COLUMNS = 10
ID, HEAD, MISC = 0, 6, 9
NUMBER = re.compile(r"[1-9][0-9]{0,8}|[0-9]{1,9}-(?P<last>[0-9]{1,9})|(?P<empty>[0-9]+\.[0-9]+)")
UNREACHABLE, UNKNOWN = -1, -2


class TreeError(NamedTuple):
    """Reason why heads are not a tree, and the word (from 1) at which it shows."""

    word: int
    reason: str


@dataclass(frozen=True, slots=True)
class DependencyTree:
    """Dependency tree and spacing of a sentence."""

    heads: Heads
    space_after: tuple[bool, ...]
    """Whether white space follows each word."""
    line: int
    """First line of the sentence in the file, from 1."""

    @property
    def num_surface_words(self) -> int:
        """Number of words between white space in the original text."""
        return sum(self.space_after)

    def heads_for(self, count: int) -> Heads | None:
        """Return the tree of a text of `count` words between white space, or None if the text does not fit.

        The text has spaces between all words of the tree or the spacing of the original. In the latter, words written
        together are one word, whose head is the head of the highest of them.
        """
        if count == len(self.heads):
            return self.heads
        return _join_words(self.heads, self.space_after) if count == self.num_surface_words else None


def read_trees(path: Path, warnings: ReadWarnings | None = None) -> Iterator[DependencyTree]:
    """Yield the sentences of a file, plain or .gz, .bz2, .xz, .zst.

    Raises DataError, with file and line, if the file is not CoNLL-U or the heads of a sentence are not a tree.
    """
    for blank, lines in groupby(read_lines(path, warnings), key=lambda line: not line[1].strip()):
        if not blank:
            yield from _parse_sentence(path, lines)


def read_heads(
    texts: Iterable[str], trees: Path, *, name: str, warnings: ReadWarnings | None = None
) -> Iterator[Heads]:
    """Yield the heads of the words of each text, from a file with one tree per text that has words.

    Raises DataError as `read_trees` does, and if the trees do not fit the texts, which messages call `name`.
    """
    sentences, count = read_trees(trees, warnings), 0
    for number, text in enumerate(texts, start=1):
        words = len(text.split())
        if not words:
            yield ()
            continue
        tree = next(sentences, None)
        if tree is None:
            raise DataError(
                f"{trees}: ends after {counted(count, 'sentences')}, but {name}:{number} has words too; give a tree "
                f"for each "
                "line that has words"
            )
        count += 1
        yield _fit_tree(tree, words, where=f"{trees}:{tree.line}", text=f"{name}:{number}")
    if (more := next(sentences, None)) is not None:
        raise DataError(
            f"{trees}:{more.line}: a sentence beyond the {counted(count, 'lines')} of {name} with words; give one "
            f"tree per "
            "line"
        )


def find_tree_error(heads: Sequence[int]) -> TreeError | None:
    """Return the reason why heads are not a tree, or None."""
    for word, head in enumerate(heads, start=1):
        if not 0 <= head <= len(heads):
            return TreeError(word, f"word {word} has head {head}, but words are 1 to {len(heads)}, and 0 marks a root")
    if heads and 0 not in heads:
        return TreeError(1, "no word has head 0, so the tree has no root")
    depths = _depths(heads)
    if UNREACHABLE not in depths:
        return None
    word = depths.index(UNREACHABLE)
    return TreeError(word, f"the heads from word {word} form a cycle without a root")


def _depths(heads: Sequence[int]) -> list[int]:
    """Return the depth of each word, with 0 for the artificial root at index 0 and `UNREACHABLE` for cycles."""
    depths = [0, *[UNKNOWN] * len(heads)]
    for first in range(1, len(heads) + 1):
        word, path = first, list[int]()
        while depths[word] == UNKNOWN:
            depths[word] = UNREACHABLE
            path.append(word)
            word = heads[word - 1]
        if depths[word] != UNREACHABLE:
            for depth, passed in enumerate(reversed(path), start=depths[word] + 1):
                depths[passed] = depth
    return depths


def _join_words(heads: Heads, space_after: Sequence[bool]) -> Heads:
    """Return the tree of words written together; the head of the highest word is higher, so there are no cycles."""
    surface = [0, *accumulate(space_after[:-1], initial=1)]  # number of the surface word of each word
    depths, highest = _depths(heads), dict[int, int]()
    for word in range(1, len(heads) + 1):
        known = highest.setdefault(surface[word], word)
        if depths[word] < depths[known]:
            highest[surface[word]] = word
    return tuple(surface[heads[highest[word] - 1]] for word in range(1, surface[-1] + 1))


def _fit_tree(tree: DependencyTree, words: int, *, where: str, text: str) -> Heads:
    heads = tree.heads_for(words)
    if heads is None:
        surface = "" if tree.num_surface_words == len(tree.heads) else f" ({tree.num_surface_words} as written)"
        raise DataError(
            f"{where}: a tree of {len(tree.heads)} words{surface}, but {text} has {words} between spaces; give the "
            "trees of this text, or write spaces between all words"
        )
    return heads


def _parse_sentence(path: Path, numbered: Iterable[tuple[int, str]]) -> Iterator[DependencyTree]:
    """Yield the tree of consecutive lines, unless they hold no word."""
    heads, space_after, lines = list[int](), list[bool](), list[int]()
    last_joined, space_after_joined = 0, True  # of the last multiword token
    for number, line in numbered:
        if line.startswith("#"):
            continue
        where, columns = f"{path}:{number}", line.split("\t")
        if len(columns) != COLUMNS:
            raise DataError(
                f"{where}: {len(columns)} columns, but CoNLL-U has {COLUMNS}, separated by tabs; correct the line"
            )
        match = NUMBER.fullmatch(columns[ID])
        if match is None:
            raise DataError(f"{where}: {columns[ID]!r} is not a word number; correct the line")
        space = "SpaceAfter=No" not in columns[MISC].split("|")
        if match["last"] is not None:
            last_joined, space_after_joined = int(match["last"]), space
        elif match["empty"] is None:
            heads.append(_parse_head(columns, len(heads) + 1, where=where))
            joined = len(heads) <= last_joined
            space_after.append(len(heads) == last_joined and space_after_joined if joined else space)
            lines.append(number)
    if (error := find_tree_error(heads)) is not None:
        raise DataError(f"{path}:{lines[error.word - 1]}: {error.reason}; correct the tree")
    if heads:
        yield DependencyTree(tuple(heads), (*space_after[:-1], True), lines[0])


def _parse_head(columns: Sequence[str], expected: int, *, where: str) -> int:
    number, head = int(columns[ID]), columns[HEAD]
    if number != expected:
        raise DataError(
            f"{where}: word {number} where word {expected} is expected; number the words from 1, with a blank line "
            "between sentences"
        )
    if not re.fullmatch(r"[0-9]{1,9}", head):
        raise DataError(f"{where}: the head of word {number} is {head!r}, not a number; correct the line")
    return int(head)
