"""Input and output of a verb: files by name, or standard input and output for `-`."""

from __future__ import annotations

import io
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from dragoman.data.readers.text_lines import ReadWarnings

STANDARD = "-"
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
T = TypeVar("T")


def read_lines(name: str, repairs: ReadWarnings) -> Iterator[str]:
    """Read the lines of a file, plain or compressed, or of standard input. Raises DataError with the line number."""
    from dragoman.data.readers.text_lines import read_lines, read_stream_lines

    if name == STANDARD:
        numbered = read_stream_lines(sys.stdin.buffer, Path("standard input"), repairs)
    else:
        numbered = read_lines(Path(name), repairs)
    return (text for _, text in numbered)


def with_trees(
    texts: Iterable[T], trees: Path | None, *, of: Callable[[T], str], name: str
) -> tuple[Iterable[T], Iterator[Sequence[int]] | None]:
    """Pair texts with their dependency trees from a CoNLL-U file; `of` gives the text of an item.

    They are to be read in turns. Raises DataError where the file is about other texts, which messages call `name`.
    """
    if trees is None:
        return texts, None
    from itertools import tee

    from dragoman.data.readers.conllu import read_heads

    texts, again = tee(texts)
    return texts, read_heads(map(of, again), trees, name="standard input" if name == STANDARD else name)


def read_all(name: str) -> list[str]:
    """Read all lines of a file or of standard input and report repairs. Raises DataError, also on an empty file."""
    from dragoman.data.readers.text_lines import ReadWarnings
    from dragoman.errors import DataError

    repairs = ReadWarnings()
    texts = list(read_lines(name, repairs))
    report_repairs(repairs)
    if not texts:
        raise DataError(f"{name}: is empty; give a file with a text on each line")
    return texts


@contextmanager
def output(name: str) -> Iterator[TextIO]:
    """Open a UTF-8 stream for the output; a file is written atomically.

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
    """Count the lines of an uncompressed file; None for standard input and compressed files."""
    path = Path(name)
    if name == STANDARD or not path.is_file() or path.suffix in COMPRESSED:
        return None
    lines, last = 0, b"\n"
    with path.open("rb") as file:
        for block in iter(lambda: file.read(2**20), b""):
            lines, last = lines + block.count(b"\n"), block[-1:]
    return lines + (last != b"\n")


def counted(items: Iterable[str], label: str, *, out: str, total: int | None = None) -> Generator[str, None, None]:
    """Yield the items and show count and rate on standard error, where it is a terminal and the output is not.

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
    """Print a message to standard error."""
    print(f"dragoman: {message}", file=sys.stderr)


def report_repairs(repairs: ReadWarnings) -> None:
    """Print the repairs made while reading, except empty lines, which are kept."""
    from dragoman.data.readers.text_lines import ReadWarnings

    mended = {key: count for key, count in repairs.found.items() if key[1] != "blank"}
    for sentence in ReadWarnings(mended).messages():
        say(sentence)
