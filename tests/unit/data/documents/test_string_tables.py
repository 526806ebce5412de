"""String tables of all formats: identity, translations that are read again, and judges of other programs."""

import csv
import io
import json

import pytest
import yaml
from lxml import etree

from dragoman.data.documents.document import Document, UnitTranslation, identity
from dragoman.data.documents.recognize import open_document
from dragoman.errors import DataError
from tests.unit.data.documents.samples import SAMPLES

BYTES = [
    pytest.param(*(sample[0], sample[1].replace("\n", end).encode(encoding)), id=f"{kind} {name}")
    for kind, sample in SAMPLES.items()
    for end, encoding, name in (("\n", "utf-8", "plain"), ("\r\n", "utf-8", "crlf"), ("\n", "utf-8-sig", "mark"))
    if (kind, name) != ("properties", "mark")  # Java reads no byte order mark
]


def read(content: bytes, name: str, source_language: str = "en") -> Document:
    return open_document(content, name=name, source_language=source_language, target_language="pt")


def target(document: Document) -> list[str]:
    return [unit.source if unit.target is None else unit.target for unit in document.units]


@pytest.mark.parametrize(("name", "content"), BYTES)
def test_identity_keeps_every_byte(name: str, content: bytes) -> None:
    document = read(content, name)
    assert document.units
    assert identity(document) == content
    assert document.fill([None] * len(document.units)) == content


@pytest.mark.parametrize(("name", "content"), BYTES)
def test_translations_are_read_again(name: str, content: bytes) -> None:
    document = read(content, name)
    texts = [f"Ein \"Ü\" 'x' {number}\n{unit.source}" for number, unit in enumerate(document.units)]
    filled = document.fill([UnitTranslation(text=text) for text in texts])
    again = read(filled, name)
    assert target(again) == texts
    assert identity(again) == filled


@pytest.mark.parametrize("kind", ["xliff1", "xliff2", "tmx", "tbx", "ts"])
def test_sources_stay_equal_in_formats_with_targets(kind: str) -> None:
    name, text = SAMPLES[kind]
    document = read(text.encode(), name)
    filled = document.fill([UnitTranslation(text=f"x{unit.source}") for unit in document.units])

    def sources(content: bytes) -> list[bytes]:
        found = etree.fromstring(content).iter("{*}source", "{*}note", "{*}tuv", "{*}langSet")
        language = "{http://www.w3.org/XML/1998/namespace}lang"
        return [
            etree.tostring(one, method="c14n", with_tail=False) for one in found if one.get(language, "")[:2] != "pt"
        ]

    assert sources(filled) == sources(text.encode())


def test_units_with_inline_codes_have_fragments() -> None:
    name, text = SAMPLES["xliff1"]
    units = read(text.encode(), name).units
    assert [unit.source for unit in units] == [
        'Press <g id="1">Enter</g> &amp; wait<x id="2"/>',
        "Größe",
        'Two <g id="1">bold</g>',
        'Old "text"',
    ]
    assert [unit.markup for unit in units] == ["xml", None, "xml", None]
    assert [unit.state for unit in units] == ["untranslated", "final", "untranslated", "needs_review"]
    assert (units[0].max_length, units[0].notes) == (20, "A button")


def test_states_and_origins_are_written() -> None:
    name, text = SAMPLES["xliff1"]
    document = read(text.encode(), name)
    review = UnitTranslation(text='<x id="2"/>Espere <g id="1">aqui</g>', needs_review=True)
    memory = UnitTranslation(text="Tamanho novo", origin="memory")
    filled = document.fill([review, memory, None, UnitTranslation(text='Texto "velho"')]).decode()
    assert (
        '<target state="needs-review-translation" state-qualifier="mt-suggestion"><x id="2"/>Espere <g id="1">aqui</g>'
        in filled
    )
    assert "<trans-unit id='a2' approved=\"no\">" in filled
    assert 'state="translated">Tamanho novo</target>' in filled
    assert 'state="translated">Texto &quot;velho&quot;</target>' in filled
    assert '<file target-language="pt" original="app.html"' in filled


@pytest.mark.parametrize("fragment", ['<g id="1">a', "a</g>", '<x id="7"/>', "<b>a</b>"])
def test_tags_that_the_source_has_not_are_refused(fragment: str) -> None:
    name, text = SAMPLES["xliff1"]
    document = read(text.encode(), name)
    with pytest.raises(DataError, match="translation of 'a1': its tags"):
        document.fill([UnitTranslation(text=fragment), None, None, None])


SEGMENTED = """<xliff version="1.2"><file source-language="en"><body><trans-unit id="7">
  <source>One <g id="1">red</g> dog. Two dogs.</source>
  <seg-source><mrk mtype="seg" mid="1">One <g id="1">red</g> dog.</mrk> <mrk mtype="seg" mid="2">Two dogs.</mrk></seg-source>
</trans-unit></body></file></xliff>
"""  # noqa: E501


def test_segments_of_xliff_are_units() -> None:
    document = read(SEGMENTED.encode(), "a.sdlxliff")
    assert [(unit.key, unit.source) for unit in document.units] == [
        ("7.1", 'One <g id="1">red</g> dog.'),
        ("7.2", "Two dogs."),
    ]
    assert identity(document) == SEGMENTED.encode()
    filled = document.fill([UnitTranslation(text='Um cão <g id="1">vermelho</g>.'), None])
    marks = '<mrk mtype="seg" mid="1">Um cão <g id="1">vermelho</g>.</mrk> <mrk mtype="seg" mid="2"></mrk></target>'
    assert f'</seg-source>\n  <target state="translated">{marks}' in filled.decode()
    again = read(filled, "a.sdlxliff")
    assert [unit.state for unit in again.units] == ["translated", "untranslated"]
    filled = again.fill([None, UnitTranslation(text="Dois cães.", needs_review=True)]).decode()
    assert '<target state="needs-review-translation"><mrk mtype="seg" mid="1">Um cão' in filled
    assert '<mrk mtype="seg" mid="2">Dois cães.</mrk></target>' in filled


