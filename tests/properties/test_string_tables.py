"""Property tests of string tables: files of other programs are read, kept and filled; damaged ones are refused."""

import csv
import io
import json
import plistlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polib
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from lxml import etree
from translate.storage import aresource, properties, tmx, xliff

from dragoman.data.documents.document import Document, UnitTranslation, identity
from dragoman.data.documents.recognize import open_document
from dragoman.errors import DataError
from tests.property_settings import damaged_files, examples
from tests.unit.data.documents.samples import SAMPLES

CHARACTERS = st.characters(exclude_categories=("Cs", "Cc", "Cf", "Zl", "Zp", "Co", "Cn")) | st.sampled_from(
    "\n\t\"'\\&<>%{}[]:;=#,|-@?!*~ "
)
TEXTS = st.text(CHARACTERS, min_size=1, max_size=41).filter(lambda text: text.strip() == text)
PAIRS = st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=7, unique_by=lambda pair: pair[0])


@dataclass(frozen=True)
class Program:
    """Another program that writes and reads the texts of a format."""

    name: str
    write: Callable[[Sequence[str]], bytes]
    read: Callable[[bytes], list[str]]
    """Return the translations, or the texts of formats with one language."""
    shown: Callable[[str], str] = str
    """Return a text as the program reads it."""


def _write_po(sources: Sequence[str]) -> bytes:
    file = polib.POFile(wrapwidth=53)
    file.metadata = {"Content-Type": "text/plain; charset=UTF-8"}
    file.extend(polib.POEntry(msgid=source, comment="about") for source in sources)
    return str(file).encode()


def _read_po(content: bytes) -> list[str]:
    return [entry.msgstr for entry in polib.pofile(content.decode())]


def _write_xliff(sources: Sequence[str]) -> bytes:
    file = xliff.xlifffile()
    for source in sources:
        file.addunit(file.UnitClass(source))
    return bytes(file)


def _read_xliff(content: bytes) -> list[str]:
    return [unit.gettarget() for unit in xliff.xlifffile.parsestring(content).units]


def _write_tmx(sources: Sequence[str]) -> bytes:
    file = tmx.tmxfile()
    for source in sources:
        file.addtranslation(source, "en", source, "de")
    return bytes(file)


def _read_tmx(content: bytes) -> list[str]:
    path = "//tuv[@xml:lang='pt']/seg"
    return [seg.text for seg in etree.fromstring(content).xpath(path)]


def _write_resx(sources: Sequence[str]) -> bytes:
    root = etree.Element("root")
    for number, source in enumerate(sources):
        data = etree.SubElement(root, "data", name=f"k{number}")
        etree.SubElement(data, "value").text = source
    return etree.tostring(root, xml_declaration=True, encoding="utf-8", pretty_print=True)


def _read_resx(content: bytes) -> list[str]:
    return [value.text for value in etree.fromstring(content).iter("value")]


def _write_ts(sources: Sequence[str]) -> bytes:
    root = etree.Element("TS", version="2.1")
    context = etree.SubElement(root, "context")
    etree.SubElement(context, "name").text = "Window"
    for source in sources:
        message = etree.SubElement(context, "message")
        etree.SubElement(message, "source").text = source
        etree.SubElement(message, "translation", type="unfinished")
    return etree.tostring(root, xml_declaration=True, encoding="utf-8", doctype="<!DOCTYPE TS>")


def _read_ts(content: bytes) -> list[str]:
    return [value.text for value in etree.fromstring(content).iter("translation")]


def _write_json(sources: Sequence[str]) -> bytes:
    return json.dumps({f"k{number}": [{"a": text}] for number, text in enumerate(sources)}, indent=3).encode()


def _read_json(content: bytes) -> list[str]:
    return [one[0]["a"] for one in json.loads(content).values()]


def _write_catalog(sources: Sequence[str]) -> bytes:
    strings = {source: {} for source in sources}
    catalog = {"sourceLanguage": "en", "strings": strings, "version": "1.0"}
    return json.dumps(catalog, indent=2, ensure_ascii=False, separators=(",", " : ")).encode()


def _read_catalog(content: bytes) -> list[str]:
    strings = json.loads(content)["strings"].values()
    return [one["localizations"]["pt"]["stringUnit"]["value"] for one in strings]


def _write_android(sources: Sequence[str]) -> bytes:
    file = aresource.AndroidResourceFile()
    for number, source in enumerate(sources):
        unit = file.UnitClass(f"k{number}")
        unit.setid(f"k{number}")
        unit.target = source
        file.addunit(unit)
    return bytes(file)


def _read_android(content: bytes) -> list[str]:
    return [str(unit.target) for unit in aresource.AndroidResourceFile(io.BytesIO(content)).units]


def _without_wide_spaces(text: str) -> str:
    """Return a text with spaces in place of the ones that the toolkit, and not Android, takes as line breaks."""
    return re.sub(r"[^\S \n\t]+", " ", text)


def _write_apple(sources: Sequence[str]) -> bytes:
    return plistlib.dumps({f"k{key}": {"files": {"one": source}} for key, source in enumerate(sources)})


def _read_apple(content: bytes) -> list[str]:
    return [one["files"]["one"] for one in plistlib.loads(content).values()]


def _write_yaml(sources: Sequence[str]) -> bytes:
    styles = (None, "'", '"', "|", ">")
    texts = ({f"k{number}": text} for number, text in enumerate(sources))
    dumped = (yaml.safe_dump(one, default_style=styles[n % 5], allow_unicode=True) for n, one in enumerate(texts))
    return "# comment\n".join(dumped).encode()


