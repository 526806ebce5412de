"""Errors that the user can fix; messages say value, rule and remedy, and the command line exits with 2."""

import difflib
import reprlib
import shlex
import signal
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final, TypeVar

_W = TypeVar("_W")
SHOWN_EXAMPLES = 8
"""Examples that a warning lists."""
_PASSED = frozenset([__name__.partition(".")[0], "asyncio", "concurrent", "contextlib", "threading"])
"""Packages between the line that calls and the line that warns."""
SHOWN_NUMBERS = 5
"""Texts that a summary lists by their number."""
_ARGUMENTS: Final = {
    "line": "texts[{}]",
    "text": "texts[{}]",
    "sentence": "sentences[{}]",
    "prompt": "prompts[{}]",
    "question": "pairs[{}][0]",
    "context": "pairs[{}][1]",
    "source": "sources[{}]",
    "target": "targets[{}]",
}
"""Place of a text in the arguments of a call, by its unit."""


class DragomanError(Exception):
    """Base class of errors that the user can fix; any other exception is an internal error."""


@dataclass(frozen=True)
class Problem:
    """One line of a ConfigError: its message, the keys of the values in it, and the source of these values."""

    message: str
    keys: tuple[str, ...] = ()
    origin: str = ""
    """Beginning of the line, such as `recipe.yaml: `."""


class ConfigError(DragomanError):
    """Invalid configuration: unknown key, wrong type, or sizes that do not fit each other."""

    def __init__(self, *problems: str | Problem) -> None:
        self.problems = tuple(one if isinstance(one, Problem) else Problem(one) for one in problems)
        super().__init__("\n".join(one.origin + one.message for one in self.problems))


class DataError(DragomanError):
    """Unusable corpus, file or tokenizer; the message names file and line."""


class TextError(DataError):
    """Unusable text of many; the message names its place in the arguments of the call, such as `texts[2]`."""

    def __init__(self, unit: str, number: int, message: str) -> None:
        """`number` is that of the text, from 1."""
        self.unit, self.number, self.message = unit, number, message
        super().__init__(unit, number, message)

    def __str__(self) -> str:
        return f"{_argument(self.unit, self.number)}: {self.message}"

    def by_line(self) -> str:
        """Return the message with the number of the text in a file."""
        return f"{self.unit} {self.number}: {self.message}"


class RunError(DragomanError):
    """Run folder, checkpoint or model that is missing, damaged, or exists already."""


class StoppedError(RunError):
    """Work that a signal stopped; the message says what was kept, or how to continue."""

    signal_number: int = signal.SIGINT


class TrainingError(DragomanError):
    """Training that cannot continue, with the attempted remedies."""


