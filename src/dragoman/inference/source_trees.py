"""Dependency trees of the texts given to a translator: checks and chunks."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from dragoman.data.readers.conllu import Heads, find_tree_error
from dragoman.errors import DataError, DragomanError

Trees = Sequence[Sequence[int]]
"""For each text, the number of the head of each word, counted from 1; 0 for a root."""


def check_trees(texts: Sequence[str], trees: Trees | None, first_line: int, *, structural: bool) -> list[Heads | None]:
    """Return the tree of each text, or None for each where the model is not `structural`.

    Raises DataError where trees are missing or have no effect, and where a tree does not fit its text.
    """
    if trees is None:
        if structural:
            raise DataError(
                "this model has structural positions and needs the dependency tree of each text; give them as "
                "`trees`, or on the command line by --source-trees, in CoNLL-U"
            )
        return [None] * len(texts)
    if not structural:
        raise DataError("trees have no effect on this model, which has no structural positions; leave them out")
    if len(trees) != len(texts):
        raise DataError(f"{len(texts)} texts but {len(trees)} trees, from line {first_line} on; give one for each")
    pairs = enumerate(zip(texts, trees, strict=True), start=first_line)
    return [_check_tree(tuple(heads), words=len(text.split()), line=line) for line, (text, heads) in pairs]


def chunks_with_trees(
    lines: Iterable[str], trees: Iterator[Sequence[int]] | None, *, size: int
) -> Iterator[tuple[int, list[str], list[Sequence[int]] | None]]:
    """Yield at most `size` lines at a time with the number of the first and, where there are any, their trees.

    A reading error is raised after the lines before it. Raises DataError on trees that are left over.
    """
    iterator, first_line = iter(lines), 1
    reading_error: DragomanError | None = None
    while reading_error is None:
        texts: list[str] = []
        try:
            texts.extend(islice(iterator, size))
        except DragomanError as error:
            reading_error = error
        if not texts:
            break
        yield first_line, texts, None if trees is None else list(islice(trees, len(texts)))
        first_line += len(texts)
    if reading_error is not None:
        raise reading_error
    check_all_used(trees, texts=first_line - 1)


def check_all_used(trees: Iterator[Sequence[int]] | None, *, texts: int) -> None:
    """Raise DataError where trees are left after all texts."""
    if trees is not None and next(trees, None) is not None:
        raise DataError(f"more trees than the {texts} texts; give one for each")


def _check_tree(heads: Heads, *, words: int, line: int) -> Heads:
    if len(heads) != words:
        raise DataError(
            f"line {line}: a tree of {len(heads)} words, but the text has {words} between spaces; give the tree of "
            "this text"
        )
    if (error := find_tree_error(heads)) is not None:
        raise DataError(f"line {line}: {error.reason}; fix the tree")
    return heads