def _read_yaml(content: bytes) -> list[str]:
    return list(yaml.safe_load(content).values())


def _write_csv(sources: Sequence[str]) -> bytes:
    table = io.StringIO()
    rows = csv.writer(table)
    rows.writerows([["id", "source", "target"], *([number, text, ""] for number, text in enumerate(sources))])
    return table.getvalue().encode()


def _read_csv(content: bytes) -> list[str]:
    return [row["target"] for row in csv.DictReader(io.StringIO(content.decode(), newline=""))]


def _write_properties(sources: Sequence[str]) -> bytes:
    file = properties.javautf8file()
    for number, source in enumerate(sources):
        unit = file.UnitClass(source, personality="java-utf8")
        unit.name = f"k{number}"
        file.addunit(unit)
    return bytes(file)


def _read_properties(content: bytes) -> list[str]:
    texts = (unit.source for unit in properties.javautf8file(io.BytesIO(content)).units if unit.name)
    return [text.encode("utf-16-le", "surrogatepass").decode("utf-16-le") for text in texts]  # Java's own characters


PROGRAMS = {
    "po": Program("pt.po", _write_po, _read_po),
    "xliff": Program("a.xlf", _write_xliff, _read_xliff),
    "tmx": Program("a.tmx", _write_tmx, _read_tmx),
    "resx": Program("a.resx", _write_resx, _read_resx),
    "ts": Program("a.ts", _write_ts, _read_ts),
    "json": Program("a.json", _write_json, _read_json),
    "android": Program("strings.xml", _write_android, _read_android, _without_wide_spaces),
    "stringsdict": Program("a.stringsdict", _write_apple, _read_apple),
    "xcstrings": Program("a.xcstrings", _write_catalog, _read_catalog),
    "yaml": Program("a.yml", _write_yaml, _read_yaml),
    "csv": Program("a.csv", _write_csv, _read_csv),
    "properties": Program("a.properties", _write_properties, _read_properties),
}


def read(content: bytes, name: str) -> Document:
    return open_document(content, name=name, source_language="en", target_language="pt")


@pytest.mark.parametrize("kind", PROGRAMS)
@examples(200)
@given(pairs=PAIRS)
def test_files_of_other_programs_are_kept_and_filled(kind: str, pairs: list[tuple[str, str]]) -> None:
    program = PROGRAMS[kind]
    content = program.write([source for source, _ in pairs])
    document = read(content, program.name)
    assert [unit.source for unit in document.units] == [source for source, _ in pairs]
    assert identity(document) == content
    filled = document.fill([UnitTranslation(text=target) for _, target in pairs])
    assert program.read(filled) == [program.shown(target) for _, target in pairs]
    assert identity(read(filled, program.name)) == filled


@pytest.mark.parametrize("kind", SAMPLES)
@examples(200)
@given(data=st.data())
def test_any_texts_of_any_units_are_read_again(kind: str, data: st.DataObject) -> None:
    name, text = SAMPLES[kind]
    document = read(text.encode(), name)
    choices = [data.draw(st.none() | TEXTS) if unit.markup is None else None for unit in document.units]
    if kind == "properties":  # an apostrophe is doubled in a text with arguments, so that they have to stay
        choices = [
            one and f"{one} {{0}}" if "{0}" in unit.source else one
            for one, unit in zip(choices, document.units, strict=True)
        ]
    filled = document.fill([None if one is None else UnitTranslation(text=one) for one in choices])
    again = read(filled, name)
    for unit, chosen, new in zip(document.units, choices, again.units, strict=True):
        before = unit.source if unit.target is None else unit.target
        after = new.source if new.target is None else new.target
        assert after == (before if chosen is None else chosen)
    if all(one is None for one in choices):
        assert filled == text.encode()


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """Return content that is cut, or has bytes that are changed, removed or repeated."""
    place = draw(st.integers(0, len(content) - 1))
    match draw(st.sampled_from(["cut", "flip", "remove", "repeat", "insert"])):
        case "cut":
            return content[:place]
        case "flip":
            return content[:place] + bytes([draw(st.integers(0, 255))]) + content[place + 1 :]
        case "remove":
            return content[:place] + content[place + draw(st.integers(1, 41)) :]
        case "repeat":
            return content[:place] + content[max(0, place - 83) :]
        case _:
            return content[:place] + draw(st.binary(max_size=7)) + content[place:]


@pytest.mark.parametrize("kind", SAMPLES)
@damaged_files(200)
@given(data=st.data())
def test_damaged_files_are_read_or_give_one_message(kind: str, data: st.DataObject) -> None:
    name, text = SAMPLES[kind]
    content = data.draw(damaged(text.encode()))
    message = ""
    try:
        document = read(content, name)
        assert document.fill([None] * len(document.units)) == content
        document.fill([UnitTranslation(text=unit.source) for unit in document.units])
    except DataError as error:
        message = str(error)
    assert "\n" not in message
    assert len(message) < 500


@example(text="0 1")
@example(text="yes")
@example(text="2026-11-27")
@example(text="a: b")
@example(text="- a")
@example(text="~")
@examples(200)
@given(text=TEXTS)
def test_yaml_reads_each_style_as_the_text(text: str) -> None:
    for before in ("plain", "'quoted'", '"quoted"', "|\n    lines\n    of text", ">-\n    lines\n    of text"):
        document = read(f"a:\n  b: {before}\n  c: 1 # x\n".encode(), "a.yml")
        filled = document.fill([UnitTranslation(text=text)])
        assert yaml.safe_load(filled) == {"a": {"b": text, "c": 1}}
