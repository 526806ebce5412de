"""Plural categories by language, compared with those of Babel, and the forms that files get for them."""

import json
import plistlib

import pytest
import yaml
from babel import Locale, UnknownLocaleError
from lxml import etree

from dragoman.data.documents.document import UnitTranslation, identity
from dragoman.data.documents.plural_categories import (
    _BY_LANGUAGE,
    PLURAL_CATEGORIES,
    is_plural_group,
    missing_categories,
    plural_categories,
)
from dragoman.data.documents.recognize import open_document
from tests.unit.data.documents.samples import SAMPLES


def test_categories_are_those_of_cldr() -> None:
    compared = 0
    for language, categories in _BY_LANGUAGE.items():
        try:
            known = {*Locale.parse(language).plural_form.tags} | {"other"}
        except UnknownLocaleError:
            continue
        compared += 1
        assert categories == tuple(one for one in PLURAL_CATEGORIES if one in known), language
    assert compared > 200


def test_regions_and_scripts_have_the_categories_of_their_language() -> None:
    assert plural_categories("pt-BR") == ("one", "many", "other")
    assert plural_categories("zh_Hant_TW") == ("other",)
    assert plural_categories("tlh") is None


def test_missing_forms_are_those_of_the_language() -> None:
    assert missing_categories(["one", "other"], "pl") == ("few", "many")
    assert missing_categories(["zero", "one", "other"], "de") == ()
    assert missing_categories(["other"], "en") == ("one",)
    assert missing_categories(["one", "few"], "pl") == ()
    assert missing_categories(["one", "other"], None) == missing_categories(["one", "other"], "tlh") == ()


def test_objects_of_several_forms_are_plural_groups() -> None:
    assert is_plural_group(["one", "other"])
    assert not is_plural_group(["other"])
    assert not is_plural_group(["one", "other", "title"])


def polish(content: bytes, name: str) -> bytes:
    """Return a file with its plural forms in Polish: the category and the source of each."""
    document = open_document(content, name=name, target_language="pl")
    assert identity(document) == content
    texts = [None if unit.plural is None else f"{unit.plural} {unit.source}" for unit in document.units]
    filled = document.fill([None if text is None else UnitTranslation(text=text) for text in texts])
    again = open_document(filled, name=name, target_language="pl")
    assert [unit.plural for unit in again.units] == [unit.plural for unit in document.units]
    assert [unit.source for unit in again.units if unit.plural] == [text for text in texts if text is not None]
    return filled


FORMS = {"one": "one 1 file", "few": "few %d files", "many": "many %d files", "other": "other %d files"}
STRINGSDICT = SAMPLES["stringsdict"][1].replace("%d file<", "1 file<")


def test_android_gets_the_forms_of_the_language() -> None:
    text = SAMPLES["android"][1].replace("%d file<", "1 file<").replace(">%d files", "><b>%d</b> files")
    filled = polish(text.replace('<item quantity="other">', "<item quantity = 'other'>").encode(), "strings.xml")
    items = etree.fromstring(filled).iterfind("plurals/item")
    assert {item.get("quantity"): "".join(item.itertext()) for item in items} == FORMS
    assert b'        <item quantity = "few">few <b>%d</b> files</item>\n' in filled


def test_apple_gets_the_forms_of_the_language() -> None:
    found = plistlib.loads(polish(STRINGSDICT.encode(), "a.stringsdict"))["%d files"]["files"]
    assert {key: text for key, text in found.items() if key in PLURAL_CATEGORIES} == FORMS


@pytest.mark.parametrize("indent", [None, 2, "\t"])
def test_json_gets_the_forms_of_the_language(indent: int | str | None) -> None:
    forms = {"one": "1 file", "other": "%d files"}
    source = {"a": "Open", **{f"files_{key}": text for key, text in forms.items()}, "b": {"files": forms, "size": 5}}
    found = json.loads(polish(json.dumps(source, indent=indent).encode(), "en.json"))
    assert found == {
        "a": "Open",
        **{f"files_{one}": text for one, text in FORMS.items()},
        "b": {"files": FORMS, "size": 5},
    }
    assert [*found["b"]["files"]] == [*FORMS]


@pytest.mark.parametrize(
    "group", ["\n      one: 1 file\n      other: '%d files'\n", ' {one: 1 file, "other": "%d files"}\n']
)
def test_rails_gets_the_forms_of_the_language(group: str) -> None:
    filled = polish(f"en:\n  menu:\n    files:{group}    size: 5\n".encode(), "en.yml")
    assert yaml.safe_load(filled) == {"pl": {"menu": {"files": FORMS, "size": 5}}}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", b'{"other": "Other", "size_other": "Other", "rank_ordinal_one": "1st", "rank_ordinal_other": "th"}'),
        ("a.json", b'{"menu": {"one": "1 file", "other": "files", "title": "Files"}}'),
        ("a.yml", b"menu:\n  one: 1 file\n  other: files\n  title: Files\n"),
        ("a.yml", b"menu:\n  other: Other\n"),
    ],
)
def test_other_texts_are_no_plural_forms(name: str, content: bytes) -> None:
    plain, polish = (open_document(content, name=name, target_language=one).units for one in (None, "pl"))
    assert polish == plain
