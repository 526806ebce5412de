"""Input and output of a verb: files by name, or standard input and output for `-`."""

from __future__ import annotations

import io
import json
import sys
import time
from contextlib import closing, contextmanager
from itertools import groupby, islice, tee, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO, TypeVar

from dragoman.atomic_files import new_text_file
from dragoman.cli import messages
from dragoman.cli.live_input import LiveLines, standard_input
from dragoman.cli.options import flag, refuse
from dragoman.cli.signals import SIGNALED
from dragoman.data.readers import line_reader
from dragoman.data.readers.conllu import read_heads
from dragoman.data.readers.line_reader import ReadWarnings
from dragoman.errors import ConfigError, DataError, StoppedError
from dragoman.number_words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from dragoman.data.readers.parallel import Example

STANDARD = "-"
LINE_BREAKS = {ord("\n"): " ", ord("\r"): " "}
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
_T = TypeVar("_T")


def read_input(name: str, warnings: ReadWarnings, *, columns: bool = False) -> Iterator[str]:
    """Read the lines of a file, plain or compressed, or of standard input. Raises DataError with the line number.

    Several columns give a warning, unless the caller expects `columns`. Results of the lines from a pipe are printed
    whenever it pauses.
    """
    place = "standard input" if name == STANDARD else name
    if name == STANDARD:
        stream = standard_input()
        numbered = line_reader.read_stream_lines(stream, Path(place), warnings)
        if is_typed(name):
            return (text for _, text in _prompt(numbered))
    else:
        line_reader.refuse_other_formats(Path(name))
        stream, numbered = None, line_reader.read_lines(Path(name), warnings)
    lines = (text for _, text in numbered)
    return LiveLines(lines if columns else _warn_of_columns(lines, place), stream)


def _warn_of_columns(lines: Iterator[str], name: str) -> Iterator[str]:
    """Yield the lines; warn if the first ones have several columns."""
    first = []
    for line in islice(lines, line_reader.SAMPLE):
        first.append(line)
        yield line
    if note := line_reader.tabs_note(name, first):
        messages.show_warning(f"{note}; cut -f1 gives the first column")
    yield from lines


def read_given(texts: Sequence[str] | None, name: str, warnings: ReadWarnings) -> Iterable[str]:
    """Return the texts of the command line, or else the lines of an input. Raises ConfigError if both are given."""
    if texts and name != STANDARD:
        raise ConfigError(f"--text and --input {name} both give texts. Leave one of them out.")
    return map(one_line, texts) if texts else read_input(name, warnings)


def one_line(text: str) -> str:
    """Return a text as one line, so that output lines stay aligned with input lines."""
    return text.translate(LINE_BREAKS)


def _prompt(lines: Iterator[_T]) -> Iterator[_T]:
    """Yield lines that are typed on a terminal, each after a prompt on standard error."""
    messages.say("type a text and press Enter; Ctrl-D ends")
    while True:
        if not messages.is_quiet():
            print("> ", end="", file=sys.stderr, flush=True)
        if (line := next(lines, None)) is None:
            break
        yield line


def read_all(
    name: str, *, expected: int | None = None, columns: bool = False, fingerprints: dict[str, str] | None = None
) -> list[str]:
    """Read all lines of a file or of standard input and report repairs. Raises DataError, also on an empty file.

    A file without lines is compared with `expected`, the number of lines that it should have. `fingerprints` receives
    the SHA-256 of a file, by path.
    """
    warnings = ReadWarnings(fingerprints={} if fingerprints is None else fingerprints)
    texts = list(read_input(name, warnings, columns=columns))
    report_repairs(warnings)
    if not texts:
        lines = "" if expected is None else f", and {counted(expected, 'lines are', 'line is')} expected"
        raise DataError(f"{name}: is empty{lines}. Give a file with one text per line.")
    return texts


def read_pairs(name: str, *, fingerprints: dict[str, str] | None = None) -> tuple[list[str], list[str]]:
    """Read the sources and references of a test set in one file, and report repairs. Raises DataError.

    `fingerprints` receives the SHA-256 of the file, by path.
    """
    warnings = ReadWarnings(fingerprints={} if fingerprints is None else fingerprints)
    pairs = list(stream_pairs(None, None, name, warnings, sides=("source", "reference")))
    report_repairs(warnings)
    if not pairs:
        raise DataError(f"{name}: is empty. Give a file with one pair per line.")
    return [source for source, _ in pairs], [target for _, target in pairs]


