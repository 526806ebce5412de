"""Phrases as people type them mean what the phrases of the CLDR mean."""

import datetime
import random
import re

import pytest

from dragoman_demo import phrases
from dragoman_demo.normalized_comparison import normal
from dragoman_demo.typed_variants import ordinal, type_variant


def variants(phrase: str) -> set[str]:
    draw = random.Random(3)
    return {type_variant(phrase, draw) for _ in range(3000)}


@pytest.mark.parametrize(
    ("phrase", "typed"),
    [
        ("March 4, 2031", {"4 March 2031", "March 4th, 2031", "4th of March 2031", "march 4 2031"}),
        ("Tuesday, March 4, 2031, 5:00 PM", {"Tuesday, March 4, 2031 at 5 PM", "5 PM on Tuesday, March 4, 2031"}),
        ("5:05 PM", {"5:05pm", "17:05", "5:05 p.m."}),
        ("12:00 AM", {"12am", "00:00"}),
        ("9:00 AM – 5:00 PM", {"9am-5pm", "from 9 AM to 5 PM", "9:00 AM to 5:00 PM"}),
        ("9:00 – 11:30 AM", {"9-11:30am", "9 AM to 11:30 AM"}),
        ("3/4/2031", {"2031-03-04"}),
        ("2 days ago", {"two days ago"}),
        ("1,234,567.5", {"1234567.5"}),
        ("12.5%", {"12.5 percent", "12.5 %"}),
        ("2.5 kilometers", {"2.5 kilometres"}),
        ("Monday, Friday, and Sunday", {"Monday, Friday and Sunday"}),
        ("1st quarter 2031", {"Q1 2031"}),
    ],
)
def test_phrases_are_typed_in_several_ways(phrase, typed):
    found = variants(phrase)
    assert typed <= found
    assert phrase in found


@pytest.mark.parametrize("phrase", ["$1,234.50", "French or Japanese", "Mar 4 – 7, 2031", "12 km", "−5"])
def test_other_parts_stay(phrase):
    assert {re.sub(r"\D", "", variant) for variant in variants(phrase)} == {re.sub(r"\D", "", phrase)}


def test_clocks_keep_their_time():
    for minute in range(0, 24 * 60, 7):
        clock = (datetime.datetime(2031, 3, 4) + datetime.timedelta(minutes=minute)).strftime("%I:%M %p").lstrip("0")
        for variant in variants(clock):
            text = variant.replace(".", "").replace(" ", "").upper()
            pattern = "%H:%M" if "M" not in text else "%I:%M%p" if ":" in text else "%I%p"
            assert datetime.datetime.strptime(text, pattern).strftime("%H:%M") == f"{minute // 60:02}:{minute % 60:02}"


def test_ordinals():
    assert [ordinal(day) for day in ("1", "2", "3", "4", "11", "12", "13", "21", "22", "23", "30")] == [
        *("1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "23rd", "30th")
    ]


def test_each_typed_phrase_has_one_target():
    corpus = list(phrases(5000, seed=11))
    assert len({normal(phrase.source) for phrase in corpus}) == len(corpus)
    typed = [phrase for phrase in corpus if re.search(r"\d(am|pm)|\d(st|nd|rd|th) (of )?[A-Z]|\bat \d", phrase.source)]
    assert len(typed) > 150
