"""Recognition of the format of a corpus by its content: tab-separated columns, JSON objects, Parquet or plain text."""

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from dragoman.data.readers.line_reader import open_binary, read_lines
from dragoman.data.readers.parallel import (
    ParallelJsonl,
    ParallelParquet,
    ParallelTsv,
    parquet_text_columns,
    resolve_files,
)
from dragoman.data.readers.plain_text import TextFile, TextJsonl
from dragoman.errors import DataError

ParallelFormat = ParallelTsv | ParallelJsonl | ParallelParquet
TextFormat = TextFile | TextJsonl

SIDE_NAMES = (("source", "target"), ("src", "tgt"), ("src", "trg"))
"""Names of the two sides in JSON objects, Parquet columns and header lines."""
SIDE_OPTIONS = ("--source", "--target")
"""Options for a corpus in two files."""
_LANGUAGE = re.compile(r"[a-z]{2,3}([-_][A-Za-z]{2,4})?")
_SAMPLE = 100
"""Lines that are read to find the columns with text."""
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
_SETTINGS = re.compile(r"""\s*(["']?[\w.-]+["']?\s*:(\s|$)|[{#%]|---)""")
"""Beginning of a configuration file: a key, a brace, a comment or a YAML directive."""


def recognize_corpus(path: Path, *, options: tuple[str, str] = SIDE_OPTIONS) -> ParallelFormat | TextFormat | None:
    """Return the format of the first file of a corpus, or None for a configuration file.

    Raises DataError where no file matches, a file is unreadable or of another format, or the two sides cannot be told;
    it names the `options` for two files.
    """
    first = resolve_files(path)[0]
    ending = _ending(first)
    if ending in (".yaml", ".yml"):
        return None
    with open_binary(first) as stream:
        if stream.read(4) == b"PAR1":
            source, target = _choose_sides(parquet_text_columns(first), first, "columns")
            return ParallelParquet(path=path, source_column=source, target_column=target)
    lines = [line for _, line in islice(read_lines(first), _SAMPLE) if line.strip()]
    if lines and (row := _parse_row(lines[0])) is not None:
        return _recognize_objects(path, row)
    if ending == ".tsv" or any("\t" in line for line in lines[:1]):
        return _recognize_columns(path, [line.split("\t") for line in lines])
    if ending == ".txt":
        return TextFile(path=path)
    if ending == ".csv" or (lines and not _SETTINGS.match(lines[0])):
        raise _unknown_format(path, ending, lines, options)
    return None


def recognize_pairs(path: Path, *, options: tuple[str, str] = SIDE_OPTIONS) -> ParallelFormat:
    """Return the format of a parallel corpus. Raises DataError, which names the `options` for two files, for others."""
    found = recognize_corpus(path, options=options)
    if not isinstance(found, ParallelFormat):
        raise _unknown_format(path, _ending(path), [], options)
    return found


def recognize_text(path: Path) -> TextFormat:
    """Return the format of a text: JSON lines with the field `text`, or else plain text."""
    with suppress(DataError):  # a text may contain anything; the reader reports unreadable files
        found = recognize_corpus(path)
        if isinstance(found, TextJsonl):
            return found
    return TextFile(path=path)


def _unknown_format(path: Path, ending: str, lines: Sequence[str], options: tuple[str, str]) -> DataError:
    """Return the error for a file that contains no sentence pairs in a known format."""
    if ending == ".csv":
        return DataError(
            f"{path}: comma- or semicolon-separated columns are not read. Save it as tab-separated text (TSV)."
        )
    if ending in (".tmx", ".xml", ".xlf", ".xliff") or any(line.lstrip().startswith("<?xml") for line in lines[:1]):
        return DataError(f"{path}: TMX and other XML files are not read. Export it as tab-separated text (TSV).")
    return DataError(
        f"{path}: is not a file of sentence pairs: neither columns separated by tabs, nor JSON lines, nor Parquet. "
        f"Give two text files with {' and '.join(options)}."
    )


def _ending(path: Path) -> str:
    """Return the ending of a file name without that of its compression."""
    return (path.with_suffix("") if path.suffix in _COMPRESSED else path).suffix.lower()


def _parse_row(line: str) -> dict[str, Any] | None:
    """Return the JSON object of a line; None for other text, and for settings, which contain objects."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) and not any(isinstance(one, dict) for one in row.values()) else None


def _recognize_objects(path: Path, row: dict[str, Any]) -> ParallelJsonl | TextJsonl:
    fields = [name for name, value in row.items() if isinstance(value, str | list)]
    if "text" in fields and not any({*names} <= {*fields} for names in SIDE_NAMES):
        return TextJsonl(path=path)
    source, target = _choose_sides(fields, path, "fields")
    return ParallelJsonl(path=path, source_field=source, target_field=target)


def _recognize_columns(path: Path, rows: Sequence[Sequence[str]]) -> ParallelTsv:
    """Return the first two columns that contain letters, and whether the first row names them."""
    width = min((len(row) for row in rows), default=0)
    textual = [place for place in range(width) if any(any(map(str.isalpha, row[place])) for row in rows)]
    first, second = textual[:2] if len(textual) >= 2 else (0, 1)
    header = width > 1 and _is_header(rows[0][first], rows[0][second])
    return ParallelTsv(path=path, source_column=first + 1, target_column=second + 1, header=header)


def _is_header(source: str, target: str) -> bool:
    names = (source.strip().lower(), target.strip().lower())
    are_languages = all(_LANGUAGE.fullmatch(one.strip()) for one in (source, target)) and source != target
    return names in SIDE_NAMES or are_languages


def _choose_sides(names: Sequence[str], path: Path, what: str) -> tuple[str, str]:
    """Return the names of source and target: known ones, or the only two."""
    for sides in SIDE_NAMES:
        if {*sides} <= {*names}:
            return sides
    if len(names) == 2:
        return names[0], names[1]
    raise DataError(
        f"{path}: source and target cannot be told among the {what} {', '.join(names) or '(none)'}. Name them source "
        "and target, or name the corpus under data.train of a configuration file."
    )
