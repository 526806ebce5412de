"""Checks of translations without references: each kind of error, and good translations that look like one."""

import doctest

import pytest

import dragoman.evaluation.script_statistics
import dragoman.evaluation.translation_checks
from dragoman.evaluation.script_statistics import comparable_length, count_scripts, script_of
from dragoman.evaluation.translation_checks import NO_STATISTICS, TextStatistics, check_translation, log_length_ratio

SOURCE = "Please restart the computer and wait until the light is green."
GOOD = "Bitte starten Sie den Computer neu und warten Sie, bis das Licht grün ist."


def kinds(source: str, translation: str, statistics: TextStatistics = NO_STATISTICS) -> list[str]:
    return [one.kind for one in check_translation(source, translation, statistics)]


def test_docstring_examples():
    for module in (dragoman.evaluation.translation_checks, dragoman.evaluation.script_statistics):
        assert doctest.testmod(module).attempted > 0
        assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize(
    ("translation", "kind"),
    [
        ("", "empty"),
        (" ", "empty"),
        (SOURCE, "copied"),
        ("Bitte restart the computer and wait bis the light grün ist.", "copied"),
        ("Bitte starten Sie neu, dann kommt das Licht: and wait until the light ist grün, und warten Sie.", "copied"),
        ("Bitte starten Sie den Computer, den Computer, den Computer neu, bis das Licht grün ist.", "repeated"),
        ("Bitte starten Sie den Computer neu neu neu und warten Sie, bis das Licht grün ist.", "repeated"),
        ("Bitte neustarten und wartenenenenenenen Sie auf das grüne Licht.", "repeated"),
        ("Bitte neu.", "length"),
        (f"{GOOD} {GOOD.replace('Licht', 'Auge')} Das Ende kommt, und alle wissen davon nichts.", "length"),
        ("Пожалуйста, starten Sie den Computer neu und warten Sie, bis das Licht grün ist.", "script"),
    ],
)
def test_each_kind_of_error_is_found(translation: str, kind: str):
    assert kinds(SOURCE, translation) == [kind]


@pytest.mark.parametrize(
    ("source", "translation"),
    [
        (SOURCE, GOOD),
        ("", ""),
        ("…", ""),
        ("Angela Merkel visits New York", "Angela Merkel besucht New York"),
        ("Hotel Berlin", "Hotel Berlin"),
        ("virus", "virus"),
        ("3 × 4 = 12", "3 × 4 = 12"),
        ("bye bye bye", "tschüss tschüss tschüss"),
        (
            "A boy and a girl walk hand in hand in a street.",
            "Ein Junge und ein Mädchen gehen Hand in Hand in einer Straße.",
        ),
        ("Haaaaaaaaa!", "Haaaaaaaaa!"),
        ("It costs 1000000 dollars.", "Es kostet 1000000 Dollar."),
        ("It is raining.", "雨が降っています。"),
        ("Two dogs are playing in the snow.", "两只狗在雪地里玩耍。"),
        (
            "Open <b>the file</b> at https://example.org/the/file",
            "Öffne <b>die Datei</b>: https://example.org/the/file",
        ),
        ("You must specify -c, -t, -u, -l or a list.", "Sie müssen -c, -t, -u, -l oder eine Liste angeben."),
        ("The letter Ω is Greek.", "Der Buchstabe Ω ist griechisch."),
    ],
)
def test_good_translations_have_no_warning(source: str, translation: str):
    assert kinds(source, translation) == []


def test_statistics_of_a_model_decide_about_script_length_and_copies():
    russian = TextStatistics(scripts=("CYRILLIC",))
    assert kinds("Open the file.", "Öffne die Datei.", russian) == ["script"]
    assert kinds("Open the file.", "Откройте файл Word.", russian) == []
    short = TextStatistics(mean_log_ratio=-1.5, max_deviation=0.5)
    assert kinds(SOURCE, "Bitte neu.", short) == []
    assert "length" in kinds(SOURCE, GOOD, short)
    assert kinds(SOURCE, SOURCE.replace("restart", "to restart"), TextStatistics(copies=True)) == []


def test_messages_show_what_was_found():
    [one] = check_translation(SOURCE, "Bitte starten Sie den Computer neu neu neu, bis das Licht grün ist.")
    assert one.message == "“neu” is repeated 3 times."
    [one] = check_translation(SOURCE, f"{SOURCE} Das ist gut.")
    assert one.message == "11 of 14 words are those of the source."


def test_scripts_and_lengths():
    assert [script_of(one) for one in "aß1 你ひ한ю"] == ["LATIN", "LATIN", "", "", "CJK", "CJK", "CJK", "CYRILLIC"]
    assert count_scripts("aя") == {"LATIN": 1, "CYRILLIC": 1}
    assert comparable_length("ab 12, 你") == 6.5
    assert log_length_ratio("abc", "abc") == 0
    assert log_length_ratio("abc", "abcdef") == -log_length_ratio("abcdef", "abc") > 0