def test_each_code_is_there_once() -> None:
    name, text = SAMPLES["xliff1"]
    document = read(text.encode(), name)
    twice = UnitTranslation(text='<g id="1">a</g> b <g id="1">c</g>')
    assert b'><g id="1">a</g> b c<x id="2"/></target>' in document.fill([twice, None, None, None])
    name, text = SAMPLES["android"]
    document = read(text.encode(), name)
    assert b"><b>a</b> b <b>c</b></string>" in document.fill([twice, *[None] * (len(document.units) - 1)])


def test_protected_parts_are_opaque() -> None:
    text = SAMPLES["xliff2"][1].replace('<pc id="1">', '<mrk id="1" translate="no">').replace("</pc>", "</mrk>")
    assert read(text.encode(), "a.xlf").units[0].source == 'First <x id="1"/>.<x id="2"/>'


def test_other_readers_find_the_translations() -> None:
    new = 'Preço: "5", é'
    for kind in ("json", "yaml", "csv"):
        name, text = SAMPLES[kind]
        document = read(text.encode(), name)
        filled = document.fill([UnitTranslation(text=new) for _ in document.units]).decode()
        if kind == "json":
            table = json.loads(filled)
            found = [table["title"], *list(table["menu"].values())[:2], *table["list"][::2], table["about"]]
            assert table["@@locale"] == "en"
        elif kind == "yaml":
            table = yaml.safe_load(filled)["pt"]
            found = [table[key] for key in ("greeting", "quoted", "single", "long")] + [*table["count"].values()]
            assert table["number"] == 12
        else:
            found = [row["target"] for row in csv.DictReader(io.StringIO(filled))]
        assert {*found} == {new}


def test_android_reads_what_was_written() -> None:
    name, text = SAMPLES["android"]
    document = read(text.encode(), name)
    by_key = {unit.key: unit for unit in document.units}
    assert by_key["greeting"].source == 'Don\'t panic, <g id="1">%1$s</g>!\nBye'
    assert by_key["quoted"].source == "  two  spaces "
    assert (by_key["html"].markup, by_key["html"].source[:4]) == ("html", "See ")
    assert [by_key[f"files.{one}"].plural for one in ("one", "other")] == ["one", "other"]
    texts = ["?Don't" if key == "days.0" else by_key[key].source for key in by_key]
    filled = document.fill([UnitTranslation(text=one) for one in texts]).decode()
    assert r"<item>\?Don\'t</item>" in filled


def test_a_rails_file_gets_the_key_of_its_language() -> None:
    name, text = SAMPLES["yaml"]
    document = read(text.encode(), name)
    filled = document.fill([UnitTranslation(text="Olá"), *[None] * (len(document.units) - 1)]).decode()
    assert filled == text.replace("en:\n", "pt:\n").replace("greeting: Hello ", "greeting: Olá ")


def test_anchors_of_yaml_stay() -> None:
    document = read(b"a: &one first\nb: *one\nc: !!str 5 apples\n", "a.yml")
    filled = document.fill([UnitTranslation(text="x"), UnitTranslation(text="y")])
    assert filled == b"a: &one x\nb: *one\nc: !!str y\n"


def test_the_content_tells_a_format_without_an_ending() -> None:
    assert read(SAMPLES["tmx"][1].encode(), "memory").format == "tmx"
    assert read(SAMPLES["xliff1"][1].encode("utf-16"), "texts.xml").format == "xliff"
    with pytest.raises(DataError, match="known document format"):
        read(b"<?php echo '<xliff version=\"1.2\">';", "a.php")


def test_a_table_without_a_target_column_is_translated_in_place() -> None:
    document = read(b'key;text\n1;Hello\n2;"a;b"\n', "a.csv")
    assert [unit.target for unit in document.units] == [None, None]
    filled = document.fill([UnitTranslation(text="x;y"), UnitTranslation(text="z")])
    assert filled == b'key;text\n1;"x;y"\n2;z\n'


ENTITIES = (
    b'<!DOCTYPE a [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]><resources><string name="x">&b;</string></resources>'
)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.xlf", b"<xliff><file></xliff>", "is not well-formed XML"),
        ("a.xlf", b"<html></html>", "has the root <html>"),
        ("a.xml", b"<resources>" + b"<a>" * 300 + b"</a>" * 300 + b"</resources>", "more than 256 elements"),
        ("a.xml", ENTITIES, "declares the entity"),
        (
            "a.xml",
            b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><resources>&x;</resources>',
            "declares the entity",
        ),
        ("a.tmx", SAMPLES["tmx"][1].replace('srclang="en-US"', 'srclang="*all*"').encode(), "Give source language"),
        ("a.json", b'{"a": "b",}', "line 1: is not JSON"),
        ("a.json", b'{"a": "b"} x', "after the end"),
        ("a.json", b"[" * 200, "more than 100 objects"),
        ("a.json", b'{"a": "\\ud800"}', "half of a character"),
        ("a.yml", b"a: [b", "is not YAML"),
        ("a.yml", b"[" * 5000, "too many values inside"),
        ("a.csv", b'source,target\n"a,b', "quotation mark is not closed"),
        ("a.csv", b"a,b\n1,2\n", "no column is the source"),
        ("a.strings", b'"a" = "b', "line 1: .* is not a comment"),
        ("a.properties", b"= b\n", "line 1"),
    ],
)
def test_damaged_and_hostile_files_give_one_message(name: str, content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        open_document(content, name=name, target_language="pt")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
