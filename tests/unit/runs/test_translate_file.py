"""Translation of files: which units are translated, by what, and how they are marked."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import dragoman
from dragoman import load
from dragoman.data.documents.recognize import open_document
from dragoman.data.documents.translation_memory import TranslationMemory
from dragoman.data.terminology.glossary import Glossary
from dragoman.inference.translator import Translator
from dragoman.runs.translate_file import FileOptions, FileTranslation, read_memory, translate_document
from tests.small_runs import dragoman as dragoman_command
from tests.unit.data.documents.samples import TMX, XLIFF_1
from tests.unit.data.documents.test_po import PO
from tests.unit.inference.test_translator import tokenizer, translator

__all__ = ["tokenizer"]
pytestmark = pytest.mark.filterwarnings("ignore:.*cut off:dragoman.inference.translation_result.TranslationWarning")
PLAIN = {"placeholders": False}
MENU = """#, fuzzy
msgid "two dogs"
msgstr "ein Hund"

msgid "the red dog"
msgstr "der rote Hund"

msgid "a dog"
msgstr ""

msgctxt "other"
msgid "a dog"
msgstr ""

msgid "…"
msgstr ""
"""


@pytest.fixture
def model(tokenizer) -> Translator:
    return translator(tokenizer)


def translated(model: Translator, text: str, name: str = "de.po", **options) -> FileTranslation:
    document = open_document(text.encode(), name=name, target_language="de")
    return translate_document(model, document, FileOptions(**options), stream_options=PLAIN)


def test_existing_translations_stay_unless_asked(model: Translator) -> None:
    origins = {
        only: [one.source for one in translated(model, MENU, only=only).report.segments]
        for only in ("untranslated", "needs_review", "all")
    }
    assert origins["untranslated"] == ["a dog", "a dog", "…"]
    assert origins["needs_review"] == ["two dogs", *origins["untranslated"]]
    assert origins["all"] == ["two dogs", "the red dog", *origins["untranslated"]]


def test_equal_texts_are_translated_once(model: Translator) -> None:
    seen = []

    def progress(results: Iterator, total: int) -> Iterator:
        seen.append(total)
        return results

    document = open_document(MENU.encode(), name="de.po")
    found = translate_document(model, document, FileOptions(only="all"), stream_options=PLAIN, progress=progress)
    assert seen == [3]
    assert found.report.counts["machine"] == 4
    assert found.report.counts["copied"] == 1
    expected = model.translate("a dog").text
    assert found.content.decode().count(f'msgid "a dog"\nmsgstr "{expected}"'.replace('""', '"')) == 2


def test_the_memory_comes_before_the_model(model: Translator) -> None:
    memory = TranslationMemory([("a  dog", "ein Hund"), ("the red dogs", "die roten Hunde")])
    found = translated(model, MENU, memory=memory, memory_threshold=0.8, only="all")
    by_source = {one.source: one for one in found.report.segments}
    assert (by_source["a dog"].origin, by_source["a dog"].needs_review) == ("memory", False)
    assert (by_source["the red dog"].origin, by_source["the red dog"].needs_review) == ("fuzzy_memory", True)
    assert by_source["the red dog"].similarity == pytest.approx(2 * 11 / 23)
    assert '#, fuzzy\nmsgid "the red dog"\nmsgstr "die roten Hunde"' in found.content.decode()
    assert 'msgid "a dog"\nmsgstr "ein Hund"' in found.content.decode()


@pytest.mark.parametrize(("review", "count"), [("all", 2), ("none", 0)])
def test_review_marks_translations(review: str, count: int, model: Translator) -> None:
    found = translated(model, MENU, review=review)
    assert found.report.counts["needs_review"] == count
    assert found.content.decode().count("#, fuzzy") == count + 1


def test_a_limit_of_length_gives_a_warning(model: Translator) -> None:
    short = XLIFF_1.replace('maxwidth="20"', 'maxwidth="1"')
    found = translated(model, short.replace('<g id="1">Enter</g>', "two").replace('<x id="2"/>', ""), "a.xlf")
    assert found.report.segments[0].warnings[-1] == "longer than 1 characters"
    assert "cut off" in found.report.segments[0].warnings[-2]
    assert 'state="needs-review-translation"' in found.content.decode()


def test_white_space_around_a_text_stays(model: Translator) -> None:
    text = 'msgid "  two dogs\\n"\nmsgstr ""\n'
    expected = model.translate("two dogs").text
    assert translated(model, text).report.segments[0].text == f"  {expected}\n"


def test_memories_are_read_from_several_formats(tmp_path: Path) -> None:
    (tmp_path / "a.tmx").write_text(TMX, encoding="utf-8")
    (tmp_path / "b.po").write_text(PO, encoding="utf-8")
    memory = read_memory([tmp_path / "a.tmx", tmp_path / "b.po"])
    assert memory.find("Quit").target == "Sair"
    assert memory.find("Open the file.").target == "Öffnen Sie die Datei."
    assert memory.find("Open the files.") is None
    assert memory.find("Open the files.", 0.9).source == "Open the file."


def test_terms_are_counted_and_missing_ones_marked(model: Translator) -> None:
    document = open_document(MENU.encode(), name="de.po")
    glossary = Glossary.from_pairs({"dog": "Hund|hund", "two": "zwei"})
    memory = TranslationMemory([("a dog", "ein Hund"), ("two dogs", "drei Hunde")])
    options = FileOptions(only="all", memory=memory)
    found = translate_document(
        model, document, options, stream_options={**PLAIN, "glossary": glossary, "glossary_mode": "soft"}
    )
    segments = {one.source: one for one in found.report.segments}
    assert (segments["a dog"].terms, segments["a dog"].missing_terms) == (1, ())
    assert not segments["a dog"].needs_review
    assert (segments["two dogs"].terms, segments["two dogs"].missing_terms) == (2, ("two", "dogs"))
    assert segments["two dogs"].needs_review
    assert "not translated as in the glossary: two" in segments["two dogs"].warnings
    assert found.report.counts["terms"] == 1 + 1 + 2 + 1
    assert found.report.counts["missing_terms"] == sum(len(one.missing_terms) for one in segments.values())


def test_a_term_has_one_word_in_a_file() -> None:
    trained = load(Path(__file__).parents[2] / "golden" / "run-1", Translator)
    texts = ["the small cat sleeps", "a cat", "two cats play", "the cat plays", "the cat"]
    po = "\n".join(f'msgid "{one}"\nmsgstr ""\n' for one in texts)
    document = open_document(po.encode(), name="de.po", target_language="de")
    options = {**PLAIN, "glossary": Glossary.from_pairs({"cat": "Haus|hund"})}
    free, found = (
        translate_document(trained, document, FileOptions(consistent_terms=one), stream_options=options).report
        for one in (False, True)
    )
    assert free.term_choices == []
    [choice] = found.term_choices
    assert (choice.source, len(choice.forms), choice.texts, choice.inconsistent) == ("cat", 1, 5, 0)
    words = [[form for form in ("Haus", "hund") if form in segment.text] for segment in found.segments]
    assert words == [list(choice.forms)] * 5
    assert choice.changed == sum(choice.forms[0] not in segment.text for segment in free.segments) > 0
    assert found.to_dict()["term_choices"][0]["changed"] == choice.changed
    assert found.counts["inconsistent_terms"] == 0


def test_placeholders_and_messages_of_files_stay_whole(model: Translator) -> None:
    source = '{"a": "the dog %s.", "b": "{n, plural,\\n one {# dog of {owner}}\\n other {# dogs}\\n}"}'
    document = open_document(source.encode(), name="de.json", target_language="de")
    found = translate_document(model, document, FileOptions()).content.decode()
    assert found.count("%s") == found.count("{owner}") == 1
    assert found.count('"{n, plural,\\n one {') == found.count("}\\n other {") == found.count('}\\n}"') == 1
    assert found.count("#") == 2


def test_python_translates_a_file_as_the_command_does(tmp_path: Path) -> None:
    run = Path(__file__).parents[2] / "golden" / "run-1"
    (tmp_path / "app.po").write_text(MENU, encoding="utf-8")
    arguments = ["--file", tmp_path / "app.po", "--only", "all", "--output", tmp_path / "command.po"]
    arguments += ["--report", tmp_path / "command.json", "--no-placeholders"]
    assert dragoman_command("translate", run, *arguments, cwd=tmp_path).returncode == 0
    translator = dragoman.load(run, dragoman.Translator)
    options = dragoman.FileOptions(only="all")
    translation = dragoman.translate_file(translator, tmp_path / "app.po", options, placeholders=False)
    translation.write(tmp_path / "python.po", report=tmp_path / "python.json")
    assert translation.report.counts["translated"] == 5
    for ending in ("po", "json"):
        assert (tmp_path / f"python.{ending}").read_bytes() == (tmp_path / f"command.{ending}").read_bytes()
    content = (tmp_path / "app.po").read_bytes()
    again = dragoman.translate_file(translator, content, options, name="app.po", placeholders=False)
    assert again.content == translation.content
