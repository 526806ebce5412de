import pytest

from dragoman.data.placeholders.accelerators import recognize_accelerator, remove_accelerator
from dragoman.data.placeholders.rules import Accelerator


@pytest.mark.parametrize(
    ("text", "mark", "plain"),
    [
        ("_File", "_", "File"),
        ("Save &As…", "&", "Save As…"),
        ("E_xit", "_", "Exit"),
        ("Open _{name}", "_", None),
        ("R&D", "&", None),
        ("Tom & Jerry", "&", None),
        ("a&nbsp;b", "&", None),
        ("{my_name} is here", "_", None),
        ("_one _two", "_", None),
        ("__init", "_", None),
    ],
)
def test_accelerator_is_removed(text: str, mark: Accelerator, plain: str | None) -> None:
    found = remove_accelerator(text, mark)
    assert (found.text if found else None) == plain


@pytest.mark.parametrize(
    ("text", "translation", "marked"),
    [
        ("_File", "Fichier", "_Fichier"),
        ("_File", "Datei öffnen für", "Datei öffnen _für"),
        ("E_xit", "Beenden", "_Beenden"),
        ("_Print", "Imprimir", "Im_primir"),
        ("_File", "Файл", "_Файл"),
        ("_File…", "ファイル…", "ファイル(_F)…"),
        ("_Delete", "%d löschen", "_%d"),
    ],
)
def test_accelerator_is_put_before_a_letter(text: str, translation: str, marked: str) -> None:
    found = remove_accelerator(text, "_")
    assert found is not None
    expected = "%d _löschen" if marked == "_%d" else marked
    assert found.restore(translation) == expected


@pytest.mark.parametrize(
    ("texts", "mark"),
    [
        (["_File", "Save _As", "E_xit", "Quit"], "_"),
        (["&File", "&Open", "R&D"], "&"),
        (["snake_case", "other_name", "AT&T"], None),
        (["_File", "Quit"], None),
    ],
)
def test_mark_of_a_file_is_that_of_several_texts(texts: list[str], mark: Accelerator | None) -> None:
    assert recognize_accelerator(texts) == mark


@pytest.mark.parametrize(
    ("texts", "mark"), [(["Save &As...", "Two dogs"], "&"), (["_name"], None), (["salt & pepper", "R&D", "&lt;"], None)]
)
def test_one_ampersand_before_a_word_marks_a_file(texts: list[str], mark: Accelerator | None) -> None:
    assert recognize_accelerator(texts) == mark