def read_test_set(name: str, *, fingerprints: dict[str, str]) -> tuple[list[str], list[list[str]]]:
    """Read the sources of a test set in one file, and all references of each, and report repairs. Raises DataError.

    `references[k][i]` is reference `k` of source `i`; a missing one is an empty string, which never scores best.
    `fingerprints` receives the SHA-256 of the file, by path.
    """
    warnings = ReadWarnings(fingerprints=fingerprints)
    examples = list(_stream_examples(None, None, name, warnings, sides=("source", "reference")))
    report_repairs(warnings)
    if not examples:
        raise DataError(f"{name}: is empty. Give a file with one pair per line.")
    groups = [list(group) for _, group in groupby(examples, key=lambda one: one.line)]
    columns = zip_longest(*([one.target for one in group] for group in groups), fillvalue="")
    return [group[0].source for group in groups], [list(column) for column in columns]


def stream_pairs(
    source: Path | None, target: Path | None, pairs: str | None, warnings: ReadWarnings, *, sides: tuple[str, str]
) -> Iterator[tuple[str, str]]:
    """Read sources and targets as `_stream_examples` does."""
    examples = _stream_examples(source, target, pairs, warnings, sides=sides)
    return ((example.source, example.target) for example in examples)


def _stream_examples(
    source: Path | None, target: Path | None, pairs: str | None, warnings: ReadWarnings, *, sides: tuple[str, str]
) -> Iterator[Example]:
    """Read sources and targets from two files or, recognized by its content, from one; notes say what is read.

    Files are read twice, to report an error before the first pair, and streams once.

    `sides` are the parameters for two files, which messages name. Raises DataError, and ConfigError unless there are
    two files or one.
    """
    from dragoman.data.readers.parallel import ParallelCorpus, ParallelFiles, read_corpus
    from dragoman.data.readers.recognize_format import corpus_notes, recognize_pairs

    if pairs is not None:
        refuse(dict(zip(sides, (source, target), strict=True)), "with --pairs, which contains both sides")
        corpus: ParallelCorpus = recognize_pairs(Path(pairs), options=(flag(sides[0]), flag(sides[1])))
    elif source is None or target is None:
        missing, both = flag(sides[source is not None]), " and ".join(map(flag, sides))
        raise ConfigError(f"{missing} is missing. Give {both}, or --pairs FILE with both sides.")
    else:
        corpus = ParallelFiles(source=source, target=target)
    if pairs is not None or all(path.is_file() for path in (source, target) if path):
        for note in corpus_notes(corpus):
            messages.say(f"note: {note}")
        first = ReadWarnings(fingerprints=warnings.fingerprints)
        for _ in read_corpus(corpus, first):  # so that an error comes before the first result
            pass
    return read_corpus(corpus, warnings)


def with_source_features(
    items: Iterable[_T], path: Path | None, *, text_of: Callable[[_T], str], name: str
) -> tuple[Iterable[_T], Iterator[Sequence[int]] | None]:
    """Pair items with the dependency heads of their texts from a CoNLL-U file; the caller reads both alternately.

    Raises DataError if the file belongs to another text than `name`.
    """
    if path is None:
        return items, None
    paired, again = tee(items)
    heads = read_heads(map(text_of, again), path, name="standard input" if name == STANDARD else name)
    return LiveLines(paired, items), heads


def is_typed(name: str | None) -> bool:
    """Return whether the input is typed on a terminal, where each line is answered at once."""
    return name == STANDARD and sys.stdin.isatty()


@contextmanager
def open_output(name: str) -> Iterator[TextIO]:
    """Open a UTF-8 output: a file, written atomically, or standard output, flushed after each line."""
    if name != STANDARD:
        with new_text_file(Path(name)) as file:
            yield file
        return
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", newline="\n", line_buffering=True)
    yield sys.stdout
    sys.stdout.flush()


def write_lines(
    lines: Iterable[str], output: str, warnings: ReadWarnings, *, unit: str = "lines", total: int | None = None
) -> None:
    """Write lines to the output as they come, with the progress on a terminal; then report the repairs."""
    replaced = output != STANDARD and Path(output).is_file()
    with closing(with_progress(lines, unit, output=output, total=total)) as shown, open_output(output) as stream:
        count = 0
        try:
            for line in shown:
                stream.write(line + "\n")
                count += 1
        except (KeyboardInterrupt, SystemExit) as stop:
            if output == STANDARD:
                raise
            raise _stopped(stop, f"Stopped after {_keep_written(stream, Path(output), count, unit)}") from stop
    messages.summarize_warnings(count)
    report_repairs(warnings)
    if output != STANDARD:
        messages.say(f"{output}: {counted(count, unit)}{', which replaced the former file' if replaced else ''}")


