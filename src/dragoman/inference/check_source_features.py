"""Source features of the texts given to a translator, dependency trees: checks and chunks."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from dragoman.data.readers.conllu import Heads, find_tree_error
from dragoman.errors import DataError, TextError
from dragoman.inference.stream_chunks import number_chunks
from dragoman.number_words import counted

_T = TypeVar("_T")
TextFeatures = Sequence[Sequence[int]]
"""For each text, the number of the head of each word, counted from 1; 0 for a root."""


def check_source_features(
    texts: Sequence[str], source_features: TextFeatures | None, first_line: int, *, needs_source_features: bool
) -> list[Heads | None]:
    """Return the tree of each text, or None for each where the model needs none.

    Raises DataError where trees are missing or have no effect, and where a tree does not fit its text.
    """
    if source_features is None:
        if needs_source_features:
            raise DataError(
                "this model has tree positions and needs the dependency heads of each text. Give them as "
                "`source_features`, or on the command line by --source-features, in CoNLL-U."
            )
        return [None] * len(texts)
    if not needs_source_features:
        raise DataError("source features have no effect on this model, which has no tree positions. Leave them out.")
    if len(source_features) != len(texts):
        message = f"{counted(len(texts), 'texts')} but {len(source_features)} trees from here on; give one for each"
        raise TextError("line", first_line, message)
    trees = [tuple(heads) for heads in source_features]
    for line, (text, heads) in enumerate(zip(texts, trees, strict=True), start=first_line):
        if len(heads) != (words := len(text.split())):
            message = f"a tree of {len(heads)} words, but the text has {words} between spaces; give its tree"
            raise TextError("line", line, message)
        if (error := find_tree_error(heads)) is not None:
            raise TextError("line", line, f"{error.reason}; fix the tree")
    return [*trees]


def read_chunks(
    lines: Iterable[_T],
    source_features: Iterable[Sequence[int]] | None,
    *,
    size: int,
    name: str,
    check: Callable[[_T, str], object],
) -> Iterator[tuple[int, list[_T], list[Sequence[int]] | None]]:
    """Return the chunks of `number_chunks`, with their source features where there are any.

    The iterator raises DataError on features that are left over.
    """
    chunks = number_chunks(lines, size=size, name=name, check=check)
    return _with_features(chunks, source_features)


def _with_features(
    chunks: Iterator[tuple[int, list[_T]]], source_features: Iterable[Sequence[int]] | None
) -> Iterator[tuple[int, list[_T], list[Sequence[int]] | None]]:
    features, count = None if source_features is None else iter(source_features), 0
    for first_line, texts in chunks:
        yield first_line, texts, None if features is None else list(islice(features, len(texts)))
        count += len(texts)
    if features is not None and next(features, None) is not None:
        raise DataError(f"more trees than the {counted(count, 'texts')}; give one for each")
