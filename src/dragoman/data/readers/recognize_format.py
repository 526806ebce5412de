"""Recognition of the format of a corpus by its content: tab-separated columns, JSON objects, Parquet or plain text."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from dragoman.data.readers.exchange_formats import ParallelPo, ParallelTmx, ParallelXliff, ParallelZip, zip_languages
from dragoman.data.readers.line_reader import (
    MOST,
    OTHER_FORMATS,
    SAMPLE,
    ending_of,
    open_binary,
    other_format,
    read_lines,
    refuse_other_formats,
    tabs_note,
)
from dragoman.data.readers.parallel import (
    ParallelCorpus,
    ParallelFiles,
    ParallelJsonl,
    ParallelParquet,
    ParallelTsv,
    parquet_text_columns,
    resolve_files,
)
from dragoman.data.readers.plain_text import TextFile, TextJsonl
from dragoman.errors import DataError
from dragoman.number_words import counted

ParallelFormat = (
    ParallelTsv
    | ParallelJsonl
    | ParallelParquet
    | ParallelTmx
    | ParallelXliff
    | ParallelPo
    | ParallelZip
    | ParallelFiles
)
TextFormat = TextFile | TextJsonl

SIDE_NAMES = (("source", "target"), ("src", "tgt"), ("src", "trg"))
"""Names of the two sides in JSON objects, Parquet columns and header lines."""
_ENGLISH_NAMES = """
afrikaans albanian amharic arabic armenian azerbaijani basque belarusian bengali bosnian breton bulgarian
burmese catalan chinese croatian czech danish dutch english estonian finnish french galician georgian german
greek gujarati hausa hebrew hindi hungarian icelandic igbo indonesian irish italian japanese kannada kazakh
khmer korean kurdish kyrgyz lao latin latvian lithuanian luxembourgish macedonian malay malayalam maltese
maori marathi mongolian nepali norwegian pashto persian polish portuguese punjabi romanian russian serbian
sinhala slovak slovenian somali spanish swahili swedish tagalog tamil telugu thai tibetan turkish ukrainian
urdu uzbek vietnamese welsh xhosa yoruba zulu
"""
_OWN_NAMES = """
albanian=shqip arabic=العربية armenian=հայերեն azerbaijani=azərbaycanca basque=euskara belarusian=беларуская
bengali=বাংলা bosnian=bosanski breton=brezhoneg bulgarian=български catalan=català,catala
chinese=中文,汉语,漢語,简体中文,繁體中文 croatian=hrvatski czech=čeština,cestina,česky danish=dansk dutch=nederlands
estonian=eesti finnish=suomi french=français,francais galician=galego georgian=ქართული german=deutsch
greek=ελληνικά hebrew=עברית hindi=हिन्दी,हिंदी hungarian=magyar icelandic=íslenska indonesian=indonesia
irish=gaeilge italian=italiano japanese=日本語 kazakh=қазақша korean=한국어 latin=latina latvian=latviešu
lithuanian=lietuvių luxembourgish=lëtzebuergesch macedonian=македонски malay=melayu maltese=malti
norwegian=norsk,bokmål,nynorsk persian=فارسی polish=polski portuguese=português,portugues romanian=română,romana
russian=русский serbian=srpski,српски slovak=slovenčina,slovencina slovenian=slovenščina,slovenscina
spanish=español,espanol,castellano swahili=kiswahili swedish=svenska tagalog=filipino thai=ไทย
turkish=türkçe,turkce ukrainian=українська urdu=اردو vietnamese=việt welsh=cymraeg
"""
LANGUAGE_NAMES = {name: name for name in _ENGLISH_NAMES.split()} | {
    own: name for entry in _OWN_NAMES.split() for name, _, names in [entry.partition("=")] for own in names.split(",")
}
"""English names of languages by their names in header lines: in English and in the language itself."""
SIDE_OPTIONS = ("--source", "--target")
"""Options for a corpus in two files."""
_LANGUAGE = re.compile(r"[a-z]{2,3}([-_][A-Za-z]{2,4})?")
_VARIETIES = frozenset(
    {"american", "bahasa", "brazilian", "british", "canadian", "european", "mexican", "simplified", "tiếng"}
    | {"traditional", "uk", "us"}
)
"""Words before the name of a language in header lines."""
_REMARK = re.compile(r"(?<!\s)\s*+[(\[].*[)\]]$|(?<!\s)\s++[-–—/:,]\s.*$|,\s.*$")
"""Country or code after the name of a language: `English (US)`, `English - US`, `Chinese, traditional`."""
MAX_NAME = 200
"""Characters of a cell in which the name of a language is looked for."""
_BRACES = re.compile(r"(.*)\{([^{},]+),([^{},]+)\}(.*)")
_SETTINGS = re.compile(r"""\s*(["']?[\w.-]+["']?\s*:(\s|$)|[{#%]|---)""")
"""Beginning of a configuration file: a key, a brace, a comment or a YAML directive."""


def recognize_corpus(path: Path, *, options: tuple[str, str] = SIDE_OPTIONS) -> ParallelFormat | TextFormat | None:
    """Return the format of the first file of a corpus, or None for a configuration file.

    Raises DataError where no file matches, a file is unreadable or of another format, or the two sides cannot be told;
    it names the `options` for two files.
    """
    if (moses := _moses_pair(path)) is not None:
        return moses
    first = resolve_files(path)[0]
    if first.exists() and not (first.is_file() or first.is_dir()):
        raise DataError(f"{first}: is a pipe or device, which cannot be read twice. Give a file.")
    ending = ending_of(first)
    if ending in (".yaml", ".yml"):
        return None
    if (exchanged := _exchange_format(path, first, ending)) is not None:
        return exchanged
    refuse_other_formats(first)
    with open_binary(first) as stream:
        if stream.read(4) == b"PAR1":
            source, target = _choose_sides(parquet_text_columns(first), first, "columns")
            return ParallelParquet(path=path, source_column=source, target_column=target)
    lines = [line for _, line in islice(read_lines(first), SAMPLE) if line.strip()]
    if lines and (row := _parse_row(lines[0])) is not None:
        return _recognize_objects(path, row)
    if ending == ".tsv" or any("\t" in line for line in lines[:1]):
        return _recognize_columns(path, [line.split("\t") for line in lines])
    if ending == ".txt":
        return TextFile(path=path)
    if ending == ".csv" or (lines and not _SETTINGS.match(lines[0])):
        raise _unknown_format(path, ending, lines, options)
    return None


def _moses_pair(path: Path) -> ParallelFiles | None:
    """Return the two files that `name.{en,de}` means, where there is no file of this name."""
    found = _BRACES.fullmatch(str(path))
    if found is None or path.exists():
        return None
    start, source, target, end = found.groups()
    return ParallelFiles(source=Path(f"{start}{source}{end}"), target=Path(f"{start}{target}{end}"))


def _exchange_format(path: Path, first: Path, ending: str) -> ParallelFormat | None:
    """Return the format of a file that a program exports, by its ending; of an archive, if it has two texts."""
    match ending:
        case ".tmx":
            return ParallelTmx(path=path)
        case ".xlf" | ".xliff" | ".sdlxliff" | ".mqxliff":
            return ParallelXliff(path=path)
        case ".po":
            return ParallelPo(path=path)
        case ".zip" if len(languages := zip_languages(first)) == 2:
            return ParallelZip(path=path, from_language=languages[0], to_language=languages[1])
    return None


def recognize_pairs(path: Path, *, options: tuple[str, str] = SIDE_OPTIONS) -> ParallelFormat:
    """Return the format of a parallel corpus. Raises DataError, which names the `options` for two files, for others."""
    found = recognize_corpus(path, options=options)
    if not isinstance(found, ParallelFormat):
        raise _unknown_format(path, ending_of(path), [], options)
    return found


def recognize_text(path: Path) -> TextFormat:
    """Return the format of a text: JSON lines with the field `text`, or else plain text."""
    with suppress(DataError):  # a text may contain anything; the reader reports unreadable files
        found = recognize_corpus(path)
        if isinstance(found, TextJsonl):
            return found
    return TextFile(path=path)


def corpus_notes(corpus: ParallelCorpus | TextFile) -> Iterator[str]:
    """Describe what is read where a corpus may have another format: columns in a text, or unread columns and lines."""
    if isinstance(corpus, ParallelFiles | TextFile):
        files = [corpus.path] if isinstance(corpus, TextFile) else [corpus.source, corpus.target]
        for path in (resolve_files(file)[0] for file in files):
            if note := tabs_note(path, (line for _, line in islice(read_lines(path), SAMPLE))):
                yield f"{note}; a file with both sides goes to --pairs"
    elif isinstance(corpus, ParallelTsv):
        yield from _column_notes(resolve_files(corpus.path)[0], corpus)


def _column_notes(path: Path, corpus: ParallelTsv) -> Iterator[str]:
    """Describe unread columns, and a first line that is, or may be, a header."""
    columns = (corpus.source_column, corpus.target_column)
    rows = [line.split("\t") for _, line in islice(read_lines(path), SAMPLE)]
    if not rows or len(rows[0]) < max(columns):
        return
    if len(rows[0]) > 2:
        yield f"{path}: of {len(rows[0])} columns, {columns[0]} and {columns[1]} are read as source and target"
    if note := _quotes_note(rows):
        yield f"{path}: {note}"
    names = [rows[0][column - 1] for column in columns]
    first = f"{path}: the first line ({' | '.join(names)})"
    if corpus.header:
        yield f"{first} is read as the names of the columns"
    elif len(rows) > 1 and _may_be_header(rows):
        yield f"{first} is read as a pair of texts; if it names the columns, remove it"


def _quotes_note(rows: Sequence[Sequence[str]]) -> str | None:
    """Describe cells in quotation marks, as spreadsheets export them; None for rare ones, which may be quotations."""
    quoted = [cell for row in rows for cell in row if len(cell) > 2 and cell[0] == cell[-1] == '"']
    if not any('""' in cell[1:-1] for cell in quoted) and len(quoted) * 4 < sum(map(len, rows)):
        return None
    return (
        f"{counted(len(quoted), 'cells')} of the first {counted(len(rows), 'lines')} in quotation marks, which are "
        'read as part of the text; export without them, or remove them: single ones around a cell, and "" becomes "'
    )


def _may_be_header(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether each cell of the first row is a short name, and nearly all rows below have a longer text."""
    longest = [max(len(cell.split()) for cell in row) for row in rows]
    is_name = all(cell.strip() and cell.strip()[-1].isalnum() for cell in rows[0])
    return is_name and longest[0] <= 2 and sum(words > 2 for words in longest[1:]) > MOST * (len(rows) - 1)


def _unknown_format(path: Path, ending: str, lines: Sequence[str], options: tuple[str, str]) -> DataError:
    """Return the error for a file that contains no sentence pairs in a known format."""
    xml = any(line.lstrip().startswith("<?xml") for line in lines[:1])
    if (formats := OTHER_FORMATS.get(".xml" if xml else ending)) is not None:
        return other_format(path, formats)
    return DataError(
        f"{path}: is not a file of sentence pairs: neither columns separated by tabs, nor JSON lines, nor Parquet. "
        f"Give two text files with {' and '.join(options)}."
    )


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
    """Return the columns that the first row names, or else the first two that contain letters."""
    named = _named_columns(rows[0])
    width = min((len(row) for row in rows), default=0)
    texts = rows[1:] or rows  # the first row may be a header
    textual = [place for place in range(width) if any(any(map(str.isalpha, row[place])) for row in texts)]
    first, second = named or (textual[:2] if len(textual) >= 2 else (0, 1))
    header = named is not None or (width > 1 and _are_codes(rows[0][first], rows[0][second]))
    return ParallelTsv(path=path, source_column=first + 1, target_column=second + 1, header=header)


def _named_columns(row: Sequence[str]) -> tuple[int, int] | None:
    """Return the places of the two sides in a header line: source and target, or two languages."""
    names = [cell.strip().lower() for cell in row]
    for source, target in SIDE_NAMES:
        if {source, target} <= {*names}:
            return names.index(source), names.index(target)
    languages = {place: one for place, name in enumerate(names) if (one := _language(name)) is not None}
    if len(languages) != 2 or len({*languages.values()}) != 2:  # `German | Deutsch` is a pair of texts
        return None
    first, second = languages
    return first, second


def _language(name: str) -> str | None:
    """Return the English name of a language, whose name may have a variety or a remark, such as `English (US)`."""
    *varieties, last = _REMARK.sub("", name[:MAX_NAME]).split() or [""]
    return LANGUAGE_NAMES.get(last) if _VARIETIES.issuperset(varieties) else None


def _are_codes(source: str, target: str) -> bool:
    return all(_LANGUAGE.fullmatch(one.strip()) for one in (source, target)) and source != target


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
