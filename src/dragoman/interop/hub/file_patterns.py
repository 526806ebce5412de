"""Names of the files of a format, by which a download leaves out all other files of a repository."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from glob import escape
from typing import Final, final

from dragoman.errors import DataError, nearest, shorten, shorten_text

_SAFE_PART = re.compile(r"[^\x00-\x1f\x7f/\\:]+")
SHOWN: Final = 6
"""Files that a message lists."""

Names = tuple[str, ...]


@final
@dataclass(frozen=True)
class FilePatterns:
    """Patterns of file names, as `fnmatch` has them; `*` matches no slash."""

    weights: tuple[Names, ...]
    """Alternatives, best first: the pattern of one file, then those of the parts that it names."""
    required: tuple[Names, ...] = ()
    """Groups of patterns, of each of which a file must match one."""
    optional: Names = ()
    """Files that are read if they exist."""

    def find_weights(self, names: Collection[str]) -> tuple[Names, Names]:
        """Return the files that match the best alternative, without and with parts; none if there are none."""
        for main, *parts in self.weights:
            if found := _matching(names, (main,)):
                return found, tuple(dict.fromkeys([*found, *_matching(names, parts)]))
        return (), ()

    def match(self, names: Collection[str]) -> bool:
        """Return whether a repository with these files has the format."""
        return bool(self.find_weights(names)[0]) and all(_matching(names, group) for group in self.required)

    def find_settings(self, names: Collection[str]) -> Names:
        """Return the files next to the weights."""
        return _matching(names, [*(one for group in self.required for one in group), *self.optional])


@final
@dataclass(frozen=True)
class ChosenFiles:
    """Files of a repository that an import reads."""

    format: str
    settings: Names
    weights: Names

    @property
    def all(self) -> Names:
        """Settings first, so that a model that cannot be imported is refused before its weights are downloaded."""
        return tuple(dict.fromkeys([*self.settings, *self.weights]))


def is_safe(name: str) -> bool:
    """Return whether a name of a file, perhaps in folders, stays below any folder on every system."""
    parts = name.split("/")
    return all(part not in (".", "..") and _SAFE_PART.fullmatch(part) for part in parts) and len(name) < 256


def choose_files(
    formats: Mapping[str, FilePatterns],
    names: Collection[str],
    *,
    where: str,
    format_name: str | None = None,
    file: str | None = None,
) -> ChosenFiles:
    """Choose the files of a repository for an import.

    The format is the first one whose files exist, or `format_name`. `file` names the weights where there are several.
    Raises DataError if no format matches, the file does not exist, or several files are weights.
    """
    if file is not None and file not in names:
        near = nearest(file, names)
        raise DataError(f"{where}: has no file {shorten(file)}. {f'Did you mean {near[0]}?' if near else _list(names)}")
    for name, patterns in formats.items():
        if format_name not in (None, name):
            continue
        if file is not None:
            if not any(_matches(file, one[0]) for one in patterns.weights):
                continue
            patterns = replace(patterns, weights=((escape(file),),))
        if patterns.match(names):
            return _chosen(name, patterns, names, where)
    what = f"files of the format {format_name}" if format_name else "model of a format that dragoman reads"
    raise DataError(f"{where}: has no {what}{f' with {shorten(file)}' if file else ''}. {_list(names)}")


def _chosen(name: str, patterns: FilePatterns, names: Collection[str], where: str) -> ChosenFiles:
    found, weights = patterns.find_weights(names)
    if len(found) > 1:
        raise DataError(f"{where}: has several models. Name one of them with --file: {_joined(found)}.")
    return ChosenFiles(name, patterns.find_settings(names), weights)


def _matching(names: Iterable[str], patterns: Iterable[str]) -> Names:
    patterns = tuple(patterns)
    return tuple(sorted(name for name in names if any(_matches(name, one) for one in patterns)))


def _matches(name: str, pattern: str) -> bool:
    return name.count("/") == pattern.count("/") and all(map(fnmatchcase, name.split("/"), pattern.split("/")))


def _list(names: Collection[str]) -> str:
    return f"It has {_joined(sorted(names))}." if names else "It is empty."


def _joined(names: Collection[str]) -> str:
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(shorten_text(one) for one in list(names)[:SHOWN]) + more
