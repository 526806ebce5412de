"""Plain text and subtitles: what is a unit, and which bytes a translation changes."""

import pytest

from dragoman.data.documents.document import UnitTranslation, identity
from dragoman.data.documents.recognize import open_document
from dragoman.data.documents.texts.subtitles import Subtitles, cut_text
from dragoman.errors import DataError


def sources(content: str, name: str) -> list[str]:
    document = open_document(content.encode(), name=name)
    assert identity(document) == content.encode()
    return [unit.source for unit in document.units]


def fill(content: str, name: str, *translations: str) -> str:
    document = open_document(content.encode(), name=name)
    return document.fill([UnitTranslation(text=one) for one in translations]).decode()


def srt(*cues: str) -> str:
    return "\n".join(
        f"{n}\n00:00:{2 * n:02},000 --> 00:00:{2 * n + 2:02},000\n{cue}\n" for n, cue in enumerate(cues, 1)
    )


def test_lines_are_units_and_wrapped_paragraphs_are_one() -> None:
    text = (
        "Title\r\n\r\n  * This is a paragraph that a program has\r\n    wrapped at a width of about forty-two\r\n    "
        "characters, and it ends here.\r\n\r\nMilk\r\nBread\r\n42\r\n"
    )
    assert sources(text, "a.txt") == [
        "Title",
        "* This is a paragraph that a program has wrapped at a width of about forty-two characters, and it ends here.",
        "Milk",
        "Bread",
    ]
    filled = fill(text, "a.txt", "Titel", "* " + "zehn Worte " * 6, "Milch", "Brot")
    assert filled == (
        "Titel\r\n\r\n  * zehn Worte zehn Worte zehn Worte zehn\r\n    Worte zehn Worte zehn Worte\r\n\r\n"
        "Milch\r\nBrot\r\n42\r\n"
    )


def test_byte_order_mark_and_utf16_stay() -> None:
    content = "\ufeffGuten Tag\n".encode("utf-16-le")
    document = open_document(content, name="a.txt")
    assert document.fill([UnitTranslation(text="Hello")]) == "\ufeffHello\n".encode("utf-16-le")


def test_lines_of_a_cue_are_joined_and_wrapped_again() -> None:
    content = srt("He went to\nthe old shop.")
    assert sources(content, "a.srt") == ["He went to the old shop."]
    long = "Er ging in den alten Laden, weil er dort etwas kaufen wollte."
    assert "\nEr ging in den alten Laden,\nweil er dort etwas kaufen wollte.\n" in fill(content, "a.srt", long)


def test_a_sentence_over_cues_is_translated_as_one_and_cut_again() -> None:
    content = srt("I never thought,", "that you would come.", "Hello!")
    assert sources(content, "a.srt") == ["I never thought, that you would come.", "Hello!"]
    assert fill(content, "a.srt", "Nie dachte ich, dass du kommst.", "Hallo!") == srt(
        "Nie dachte ich,", "dass du kommst.", "Hallo!"
    )


def test_a_pause_or_another_style_ends_a_sentence() -> None:
    late = "1\n00:00:01,000 --> 00:00:02,000\nI saw\n\n2\n00:00:09,000 --> 00:00:10,000\nthe sea\n"
    assert sources(late, "a.srt") == ["I saw", "the sea"]
    assert sources(srt("I saw", "<i>the sea</i>"), "a.srt") == ["I saw", "the sea"]
    assert sources(srt("<i>I saw</i>", "<i>the sea</i>"), "a.srt") == ["I saw the sea"]


def test_a_translation_is_read_as_the_same_units() -> None:
    content = srt("we saw", "the sea", "New York", "is far").encode()
    source = Subtitles(content, format="srt")
    assert [unit.source for unit in source.units] == ["we saw the sea", "New York is far"]
    assert source.cues_per_unit == (2, 2)
    filled = source.fill([UnitTranslation(text="Wir sahen Das Meer"), UnitTranslation(text="dort ist es weit")])
    again = Subtitles(filled, format="srt", cues_per_unit=source.cues_per_unit)
    assert [unit.source for unit in again.units] == ["Wir sahen Das Meer", "dort ist es weit"]
    with pytest.raises(DataError, match="has 4 texts of cues, and its source 3"):
        Subtitles(filled, format="srt", cues_per_unit=(1, 2))


