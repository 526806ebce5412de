"""Error analysis: every fault in a test set made up for it, and numbers that can be counted by hand."""

import doctest

import pytest

import dragoman.evaluation.error_analysis
from dragoman.errors import DataError
from dragoman.evaluation import Bleu, corpus_score
from dragoman.evaluation.error_analysis import analyze_errors, count_words, is_copy, is_repetitive, words

SOURCES = ["two dogs play", "a man sees 7 cats in Berlin", "the cat", "a house", "a b c d e f g h i j k"]
REFERENCES = [
    "zwei Hunde spielen",
    "ein Mann sieht 7 Katzen in Berlin",
    "die Katze",
    "ein Haus",
    "A b c d e f g h i j k",
]
OUTPUTS = ["zwei Hunde spielen", "ein Mann sieht 8 Katzen in London", "", "a house", "A b A b c d e f g h i"]
TRAINING = ["zwei zwei Hunde spielen", "ein Mann sieht ein Haus", "ein Mann"]


def found():
    return analyze_errors(
        "ours", OUTPUTS, sources=SOURCES, references=REFERENCES, frequencies=count_words(TRAINING), worst=2
    )


def test_docstring_examples():
    assert doctest.testmod(dragoman.evaluation.error_analysis).attempted > 0
    assert doctest.testmod(dragoman.evaluation.error_analysis).failed == 0


def test_length_groups_contain_every_sentence_once():
    analysis = found()
    assert [(one.name, one.sentences) for one in analysis.by_length] == [("1 to 5", 3), ("6 to 10", 1), ("11 to 15", 1)]
    assert analysis.overall.sentences == 5
    assert analysis.overall.bleu == pytest.approx(corpus_score(OUTPUTS, [REFERENCES], Bleu()).value)
    short = [0, 2, 3]
    again = corpus_score([OUTPUTS[n] for n in short], [[REFERENCES[n] for n in short]], Bleu())
    assert analysis.by_length[0].bleu == pytest.approx(again.value)


def test_word_accuracy_by_frequency():
    """Of the references, Mann (2) and zwei (2) are in the group of 2 to 4 with ein (3 in training, twice wanted)."""
    groups = {one.name: one for one in found().by_frequency}
    assert list(groups) == ["never", "once", "2 to 4", "5 to 19", "20 to 99", "100 to 999", "1,000 and more"]
    assert (groups["2 to 4"].in_references, groups["2 to 4"].in_both) == (4, 3)
    assert groups["once"].recall == pytest.approx(3 / 4)  # Hunde, spielen, sieht; not Haus
    assert groups["100 to 999"].recall is None
    assert sum(one.in_references for one in groups.values()) == sum(len(words(text)) for text in REFERENCES)


def test_word_accuracy_by_kind():
    kinds = {one.name: one for one in found().by_kind}
    assert (kinds["with a digit"].in_references, kinds["with a digit"].in_outputs, kinds["with a digit"].in_both) == (
        1,
        1,
        0,
    )
    copies = kinds["also in the source"]
    assert (copies.in_references, copies.in_both) == (3 + 10, 1 + 8)  # 7, in and Berlin, of which "in" is there; b to k
    assert kinds["capitalized"].precision == pytest.approx(4 / 6)


def test_output_errors():
    faults = found().errors
    assert (faults.empty, faults.repetitive, faults.copied) == ((2,), (4,), (3,))


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("a a", False),
        ("a a a", True),
        ("a b a b", True),
        ("a b c a b", False),
        ("a b c d, a b c d.", True),
        ("", False),
    ],
)
def test_is_repetitive(output, expected):
    assert is_repetitive(output) is expected


def test_copied_names_are_not_a_copy():
    assert not is_copy("Berlin Paris", "Berlin Paris", "Berlin Paris")
    assert is_copy("two dogs", "zwei Hunde", "two Hunde")
    assert not is_copy("two dogs", "zwei Hunde", "")


def test_worst_sentences_come_first():
    worst = found().worst
    assert [one.index for one in worst] == [2, 3]
    assert (worst[1].source, worst[1].reference, worst[1].output) == ("a house", "ein Haus", "a house")
    assert worst[0].chrf == 0.0


def test_no_frequency_groups_without_frequencies():
    analysis = analyze_errors("ours", OUTPUTS, sources=SOURCES, references=REFERENCES)
    assert analysis.by_frequency == ()


def test_unequal_numbers_of_sentences_are_an_error():
    with pytest.raises(DataError, match="sources: 1 sentence, but ours has 2"):
        analyze_errors("ours", ["a", "b"], sources=["a"], references=["a", "b"])
