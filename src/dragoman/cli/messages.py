"""Messages on standard error: how many are shown, and the summary of warnings about single texts."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from dragoman.errors import TextWarning, summarize

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Level = Literal["quiet", "normal", "verbose"]


@dataclass
class _Settings:
    """Level and collected warnings of the command that this process runs."""

    level: Level = "normal"
    flags: Mapping[str, str] = field(default_factory=dict)
    """Option of each parameter of the verb."""
    collected: dict[str, list[TextWarning]] = field(default_factory=dict)
    """Warnings about single texts by their problem."""


_settings = _Settings()


def start(level: Level = "normal", flags: Mapping[str, str] | None = None) -> None:
    """Set the level of the messages, and the options whose names replace those of parameters in warnings."""
    _settings.level, _settings.flags = level, flags or {}
    _settings.collected.clear()


def is_quiet() -> bool:
    """Return whether only results, warnings and errors are shown."""
    return _settings.level == "quiet"


def say(message: str) -> None:
    """Print a message to standard error, unless the command is quiet."""
    if not is_quiet():
        print(f"dragoman: {message}", file=sys.stderr)


def show_warning(message: Warning | str, *_location: object, **_line: object) -> None:
    """Print a warning in one line, in place of `warnings.showwarning`; one about a text is counted for the summary."""
    if not isinstance(message, TextWarning):
        _print_warning(str(message))
        return
    for one in message.parts or [message]:
        _settings.collected.setdefault(one.problem, []).append(one)
        if _settings.level == "verbose":
            _print_warning(one.by_line())


def summarize_warnings(total: int | None = None) -> None:
    """Print one warning for each problem of texts since the last summary; `total` is the number of texts."""
    for found in _settings.collected.values():
        if len(found) > 1:
            _print_warning(summarize(found, total, by_line=True))
        elif _settings.level != "verbose":
            _print_warning(found[0].by_line())
    _settings.collected.clear()


def with_options(message: str) -> str:
    """Return a message about `parameter = value` of the Python API with the options that the user has instead."""
    changed = _replace_names(message, _settings.flags, " = ", " ")
    return message if changed == message else _with_flags(changed)


def _print_warning(text: str) -> None:
    print(f"dragoman: warning: {_with_flags(text)}", file=sys.stderr)


def _with_flags(text: str) -> str:
    """Replace the names of parameters that are no words by the options of the verb."""
    return _replace_names(text, [name for name in _settings.flags if "_" in name.strip("_")], r"\b", "")


def _replace_names(text: str, names: Iterable[str], end: str, replacement: str) -> str:
    """Replace names that are followed by the pattern `end`, which `replacement` replaces, by options."""
    known = "|".join(map(re.escape, names))
    if not known:
        return text
    return re.sub(rf"(?<![\w.-])({known}){end}", lambda match: _settings.flags[match[1]] + replacement, text)