def _keep_written(stream: TextIO, output: Path, count: int, unit: str) -> str:
    """Keep the lines written so far in a file of their own, which replaces no other, and describe what is where."""
    stream.flush()
    written, kept = Path(stream.name), output.with_name(f"{output.name}.partial")
    unchanged = f"{output} is {'unchanged' if output.exists() else 'not written'}"
    if not count or kept.exists() or not written.is_file() or written == output:
        return f"{counted(count, unit)}; {unchanged}."
    written.rename(kept)
    return f"{counted(count, unit)}, kept in {kept}; {unchanged}."


def _stopped(stop: BaseException, message: str) -> StoppedError:
    """Return the error for Ctrl-C, or for the exit that another signal requests."""
    error = StoppedError(message)
    if isinstance(stop, SystemExit) and isinstance(stop.code, int):
        error.signal_number = stop.code - SIGNALED
    return error


@contextmanager
def read_with_progress(name: str, *, output: Path) -> Iterator[Iterator[str]]:
    """Provide the lines of an input, with the progress on a terminal; then report the repairs."""
    warnings = ReadWarnings()
    lines = with_progress(
        _not_empty(read_input(name, warnings), name), "lines", output=str(output), total=count_lines(name)
    )
    try:
        with closing(lines):
            yield lines
    except (KeyboardInterrupt, SystemExit) as stop:
        raise _stopped(stop, f"Stopped; {output} is not written.") from stop
    report_repairs(warnings)


def _not_empty(lines: Iterator[str], name: str) -> Iterator[str]:
    """Yield the lines of an input. Raises DataError if there are none."""
    first = next(lines, None)
    if first is None:
        raise DataError(f"{name}: is empty. Give a file with one text per line.")
    yield first
    yield from lines


class Result(Protocol):
    """Result of a model with its record."""

    def to_dict(self) -> dict[str, Any]:
        """Return the record."""
        ...


def json_lines(results: Iterable[Result]) -> Iterator[str]:
    """Format the record of each result as a JSON object with its line number, from 1."""
    return json_records(one.to_dict() for one in results)


def json_records(records: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Format each record as a JSON object with its line number, from 1."""
    return (json_record(number, record) for number, record in enumerate(records, 1))


def json_record(number: int, record: dict[str, Any]) -> str:
    """Format a record as a JSON object with the number of its line, from 1."""
    return json.dumps({"line": number, **record}, ensure_ascii=False)


def count_lines(name: str) -> int | None:
    """Count the lines of an uncompressed file; None for standard input and compressed files."""
    path = Path(name)
    if name == STANDARD or not path.is_file() or path.suffix in COMPRESSED:
        return None
    lines, last = 0, b"\n"
    with path.open("rb") as file:
        for block in iter(lambda: file.read(2**20), b""):
            lines, last = lines + block.count(b"\n"), block[-1:]
    return lines + (last != b"\n")


def with_progress(
    items: Iterable[_T], unit: str, *, output: str, total: int | None = None
) -> Generator[_T, None, None]:
    """Yield the items and show count, rate and (with `total`) remaining time on standard error.

    Shows nothing unless standard error is a terminal that does not receive the output.
    """
    if messages.is_quiet() or not sys.stderr.isatty() or (output == STANDARD and sys.stdout.isatty()):
        yield from items
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from dragoman.cli.table_output import PlainConsole

    known = "" if total is None else f" of {total:,}"
    columns = [SpinnerColumn(), TextColumn(f"{{task.completed:,.0f}}{known} {unit}", markup=False), TimeElapsedColumn()]
    columns += [TextColumn(f"{{task.fields[rate]:,.1f}} {unit}/s")]
    columns += [] if total is None else [TextColumn("left:"), TimeRemainingColumn()]
    with Progress(*columns, console=PlainConsole(stderr=True), transient=True) as progress:
        task = progress.add_task(unit, total=total, rate=0.0)
        started = time.monotonic()
        for number, item in enumerate(items, start=1):
            yield item
            progress.update(task, advance=1, rate=number / max(time.monotonic() - started, 1e-9))


def report_repairs(warnings: ReadWarnings) -> None:
    """Print the repairs made while reading; empty lines are kept and not reported."""
    for message in warnings.messages(blank=False):
        messages.say(message)
