"""Glossary files: TSV and CSV with columns, and TBX.

The first line of a table may name its columns: `source`, `target`, and if needed `forbidden`, `case`, `note`,
`source_language` and `target_language`. Without names, the columns are source and target, and in CSV files with four
columns also the languages, as in the files of DeepL. The bar `|` separates forms.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, assert_never, final, get_args

from dragoman.data.terminology.glossary import CaseRule, Glossary, Term, join_forms
from dragoman.errors import DataError, nearest, shorten_text
from dragoman.untrusted_files import MEBIBYTE, FileKind

GlossaryFormat = Literal["tsv", "csv", "tbx"]
FILE = FileKind(64 * MEBIBYTE, "give a smaller glossary", is_user_file=True)
_CASE_RULES: tuple[CaseRule, ...] = get_args(CaseRule)
_COLUMNS = ("source", "target", "forbidden", "case", "note", "source_language", "target_language")
_SYNONYMS = {
    "src": "source",
    "tgt": "target",
    "translation": "target",
    "comment": "note",
    "source_lang": "source_language",
    "target_lang": "target_language",
}
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*")
_ENDINGS: dict[str, GlossaryFormat] = {
    ".tsv": "tsv",
    ".tab": "tsv",
    ".txt": "tsv",
    ".csv": "csv",
    ".tbx": "tbx",
    ".xml": "tbx",
}


@final
@dataclass(frozen=True, slots=True)
class _Row:
    """Cells of a line, by column."""

    where: str
    cells: dict[str, str]


def read_glossary(
    path: Path | str,
    *,
    format_: GlossaryFormat | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
) -> Glossary:
    """Read a glossary from a file; its ending tells the format unless it is given.

    Of a file with several languages, the terms of the given ones are read. Raises DataError, which names the file and
    the line, if the file is unreadable.
    """
    path = Path(path)
    chosen = format_ or _ENDINGS.get(path.suffix.lower())
    if chosen is None:
        raise DataError(f"{path}: its ending does not tell its format. Give a file .tsv, .csv or .tbx.")
    content = FILE.read_bytes(path)
    return parse_glossary(
        content, chosen, name=str(path), source_language=source_language, target_language=target_language
    )


def parse_glossary(
    content: str | bytes,
    format_: GlossaryFormat,
    *,
    name: str = "glossary",
    source_language: str | None = None,
    target_language: str | None = None,
) -> Glossary:
    """Return the glossary of the content of a file; messages name it by `name`, as for a glossary in a request."""
    languages = source_language, target_language
    match format_:
        case "tbx":
            from dragoman.data.terminology.tbx import parse_tbx

            return parse_tbx(content.encode() if isinstance(content, str) else content, languages, name=name)
        case "tsv":
            rows = _tsv_rows(_decode(content, name), name)
        case "csv":
            rows = _csv_rows(_decode(content, name), name)
        case _:
            assert_never(format_)
    return _from_rows(rows, languages, name)


def write_tsv(glossary: Glossary) -> str:
    """Return the text of a TSV file with a line of column names, which `parse_glossary` reads."""
    rows: list[tuple[str, ...]] = [_COLUMNS[:5]]
    for term in glossary.terms:
        forms = (term.sources, term.targets, term.forbidden)
        rows.append((*map(join_forms, forms), term.case, " ".join(term.note.split())))
    return "".join("\t".join(row) + "\n" for row in rows)


def _decode(content: str | bytes, name: str) -> str:
    try:
        text = content if isinstance(content, str) else content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{name}: not UTF-8 ({error.reason} at byte {error.start}). Save it as UTF-8.") from error
    return text.removeprefix("\ufeff")


def _tsv_rows(text: str, name: str) -> Iterator[tuple[str, list[str]]]:
    for number, line in enumerate(re.split("\r\n|\n|\r", text), start=1):
        if line.strip():
            yield f"{name}, line {number}", [cell.strip() for cell in line.split("\t")]


def _csv_rows(text: str, name: str) -> Iterator[tuple[str, list[str]]]:
    first = text.split("\n", 1)[0]
    delimiter = ";" if first.count(";") > first.count(",") else ","
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise DataError(f"{name}, line {line}: is no CSV: {error}. Quote cells with quotes or commas.") from error
        if cells is None:
            return
        if any(cell.strip() for cell in cells):
            yield f"{name}, line {line}", [cell.strip() for cell in cells]


def _from_rows(rows: Iterable[tuple[str, list[str]]], languages: tuple[str | None, str | None], name: str) -> Glossary:
    lines = list(rows)
    named = list(_name_columns(lines))
    if lines and not named:  # a header line alone
        return Glossary((), *languages)
    terms, pairs = [], set()
    for row in named:
        pair = row.cells.get("source_language") or None, row.cells.get("target_language") or None
        if not all(_same_language(given, own) for given, own in zip(languages, pair, strict=True)):
            continue
        terms.append(_read_term(row))
        pairs.add(pair)
    if not terms:
        raise DataError(f"{name}: has no terms{_for_languages(languages)}. Give lines of source and target.")
    if len(pairs) > 1 and None in languages:
        found = ", ".join(sorted(f"{source} to {target}" for source, target in pairs))
        raise DataError(f"{name}: has terms of several languages: {found}. Give source and target language.")
    own = next(iter(pairs))
    return Glossary(tuple(terms), languages[0] or own[0], languages[1] or own[1])


def _name_columns(rows: Iterable[tuple[str, list[str]]]) -> Iterator[_Row]:
    """Yield rows by column; the names of columns come from the first line, or follow from its number of columns."""
    columns: Sequence[str] | None = None
    for where, cells in rows:
        if columns is None:
            names = [_SYNONYMS.get(cell.lower(), cell.lower()).replace(" ", "_") for cell in cells]
            if names[:1] == ["source"] and len(names) > 1:
                columns = _check_columns(names, where)
                continue
            columns = _unnamed_columns(cells, where)
        if len(cells) > len(columns):
            raise DataError(
                f"{where}: has {len(cells)} columns, and the first line {len(columns)}. Name the columns in the first "
                "line, or remove tabs and commas from the terms."
            )
        yield _Row(where, dict(zip(columns, cells, strict=False)))


def _check_columns(names: list[str], where: str) -> list[str]:
    for column in names:
        if column not in _COLUMNS:
            similar = nearest(column, _COLUMNS)
            remedy = f"Did you mean {' or '.join(similar)}?" if similar else f"Choose of {', '.join(_COLUMNS)}."
            raise DataError(f"{where}: the column {shorten_text(column)!r} is unknown. {remedy}")
    if len(set(names)) < len(names):
        raise DataError(f"{where}: a column occurs twice. Name each once.")
    return names


def _unnamed_columns(cells: list[str], where: str) -> tuple[str, ...]:
    if len(cells) == 4 and all(map(_LANGUAGE.fullmatch, cells[2:])):
        return ("source", "target", "source_language", "target_language")
    if len(cells) > 2:
        raise DataError(
            f"{where}: has {len(cells)} columns without names. Name them in the first line: {', '.join(_COLUMNS)}."
        )
    return ("source", "target")


def _read_term(row: _Row) -> Term:
    given = row.cells.get("case", "").lower() or "smart"
    case = next((rule for rule in _CASE_RULES if rule == given), None)
    if case is None:
        raise DataError(f"{row.where}: case {shorten_text(given)!r} is unknown. Choose smart, exact or ignore.")
    options: dict[str, Any] = {"forbidden": row.cells.get("forbidden", ""), "note": row.cells.get("note", "")}
    try:
        return Term.parse(row.cells.get("source", ""), row.cells.get("target", ""), case=case, **options)
    except DataError as error:
        raise DataError(f"{row.where}: {error}") from error


def _same_language(given: str | None, own: str | None) -> bool:
    """Return whether terms of a language are those of a given one: `en` are those of `en-US`, and the other way."""
    if given is None or own is None:
        return True
    first, second = (code.replace("_", "-").lower() for code in (given, own))
    return first == second or first.startswith(f"{second}-") or second.startswith(f"{first}-")


def _for_languages(languages: tuple[str | None, str | None]) -> str:
    given = [language for language in languages if language is not None]
    return f" of {' and '.join(given)}" if given else ""
