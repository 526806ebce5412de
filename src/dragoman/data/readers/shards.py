"""A corpus in several files, its shards: a list of them, or a pattern such as `train.*.en.gz`, by name."""

import glob
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import Field

from dragoman.data.readers.text_lines import ReadWarnings, read_lines
from dragoman.errors import DataError

Files = Annotated[Path | Annotated[tuple[Path, ...], Field(min_length=1)], Field(union_mode="left_to_right")]
"""One file, several, or those that match a pattern with `*`, `?` or `[...]`."""

_WILD = re.compile(r"[*?[]")


def resolve_files(files: Files) -> tuple[Path, ...]:
    """The files that are meant, in the order in which they are read. Raises DataError where none matches a pattern."""
    return tuple(path for given in _listed(files) for path in _matching(given))


def pair_files(source: Files, target: Files) -> tuple[tuple[Path, Path], ...]:
    """Each file with sources, and the one with their translations.

    Raises DataError where one side has more files than the other, and where two patterns match different names.
    """
    left, right = resolve_files(source), resolve_files(target)
    if len(left) != len(right):
        fewer, more = sorted((left, right), key=len)
        raise DataError(
            f"{describe_files(source)} is {_counted(left)}, but {describe_files(target)} is {_counted(right)}; each needs the one with "
            f"its translations: {more[len(fewer)]} has none"
        )
    if is_glob(source) and is_glob(target):
        for one, other in zip(left, right, strict=True):
            if _wild_parts(source, one) != _wild_parts(target, other):
                raise DataError(
                    f"{one} and {other}: do not belong together, going by what stands for the wildcards of {source} "
                    f"and {target}; rename them, or list the files of each side in order"
                )
    return tuple(zip(left, right, strict=True))


def read_shard_lines(files: Files, repairs: ReadWarnings) -> Iterator[tuple[Path, int, int, str]]:
    """Each line: its file, its number in it, the lines of the files before, and its text; raises as `lines` does."""
    before = 0
    for path in resolve_files(files):
        number = 0
        for number, text in read_lines(path, repairs):
            yield path, number, before, text
        before += number


def _listed(files: Files) -> tuple[Path, ...]:
    return (files,) if isinstance(files, Path) else files


def is_glob(files: Files) -> bool:
    """Whether the files are those that match a pattern; a file of such a name is meant itself where there is one."""
    return isinstance(files, Path) and _WILD.search(str(files)) is not None and not files.exists()


def _matching(path: Path) -> tuple[Path, ...]:
    if not is_glob(path):
        return (path,)
    found = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207  # which has no pattern of a whole path
    if not found:
        raise DataError(f"{path}: no file matches; check the path, and put a pattern for the shell to keep in quotes")
    return tuple(map(Path, found))


def _wild_parts(pattern: Files, path: Path) -> tuple[str, ...]:
    """What stands in a path for each wildcard of its pattern."""
    parts = re.split(r"(\*\*/|\*|\?|\[[^]]*\])", str(pattern))
    joined = "".join(_as_group(part) if place % 2 else re.escape(part) for place, part in enumerate(parts))
    match = re.fullmatch(joined, str(path))
    return match.groups() if match is not None else ()


def _as_group(wildcard: str) -> str:
    match wildcard:
        case "**/":
            return "(.*/|)"
        case "*":
            return "([^/]*)"
        case "?":
            return "([^/])"
        case _:
            return f"({wildcard.replace('[!', '[^')})"


def describe_files(files: Files) -> str:
    """The files in a message."""
    first, *further = _listed(files)
    return f"{first} and {len(further):,} further files" if further else str(first)


def _counted(files: tuple[Path, ...]) -> str:
    return "1 file" if len(files) == 1 else f"{len(files):,} files"
