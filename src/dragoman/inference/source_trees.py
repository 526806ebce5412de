"""The texts that a translator is given, a portion at a time, and their trees, checked."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from dragoman.data.readers.conllu import Heads, fault_of
from dragoman.errors import DataError, DragomanError

Trees = Sequence[Sequence[int]]
"""For each text, the word that each of its words hangs on, counted from 1; 0 for a root."""


def trees_of(texts: Sequence[str], trees: Trees | None, first_line: int, *, structural: bool) -> list[Heads | None]:
    """The tree of each text, or None for each where the network is not `structural` and reads none.

    Raises DataError where trees are missing or have no effect, and where one is none of its text.
    """
    if trees is None:
        if structural:
            raise DataError(
                "this network has structural positions and needs the dependency tree of each text; give them as "
                "`trees`, or on the command line by --source-trees, in CoNLL-U"
            )
        return [None] * len(texts)
    if not structural:
        raise DataError("trees have no effect on this network, which has no structural positions; leave them out")
    if len(trees) != len(texts):
        raise DataError(f"{len(texts)} texts but {len(trees)} trees, from line {first_line} on; give one for each")
    pairs = enumerate(zip(texts, trees, strict=True), start=first_line)
    return [_checked(tuple(heads), words=len(text.split()), line=line) for line, (text, heads) in pairs]


def portions(
    lines: Iterable[str], trees: Iterator[Sequence[int]] | None, *, size: int
) -> Iterator[tuple[int, list[str], list[Sequence[int]] | None]]:
    """At most `size` lines at a time with the number of the first and, where there are any, their trees.

    What cannot be read is said after what stands before it. Raises DataError on trees that are left over.
    """
    iterator, first_line = iter(lines), 1
    fault: DragomanError | None = None
    while fault is None:
        texts: list[str] = []
        try:
            texts.extend(islice(iterator, size))
        except DragomanError as error:
            fault = error
        if not texts:
            break
        yield first_line, texts, None if trees is None else list(islice(trees, len(texts)))
        first_line += len(texts)
    if fault is not None:
        raise fault
    refuse_more(trees, texts=first_line - 1)


def refuse_more(trees: Iterator[Sequence[int]] | None, *, texts: int) -> None:
    """Raises DataError where trees are left when all texts are read."""
    if trees is not None and next(trees, None) is not None:
        raise DataError(f"more trees than the {texts} texts; give one for each")


def _checked(heads: Heads, *, words: int, line: int) -> Heads:
    if len(heads) != words:
        raise DataError(
            f"line {line}: a tree of {len(heads)} words, but the text has {words} between spaces; give the tree of "
            "this very text"
        )
    if (fault := fault_of(heads)) is not None:
        raise DataError(f"line {line}: {fault.reason}; mend the tree")
    return heads
