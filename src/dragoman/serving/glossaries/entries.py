"""Entries of a stored glossary as text: tab-separated or comma-separated values, in the rules of DeepL.

Source: https://developers.deepl.com/api-reference/multilingual-glossaries, "Glossary formats".
"""

import csv
import io
import unicodedata
from collections.abc import Iterator
from typing import Literal

from dragoman.serving.http.errors import RequestError, invalid

Entry = tuple[str, str]
EntriesFormat = Literal["tsv", "csv"]
MAX_TERM_BYTES = 1024
"""Bytes of a term in UTF-8."""
_PARAMETER = "entries"


def read_entries(text: str, entries_format: EntriesFormat, pair: tuple[str, str]) -> tuple[Entry, ...]:
    """Return the entries of a text, source term and target term.

    Rows of CSV may name the language pair in their third and fourth column. Raises RequestError with the number of the
    first invalid row: terms may not be empty, longer than 1024 bytes or contain control characters, and no source term
    may occur twice.
    """
    rows = _tsv_rows(text) if entries_format == "tsv" else _csv_rows(text)
    entries: dict[str, str] = {}
    for number, row in rows:
        if len(row) == 4 and entries_format == "csv":
            _check_pair(number, row, pair)
        elif len(row) != 2:
            raise _invalid_row(number, f"has {len(row)} columns. Give a source term and a target term")
        source, target = (_read_term(number, one) for one in row[:2])
        if source in entries:
            raise _invalid_row(number, f"has the source term {source!r:.60} a second time. Remove one of both")
        entries[source] = target
    if not entries:
        raise invalid("Invalid glossary: there are no entries.", _PARAMETER)
    return tuple(entries.items())


def write_tsv(entries: tuple[Entry, ...]) -> str:
    """Return entries as tab-separated values."""
    return "\n".join(f"{source}\t{target}" for source, target in entries)


def _tsv_rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the columns of each row. Other line breaks than these are control characters of a term."""
    lines = text.replace("\r\n", "\n").split("\n")
    yield from ((number, line.split("\t")) for number, line in enumerate(lines, start=1) if line.strip())


def _csv_rows(text: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        yield from ((reader.line_num, row) for row in reader if row)
    except csv.Error as error:
        raise _invalid_row(reader.line_num, f"is not valid CSV ({error})") from error


def _read_term(number: int, text: str) -> str:
    term = text.strip()
    if not term:
        raise _invalid_row(number, "has an empty term")
    if len(term.encode("utf-8", "surrogatepass")) > MAX_TERM_BYTES:
        raise _invalid_row(number, f"has a term of more than {MAX_TERM_BYTES} bytes. Shorten it")
    if any(unicodedata.category(one) in ("Cc", "Cs", "Zl", "Zp") for one in term):
        raise _invalid_row(number, "has a control character in a term. Remove it")
    return term


def _check_pair(number: int, row: list[str], pair: tuple[str, str]) -> None:
    given = tuple(code.strip().partition("-")[0].casefold() for code in row[2:])
    if given != tuple(code.partition("-")[0].casefold() for code in pair):
        raise _invalid_row(
            number, f"is for the language pair {row[2]!r:.12} to {row[3]!r:.12}, not {' to '.join(pair)}"
        )


def _invalid_row(number: int, problem: str) -> RequestError:
    return invalid(f"Invalid glossary: row {number} {problem}.", _PARAMETER)