def test_a_cut_does_not_make_a_speaker() -> None:
    content = srt("One, two and three", "and four and five.")
    filled = fill(content, "a.srt", "Eins - zwei - drei - vier - fünf.")
    assert [unit.source for unit in open_document(filled.encode(), name="a.srt").units] == [
        "Eins - zwei - drei - vier - fünf."
    ]


def test_chinese_cues_are_joined_without_spaces() -> None:
    assert sources(srt("我从来没有\n想过，", "你会来。"), "a.srt") == ["我从来没有想过，你会来。"]
    assert "\n，" not in fill(srt("We came,", "we saw."), "a.srt", "我们来了，我们看见了。")


def test_speakers_of_a_dialog_are_separate() -> None:
    content = srt("- Are you coming?\n- Yes.")
    assert sources(content, "a.srt") == ["Are you coming?", "Yes."]
    assert fill(content, "a.srt", "Kommst du?", "Ja.") == srt("- Kommst du?\n- Ja.")


def test_styles_inside_of_a_cue_are_codes() -> None:
    content = srt("{\\an8}It is <i>very</i> late")
    assert sources(content, "a.srt") == ['It is <g id="1">very</g> late']
    filled = fill(content, "a.srt", 'Es ist <g id="1">sehr</g> spät & <b>')
    assert filled == srt("{\\an8}Es ist <i>sehr</i> spät & <b>").replace("&lt;b&gt;", "<b>")


VTT = """WEBVTT - Title

NOTE Text for nobody

STYLE
::cue { color: red }

intro
00:01.000 --> 00:02.000 align:start line:0
<v Roger>We &amp; <c.yellow>you</c>

00:02.000 --> 00:03.000
go <00:02.500>now
"""


def test_webvtt_keeps_settings_notes_styles_and_voices() -> None:
    assert sources(VTT, "a.vtt") == ['We &amp; <g id="1">you</g>', 'go <x id="1"/>now']
    filled = fill(VTT, "a.vtt", 'Wir &lt; <g id="1">ihr</g>', 'jetzt <x id="1"/>los')
    wanted = VTT.replace("We &amp; <c.yellow>you", "Wir &lt; <c.yellow>ihr").replace(
        "go <00:02.500>now", "jetzt <00:02.500>los"
    )
    assert filled == wanted


def test_a_number_without_an_empty_line_above_is_no_text() -> None:
    content = "1\n00:00:01,000 --> 00:00:02,000\nOne.\n2\n00:00:02,000 --> 00:00:03,000\nTwo.\n"
    assert sources(content, "a.srt") == ["One.", "Two."]


@pytest.mark.parametrize(
    ("text", "shares", "parts"),
    [
        ("a b c d", [1, 1], ["a b", "c d"]),
        ("eins, zwei drei vier", [1, 1], ["eins,", "zwei drei vier"]),
        ("one", [3, 1], ["one", "one"]),
        ("<i>a b</i> c", [2, 1], ["<i>a b</i>", "c"]),
        ("今日は天気がいい", [1, 1], ["今日は天", "気がいい"]),
    ],
)
def test_texts_are_cut_in_proportion(text: str, shares: list[int], parts: list[str]) -> None:
    assert cut_text(text, shares) == parts


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.srt", b"no cue here", "has no cue"),
        ("a.vtt", b"1\n00:00:01,000 --> 00:00:02,000\nHi", "does not begin with WEBVTT"),
        ("a.txt", b"\xff\xfa", "is not UTF-8 text"),
    ],
)
def test_other_files_are_refused(name: str, content: bytes, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        open_document(content, name=name)
