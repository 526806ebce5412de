"""String catalogs of Apple: their units, and what a translation writes."""

import json
from typing import Any

import pytest

from dragoman.data.documents.document import Document, UnitTranslation, identity
from dragoman.data.documents.recognize import open_document
from dragoman.errors import DataError
from tests.unit.data.documents.samples import XCSTRINGS


def read(catalog: str | dict[str, Any], language: str | None = "pl") -> Document:
    text = catalog if isinstance(catalog, str) else json.dumps(catalog)
    return open_document(text.encode(), name="a.xcstrings", target_language=language)


def filled(document: Document, language: str = "pl", **options: bool) -> dict[str, Any]:
    """Return the localizations in a language, with the plural category or device before each translation."""
    texts = [UnitTranslation(text=f"{unit.plural} {unit.source}", **options) for unit in document.units]
    strings = json.loads(document.fill(texts))["strings"]
    return {key: one.get("localizations", {}).get(language) for key, one in strings.items()}


def unit(text: str, state: str = "translated") -> dict[str, Any]:
    return {"stringUnit": {"state": state, "value": text}}


def plural(**forms: str) -> dict[str, Any]:
    return {"variations": {"plural": {category: unit(text) for category, text in forms.items()}}}


def catalog(key: str, **localizations: object) -> dict[str, Any]:
    return {"sourceLanguage": "en", "strings": {key: {"localizations": localizations}}, "version": "1.0"}


def test_strings_of_the_program_are_units() -> None:
    units = read(XCSTRINGS, "pt").units
    assert [(one.key, one.plural, one.source, one.target, one.state) for one in units] == [
        ("%lld files.plural.one", "one", "%lld file", "", "untranslated"),
        ("%lld files.plural.many", "many", "%lld files", "", "untranslated"),
        ("%lld files.plural.other", "other", "%lld files", "", "untranslated"),
        ("Close", None, "Close", "Fechar", "needs_review"),
        ("Open “%@”", None, "Open “%@”", "", "untranslated"),
        ("Tap here.device.mac", None, "Click here", "", "untranslated"),
        ("Tap here.device.other", None, "Tap here", "", "untranslated"),
    ]
    assert units[0].notes == "Number of files"


def test_each_language_has_its_plural_forms() -> None:
    source = catalog("n", en=plural(one="%d file", other="%d files"))
    assert filled(read(source))["n"] == plural(
        one="one %d file", few="few %d files", many="many %d files", other="other %d files"
    )
    assert filled(read(source, "ja"), "ja")["n"] == plural(other="other %d files")
    with_zero = catalog("n", en=plural(zero="no file", one="%d file", other="%d files"))
    assert [*filled(read(with_zero, "ja"), "ja")["n"]["variations"]["plural"]] == ["other", "zero"]


def test_forms_that_only_the_target_has_stay() -> None:
    source = catalog("%lld files", pl=plural(one="%lld plik", other="%lld pliki"))
    document = read(source)
    assert [(one.plural, one.source, one.target) for one in document.units] == [
        ("one", "%lld files", "%lld plik"),
        ("few", "%lld files", ""),
        ("many", "%lld files", ""),
        ("other", "%lld files", "%lld pliki"),
    ]
    texts = [None, UnitTranslation(text="%lld pliki"), UnitTranslation(text="%lld plików"), None]
    found = json.loads(document.fill(texts))["strings"]["%lld files"]["localizations"]["pl"]
    assert found == plural(one="%lld plik", few="%lld pliki", many="%lld plików", other="%lld pliki")


def test_substitutions_keep_their_arguments() -> None:
    files = {"argNum": 2, "formatSpecifier": "lld", **plural(one="%arg file", other="%arg files")}
    source = catalog("in", en={**unit("%@ has %#@files@"), "substitutions": {"files": files}})
    document = read(source, "de")
    assert [one.source for one in document.units] == ["%@ has %#@files@", "%arg file", "%arg files"]
    assert filled(document, "de")["in"] == {
        **unit("None %@ has %#@files@"),
        "substitutions": {"files": files | plural(one="one %arg file", other="other %arg files")},
    }


def test_states_are_written() -> None:
    found = filled(read(XCSTRINGS, "pt"), "pt", needs_review=True)
    assert found["Close"] == unit("None Close", "needs_review")
    document = read(XCSTRINGS, "pt")
    same = [UnitTranslation(text=one.target or "") if one.key == "Close" else None for one in document.units]
    assert document.fill(same).decode() == XCSTRINGS.replace("needs_review", "translated")


def test_other_lines_stay_and_languages_are_in_order() -> None:
    document = read(XCSTRINGS, "pl")
    close = [UnitTranslation(text="Zamknij") if one.key == "Close" else None for one in document.units]
    new = """        "pl" : {
          "stringUnit" : {
            "state" : "translated",
            "value" : "Zamknij"
          }
        },
        "pt" : {"""
    assert document.fill(close).decode() == XCSTRINGS.replace('        "pt" : {', new)
    assert identity(document).decode() == XCSTRINGS


@pytest.mark.parametrize(
    ("text", "language", "message"),
    [
        (XCSTRINGS, None, "Give the target language"),
        ("{}", "pl", "has no `sourceLanguage` and `strings`"),
        ('{"sourceLanguage": "en", "strings": []', "pl", "is not JSON"),
        ('{"sourceLanguage": "en", "strings": {"a": ' + '{"b": ' * 200, "pl", "more than 100 objects"),
    ],
)
def test_other_files_are_refused(text: str, language: str | None, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(text, language)


@pytest.mark.parametrize("number", ["9" * 9999, "1"])
def test_odd_values_are_left_out(number: str) -> None:
    text = f'{{"sourceLanguage": "en", "strings": {{"a": {{"localizations": {number}}}, "b": 5, "c": {{}}}}}}'
    assert [one.key for one in read(text).units] == ["c"]
