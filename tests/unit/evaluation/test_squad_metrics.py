"""Exact match and F1 of answers: every value follows from the definition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.evaluation.squad_metrics import exact_match, normalize_answer, span_f1, span_scores


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("The  Cat's, hat!", "cats hat"),
        ("an A-B", "ab"),  # punctuation is removed, not replaced by a space
        ("Theatre and another", "theatre and another"),  # articles are whole words
        ("the (a) an", ""),
        ("a.b a", "ab"),
        ("24–10", "24–10"),  # a dash is no ASCII punctuation
        (" \t\u00a0x\ny ", "x y"),
        ("$5,000", "5000"),
        ("ÉCOLE the", "école"),
    ],
)
def test_normalize_answer(answer, expected):
    assert normalize_answer(answer) == expected


@pytest.mark.parametrize(
    ("answer", "references", "exact", "f1"),
    [
        ("the Denver Broncos", ["Denver Broncos"], 1, 1),
        ("Denver", ["Denver Broncos"], 0, 2 * 1 * 0.5 / 1.5),
        ("Denver Broncos won", ["Denver Broncos"], 0, 0.8),  # 2 of 3 and 2 of 2
        ("to to", ["to be"], 0, 0.5),  # a word counts as often as it is in both
        ("be to", ["to be"], 0, 1),  # F1 knows no order
        ("Carolina", ["Denver Broncos", "Carolina Panthers", "Carolina"], 1, 1),  # the best reference
        ("x", ["y"], 0, 0),
        ("", ["y"], 0, 0),
        ("the", ["y"], 0, 0),
        ("", [], 1, 1),  # no answer is right where there is none
        ("the", [], 1, 1),  # for it says nothing
        ("x", [], 0, 0),
        ("", ["the", "!"], 1, 1),  # of these references nothing is left
        ("x", ["the", "x"], 1, 1),
        ("the", ["the", "x"], 0, 0),
    ],
)
def test_scores_of_single_answers(answer, references, exact, f1):
    assert exact_match(answer, references) == exact
    assert span_f1(answer, references) == pytest.approx(f1)


def test_scores_are_means_in_percent():
    answers = ["the Denver Broncos", "Denver Broncos won", "x"]
    exact, f1 = span_scores(answers, [["Denver Broncos"]] * 2 + [["y", "z"]])
    assert (exact.metric, exact.value) == ("EM", pytest.approx(100 / 3))
    assert (f1.metric, f1.value) == ("F1", pytest.approx(100 * 1.8 / 3))
    assert f1.signature == "questions:3|unanswerable:0|normalization:squad|refs:best"
    assert f1.detail == ""
    assert f1.higher_is_better


def test_details_separate_unanswerable_questions():
    exact, _ = span_scores(["x", "", "y", ""], [["x"], ["x"], [], []])
    assert exact.value == pytest.approx(50)
    assert exact.signature.startswith("questions:4|unanswerable:2|")
    assert exact.detail == "(answerable 50.00 of 2, unanswerable 50.00 of 2)"
    alone, _ = span_scores([""], [[]])
    assert alone.detail == "(unanswerable 100.00 of 1)"


@pytest.mark.parametrize(
    ("answers", "references", "message"),
    [(["x"], [], "1 answer for 0 questions"), ([], [], "no questions to score")],
)
def test_invalid_input_is_an_error(answers, references, message):
    with pytest.raises(DataError, match=message):
        span_scores(answers, references)


words = st.lists(st.sampled_from(["the", "Cat", "cat.", "sat", "an", "ß", "3"]), max_size=7).map(" ".join)


@given(answer=words, references=st.lists(words, max_size=3))
def test_f1_bounds_and_monotonicity_in_references(answer, references):
    assert exact_match(answer, references) <= span_f1(answer, references) <= 1
    if any(normalize_answer(reference) for reference in references):
        assert span_f1(answer, [*references, answer]) >= span_f1(answer, references)


@given(answer=words, reference=words)
def test_f1_is_symmetric(answer, reference):
    if normalize_answer(answer) and normalize_answer(reference):
        assert span_f1(answer, [reference]) == span_f1(reference, [answer])
