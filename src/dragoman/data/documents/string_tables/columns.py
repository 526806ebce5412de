"""Columns of a table, separated by commas, semicolons or tabs: one column is translated into another, or in place."""

import re
from collections.abc import Iterator, Sequence

from dragoman.data.documents.document import Unit, UnitTranslation
from dragoman.data.documents.text_edits import (
    Edit,
    EditedDocument,
    Entry,
    LineNumbers,
    decode_text,
    replaced,
    single,
)
from dragoman.errors import DataError

_SOURCES = ("source", "src", "msgid", "text", "string", "value", "english")
_TARGETS = ("target", "tgt", "translation", "translated", "msgstr")
_NOTES = ("comment", "comments", "note", "notes", "description", "context", "developer_comments")
_KEYS = ("key", "id", "name", "location", "identifier")


class _Cell:
    """Value of a cell and its place."""

    __slots__ = ("end", "start", "value")

    def __init__(self, value: str, start: int, end: int) -> None:
        self.value, self.start, self.end = value, start, end


def open_columns(content: bytes, name: str, source_language: str | None, target_language: str | None) -> EditedDocument:
    """Read a table whose first line names the columns: `source` and `target`, or the codes of the two languages.

    Without a column for the target, translations replace the sources. Raises DataError if no column is the source.
    """
    file = decode_text(content, name)
    head = file.text[: file.text.find("\n") + 1] or file.text
    separator = max("\t,;", key=head.count)
    rows = list(_rows(file.text, separator, name))
    names = [cell.value.strip().lower() for cell in rows[0]] if rows else []
    sources = [source_language.lower()] if source_language else []
    source = _column(names, (*sources, *_SOURCES))
    if source is None and len(names) == 2 and _column(names, _KEYS) == 0:
        source = 1
    if source is None:
        raise DataError(
            f"{name}: no column is the source among {', '.join(names) or '(none)'}. Name the column of the source "
            "`source` in the first line, and the one of the translation `target`."
        )
    target = _column(names, (*([target_language.lower()] if target_language else []), *_TARGETS))
    lines, places = LineNumbers(file.text), (source, target, _column(names, _KEYS), _column(names, _NOTES))
    entries = [_entry(row, places, separator, lines.at(row[0].start)) for row in rows[1:] if _has_text(row, source)]
    return EditedDocument("csv", file, entries)


def _column(names: Sequence[str], wanted: Sequence[str]) -> int | None:
    return next((names.index(one) for one in wanted if one in names), None)


def _has_text(row: Sequence[_Cell], source: int) -> bool:
    return len(row) > source and bool(row[source].value.strip())


def _rows(text: str, separator: str, name: str) -> Iterator[list[_Cell]]:
    """Yield the rows of a table as RFC 4180 writes it; quotation marks have no special meaning between tabs."""
    quoted_cell = r'"((?:[^"]|"")*)"' if separator != "\t" else "(?!)()"
    plain_cell = rf"([^{separator}\r\n]*)" if separator == "\t" else rf'((?!")[^{separator}\r\n]*)'
    cell = re.compile(rf"(?:{quoted_cell}|{plain_cell})({separator}|\r\n|\n|\r|\Z)")
    row: list[_Cell] = []
    place = 0
    while place < len(text) or row:
        found = cell.match(text, place)
        if found is None:
            line = LineNumbers(text).at(place)
            problem = "a quotation mark is not closed, or text follows it"
            raise DataError(f"{name}, line {line}: {problem}. Check the cell, or export the table again.")
        quoted, plain, end = found.groups()
        value = plain if quoted is None else quoted.replace('""', '"')
        row.append(_Cell(value, found.start(), found.start(3)))
        place = found.end()
        if end != separator:
            yield row
            row = []


def _entry(
    row: Sequence[_Cell], places: tuple[int, int | None, int | None, int | None], separator: str, line: int
) -> Entry:
    source, target, key, notes = (row[place] if place is not None and place < len(row) else None for place in places)
    assert source is not None
    unit = Unit(
        source=source.value,
        target=(target.value if target is not None else "") if places[1] is not None else None,
        state="translated" if target is not None and target.value.strip() else "untranslated",
        key=key.value if key is not None else "",
        notes=notes.value if notes is not None else "",
        line=line,
    )

    def quote(text: str) -> str:
        if separator == "\t":
            return re.sub(r"[\t\r\n]+", " ", text)
        needs = separator in text or '"' in text or "\n" in text or "\r" in text or text != text.strip()
        return '"' + text.replace('"', '""') + '"' if needs else text

    if places[1] is None:
        return replaced(unit, source.start, source.end, quote)

    def write(new: UnitTranslation) -> Iterator[Edit]:
        if target is not None and new.text != target.value:
            yield Edit(target.start, target.end, quote(new.text))
        elif target is None:  # a short row
            missing = (places[1] or 0) - len(row) + 1
            yield Edit(row[-1].end, row[-1].end, separator * missing + quote(new.text))

    return single(unit, write)
