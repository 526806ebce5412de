"""What a verb reads and writes: files by name, or standard input and output for `-`."""

from __future__ import annotations

import io
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from dragoman.data.readers import Repairs

STANDARD = "-"
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
T = TypeVar("T")


def read_lines(name: str, repairs: Repairs) -> Iterator[str]:
    """The texts of a file, plain or compressed, or of standard input, one a line. Raises DataError, naming the line."""
    from dragoman.data.readers import lines, lines_of

    if name == STANDARD:
        numbered = lines_of(sys.stdin.buffer, Path("standard input"), repairs)
    else:
        numbered = lines(Path(name), repairs)
    return (text for _, text in numbered)


def with_trees(
    texts: Iterable[T], trees: Path | None, *, of: Callable[[T], str], name: str
) -> tuple[Iterable[T], Iterator[Sequence[int]] | None]:
    """The texts, and beside them the trees of what is `of` each, from a CoNLL-U file where there is one.

    They are to be read in turns. Raises DataError where the file is about other texts, which messages call `name`.
    """
    if trees is None:
        return texts, None
    from itertools import tee

    from dragoman.data.readers.conllu import trees_beside

    texts, again = tee(texts)
    return texts, trees_beside(map(of, again), trees, name="standard input" if name == STANDARD else name)


def read_all(name: str) -> list[str]:
    """All texts of a file or of standard input; repairs are reported. Raises DataError, on an empty file too."""
    from dragoman.data.readers import Repairs
    from dragoman.errors import DataError

    repairs = Repairs()
    texts = list(read_lines(name, repairs))
    report_repairs(repairs)
    if not texts:
        raise DataError(f"{name}: is empty; give a file with a text on each line")
    return texts


@contextmanager
def output(name: str) -> Iterator[TextIO]:
    """A stream to write to, UTF-8 with line feeds; a file is there whole when the block ends, or not at all.

    What is printed is there line by line, for who reads it while more is coming.
    """
    if name != STANDARD:
        from dragoman.atomic import new_text_file

        with new_text_file(Path(name)) as file:
            yield file
        return
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", newline="\n", line_buffering=True)
    yield sys.stdout
    sys.stdout.flush()


def number_of_lines(name: str) -> int | None:
    """How many lines there are to come, where that is known without reading twice what cannot be: of plain files."""
    path = Path(name)
    if name == STANDARD or not path.is_file() or path.suffix in COMPRESSED:
        return None
    lines, last = 0, b"\n"
    with path.open("rb") as file:
        for block in iter(lambda: file.read(2**20), b""):
            lines, last = lines + block.count(b"\n"), block[-1:]
    return lines + (last != b"\n")


def counted(items: Iterable[str], label: str, *, out: str, total: int | None = None) -> Generator[str, None, None]:
    """The items, their number and rate shown on standard error where a person watches and the output goes elsewhere.

    With their `total`, the time left is shown too.
    """
    if not sys.stderr.isatty() or (out == STANDARD and sys.stdout.isatty()):
        yield from items
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    known = "" if total is None else f" of {total:,}"
    columns = [SpinnerColumn(), TextColumn(f"{{task.completed:,.0f}}{known} {label}"), TimeElapsedColumn()]
    columns += [TextColumn(f"{{task.fields[rate]:,.1f}} {label}/s")]
    columns += [] if total is None else [TextColumn("left:"), TimeRemainingColumn()]
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=total, rate=0.0)
        begun = time.monotonic()
        for number, item in enumerate(items, start=1):
            yield item
            progress.update(task, advance=1, rate=number / max(time.monotonic() - begun, 1e-9))


def say(message: str) -> None:
    """A message for the person, on standard error."""
    print(f"dragoman: {message}", file=sys.stderr)


def report_repairs(repairs: Repairs) -> None:
    """Say what was mended while reading; blank lines are kept, and need no word."""
    from dragoman.data.readers import Repairs

    mended = {key: count for key, count in repairs.found.items() if key[1] != "blank"}
    for sentence in Repairs(mended).sentences():
        say(sentence)
