"""Corpora in several files (shards): a list of files, or a glob pattern such as `train.*.en.gz`, sorted by name."""

import glob
import re
from pathlib import Path
from typing import Annotated

from pydantic import Field

from dragoman.errors import DataError

Files = Annotated[Path | Annotated[tuple[Path, ...], Field(min_length=1)], Field(union_mode="left_to_right")]
"""One file, several files, or a glob pattern with `*`, `?` or `[...]`."""

_WILDCARD = re.compile(r"[*?[]")


def resolve_files(files: Files) -> tuple[Path, ...]:
    """Return the files in reading order. Raises DataError if a pattern matches no file."""
    return tuple(path for given in _as_tuple(files) for path in _matches(given))


def pair_files(source: Files, target: Files) -> tuple[tuple[Path, Path], ...]:
    """Pair each source file with its target file.

    Raises DataError if the sides differ in their number of files, or if their patterns match different names.
    """
    left, right = resolve_files(source), resolve_files(target)
    if len(left) != len(right):
        fewer, more = sorted((left, right), key=len)
        raise DataError(
            f"{describe_files(source)} is {_counted(left)}, but {describe_files(target)} is {_counted(right)}; each "
            f"file needs a file with its translations: {more[len(fewer)]} has none"
        )
    if is_glob(source) and is_glob(target):
        for one, other in zip(left, right, strict=True):
            if _wildcard_texts(source, one) != _wildcard_texts(target, other):
                raise DataError(
                    f"{one} and {other} do not belong together: the wildcards of {source} and {target} match different "
                    "texts; rename the files, or list the files of each side in order"
                )
    return tuple(zip(left, right, strict=True))


def is_glob(files: Files) -> bool:
    """Return whether the files are given by a pattern; an existing file whose name looks like a pattern is a file."""
    return isinstance(files, Path) and _WILDCARD.search(str(files)) is not None and not files.exists()


def describe_files(files: Files) -> str:
    """Return the files for messages."""
    first, *further = _as_tuple(files)
    return f"{first} and {len(further):,} further files" if further else str(first)


def _as_tuple(files: Files) -> tuple[Path, ...]:
    return (files,) if isinstance(files, Path) else files


def _matches(path: Path) -> tuple[Path, ...]:
    if not is_glob(path):
        return (path,)
    found = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207  # pathlib cannot match an absolute pattern
    if not found:
        raise DataError(f"{path}: no file matches; check the path, and quote a pattern so that the shell keeps it")
    return tuple(map(Path, found))


def _wildcard_texts(pattern: Files, path: Path) -> tuple[str, ...]:
    """Return the text that each wildcard of a pattern matches in a path."""
    groups = {"**/": "(.*/|)", "*": "([^/]*)", "?": "([^/])"}
    parts = re.split(r"(\*\*/|\*|\?|\[[^]]*\])", str(pattern))
    expression = "".join(
        groups.get(part, f"({part.replace('[!', '[^')})") if place % 2 else re.escape(part)
        for place, part in enumerate(parts)
    )
    match = re.fullmatch(expression, str(path))
    return match.groups() if match is not None else ()


def _counted(files: tuple[Path, ...]) -> str:
    return "1 file" if len(files) == 1 else f"{len(files):,} files"
