"""Every scanner, reader and recognizer of text takes linear time, whatever the text contains."""

import random
import warnings
from itertools import islice

import pytest

from tests.linear_time import MAX_RATIO, SCANNERS, Scanner, growth, units

INPUTS = 4
"""Inputs of a scanner, chosen from its fragments and pairs of them."""
WORST = {
    "html page": ["<a", "</1", "<b>a</b> ", "<select>a</select>"],
    "read_tags html": ['<a" "\'', "<a' '\""],
    "read_tags xml": ['<a" "\'', "<a' '\""],
    "inline html": ["<b>a</b> ", "&nbsp;", '"</a>'],
    "inline xml": ["<b>a</b> ", "&#160;"],
    "plain text": [" ", "\t\u00a0"],
    "srt": [")", "<a"],
    "cut_text": ["あ", "a ", "- "],
    "json": ['"a_one":"a","a_other":"b",'],
    "android": ["<b>a</b>"],
    "xliff": ['<g id="1">a</g>', "<x/>"],
    "find_placeholders": ['"`"+"\' ', "`' ", "*"],
    "number_placeholders": ["%s", "%0", "<b>"],
    "protect_placeholders": ["%s", "{0} a ", "<b>"],
    "icu messages": ["{a,select,other{x}}"],
    "accelerators": [" ", ". "],
    "split_sentences": ["'", "A. "],
    "check_translation": ["@", "a@", "1234 "],
    "words": [".", "-a"],
    "translation memory": ["a", "a b "],
}
"""Inputs that once took quadratic time, or more."""


@pytest.mark.parametrize("scanner", SCANNERS, ids=lambda scanner: scanner.name)
def test_time_is_linear_in_adversarial_input(scanner: Scanner) -> None:
    choices = list(units(scanner.fragments))
    random.Random(scanner.name).shuffle(choices)
    chosen = [*WORST.get(scanner.name, []), *islice(choices, INPUTS)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        slow = {
            (unit, frame): ratio
            for number, unit in enumerate(chosen)
            for frame in [scanner.frames[number % len(scanner.frames)]]
            if (ratio := growth(scanner, unit, frame)[0]) > MAX_RATIO
        }
    assert not slow