class MissingExtraError(DragomanError):
    """Missing optional library."""

    def __init__(self, *, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an optional library; install it with: pip install 'dragoman[{extra}]'")


MAX_SHOWN = 60
"""Maximum number of characters of a value in a message."""
_REPR = reprlib.Repr()
_REPR.maxlevel, _REPR.maxstring, _REPR.maxlong, _REPR.maxother = 3, 200, 200, 200
_REPR.maxdict = _REPR.maxlist = _REPR.maxtuple = _REPR.maxset = _REPR.maxfrozenset = 30


def shorten(value: object) -> str:
    """Return the start of the representation of a value, for messages; a huge value costs no time."""
    try:
        return shorten_text(_REPR.repr(value))
    except ValueError:  # an integer of more than 4,300 digits
        return f"a value of type {type(value).__name__}"


def shorten_text(text: str, length: int = MAX_SHOWN) -> str:
    """Return the start of a text, for messages."""
    return text if len(text) <= length else f"{text[: length - 3]}..."


def quote(path: str | Path) -> str:
    """Return a path as it is written in a shell, for commands in messages."""
    return shlex.quote(str(path))


def nearest(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> list[str]:
    """Return the known word that is the most similar to a word; or nothing.

    Words are compared regardless of case, and with `-` and `_` equal. Another number is another choice, not a typing
    error: `int8` is not similar to `int4`.
    """
    folded = {fold(one): one for one in known if not _digits(word) or _digits(word) == _digits(one)}
    return [folded[one] for one in difflib.get_close_matches(fold(word), folded, n=1, cutoff=cutoff)]


def fold(word: str) -> str:
    """Return a word in lower case and with `-` for `_`, in order to compare it."""
    return word.casefold().replace("_", "-")


def known_word(word: _W, known: Iterable[_W]) -> _W:
    """Return the known word that is spelled like a word regardless of case, and with `-` and `_` equal; or the word."""
    return next((one for one in known if fold(str(one)) == fold(str(word))), word)


def _digits(word: str) -> list[str]:
    return sorted(filter(str.isdigit, word))


def suggest_path(path: str | Path) -> str | None:
    """Return an existing path with almost the same name in the same folder."""
    path = Path(path)
    try:
        names = [one.name for one in path.parent.iterdir()]
    except OSError:
        return None
    near = nearest(path.name, names, cutoff=0.75)
    return str(path.parent / near[0]) if near else None


def describe_unreadable(path: Path, error: OSError) -> str:
    """Return the message that a file cannot be read, with the path that was probably meant."""
    near = suggest_path(path) if isinstance(error, FileNotFoundError) else None
    return (
        f"{path}: cannot be read ({error.strerror or error}); {f'did you mean {near}?' if near else 'check the path'}"
    )


_collected: ContextVar[list["TextWarning"] | None] = ContextVar("collected", default=None)


class TextWarning(UserWarning):
    """Warning about one of many texts, or the summary of the warnings of one problem, its `parts`.

    The message is `texts[2]: MESSAGE; REMEDY`, with the place of the text in the arguments of the call.
    """

    parts: tuple["TextWarning", ...] = ()

    def __init__(
        self, unit: str, number: int, message: str, *, problem: str, remedy: str = "", examples: Iterable[str] = ()
    ) -> None:
        """`number` is that of the text, from 1, and `unit` what it is: `line`, `prompt`, …

        `problem` follows the number of such texts: `translations were cut off at their length limit`. `examples` are
        parts of the text that show the problem.
        """
        self.unit, self.number, self.problem, self.remedy, self.examples = unit, number, problem, remedy, (*examples,)
        self._own_message = message
        shown = self.list_examples([self])
        self.message = f"{message}{shown}" + (f"; {remedy}" if remedy else "")
        super().__init__(f"{_argument(unit, number)}: {self.message}")

    def to_dict(self) -> dict[str, Any]:
        """Return the arguments of the constructor, which make the same warning again in another process."""
        names = ("unit", "number", "problem", "remedy", "examples")
        return {**{name: getattr(self, name) for name in names}, "message": self._own_message}

    def by_line(self) -> str:
        """Return the message with the number of the text in a file."""
        return f"{self.unit} {self.number}: {self.message}"

    @staticmethod
    def list_examples(warnings: Iterable["TextWarning"]) -> str:
        """Return some of the different examples of warnings, after a colon; nothing without examples."""
        found = list(dict.fromkeys(example for one in warnings for example in one.examples))
        shown = [text if text.isprintable() and not text.isspace() else _code_points(text) for text in found]
        more = [f"and {len(found) - SHOWN_EXAMPLES:,} more"] if len(found) > SHOWN_EXAMPLES else []
        return f": {' '.join([*shown[:SHOWN_EXAMPLES], *more])}" if found else ""


def summarize(found: Sequence[TextWarning], total: int | None = None, *, by_line: bool = False) -> str:
    """Return one message for warnings of the same problem; `total` is the number of texts.

    Texts are named by their place in the arguments of the call, or `by_line` of a file.
    """
    shown, unit = found[:SHOWN_NUMBERS], found[0].unit
    places = ", ".join(str(one.number) if by_line else _argument(unit, one.number) for one in shown)
    more = ", …" if len(found) > SHOWN_NUMBERS else ""
    of = "" if total is None else f" of {total:,}"
    where = f"{TextWarning.list_examples(found)} ({f'{unit}s ' if by_line else ''}{places}{more})"
    return f"{len(found):,}{of} {found[0].problem}{where}; {found[0].remedy}".rstrip("; ")


@contextmanager
def collect_text_warnings() -> Iterator[list[TextWarning]]:
    """Collect the warnings about texts in this context, which are not issued."""
    found: list[TextWarning] = []
    token = _collected.set(found)
    try:
        yield found
    finally:
        _collected.reset(token)


@contextmanager
def one_warning_per_problem() -> Iterator[None]:
    """Collect the warnings about texts in this context, and issue one for each problem at its end.

    Those of other threads and coroutines with a copy of the context are collected, too.
    """
    if _collected.get() is not None:  # by an outer call
        yield
        return
    found: list[TextWarning] = []
    token = _collected.set(found)
    try:
        yield
    finally:
        _collected.reset(token)
    problems: dict[tuple[str, str], list[TextWarning]] = {}
    for one in found:
        problems.setdefault((one.unit, one.problem), []).append(one)
    for some in problems.values():
        warn(_combine(some))


def _combine(found: Sequence[TextWarning]) -> TextWarning:
    if len(found) == 1:
        return found[0]
    combined = type(found[0]).__new__(type(found[0]))
    combined.__dict__.update(found[0].__dict__, parts=tuple(found))
    combined.args = (summarize(found),)
    return combined


def _argument(unit: str, number: int) -> str:
    """Return the place of a text, numbered from 1, in the arguments of a call, where places are numbered from 0."""
    place = _ARGUMENTS.get(unit)
    return f"{unit} {number}" if place is None else place.format(number - 1)


def _code_points(text: str) -> str:
    return "".join(f"U+{ord(character):04X}" for character in text)


def warn(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Issue a warning at the calling line outside of this package, every time; a warning has its own category.

    `warnings.warn` repeats no warning of a line, but each line of a file may have its own. Inside of
    `one_warning_per_problem` a warning about a text is collected.
    """
    collected = _collected.get()
    if collected is not None and isinstance(message, TextWarning):
        collected.append(message)
        return
    frame: FrameType = sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _PASSED:
        frame = frame.f_back
    where = frame.f_globals.get("__name__", "")
    warnings.warn_explicit(message, category, frame.f_code.co_filename, frame.f_lineno, module=where)
