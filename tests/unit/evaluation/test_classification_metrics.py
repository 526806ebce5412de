"""Accuracy, F1 and the confusion matrix, worked by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.evaluation.classification_metrics import ConfusionMatrix, classification_scores, confusion_matrix

EXPECTED = ["a", "a", "a", "b", "b", "c"]
PREDICTED = ["a", "a", "b", "b", "c", "c"]


def test_matrix_rows_are_expected_and_columns_predicted():
    assert confusion_matrix(PREDICTED, EXPECTED) == ConfusionMatrix(("a", "b", "c"), ((2, 1, 0), (0, 1, 1), (0, 0, 1)))


def test_class_scores():
    a, b, c = confusion_matrix(PREDICTED, EXPECTED).classes()
    assert (a.precision, a.recall, a.f1) == pytest.approx((100, 200 / 3, 80))
    assert (b.precision, b.recall, b.f1) == pytest.approx((50, 50, 50))
    assert (c.precision, c.recall, c.f1) == pytest.approx((50, 100, 200 / 3))
    assert [(one.label, one.support, one.predicted) for one in (a, b, c)] == [("a", 3, 2), ("b", 2, 2), ("c", 1, 2)]


def test_accuracy_and_macro_f1():
    accuracy, macro = classification_scores(PREDICTED, EXPECTED)
    assert (accuracy.metric, accuracy.value) == ("accuracy", pytest.approx(100 * 4 / 6))
    assert (macro.metric, macro.value) == ("macro-F1", pytest.approx((80 + 50 + 200 / 3) / 3))
    assert accuracy.signature == "classes:3|examples:6"
    assert macro.signature == "classes:3|examples:6|average:macro|absent:left-out"
    assert accuracy.higher_is_better


def test_macro_f1_of_missed_and_absent_classes():
    found = confusion_matrix(["a", "a"], ["a", "b"], labels=["b", "a", "z"])
    assert [one.f1 for one in found.classes()] == pytest.approx([0, 200 / 3, 0])
    assert found.macro_f1 == pytest.approx(100 / 3)
    assert found.labels == ("b", "a", "z")


def test_table_shows_matrix_and_scores():
    assert confusion_matrix(PREDICTED, EXPECTED).table().splitlines() == [
        "expected  a  b  c  precision  recall    F1",
        "a         2  1  0      100.0    66.7  80.0",
        "b         0  1  1       50.0    50.0  50.0",
        "c         0  0  1       50.0   100.0  66.7",
    ]


@pytest.mark.parametrize(
    ("predicted", "expected", "message"),
    [
        (["a"], ["a", "b"], "1 predicted label for 2 examples"),
        ([], [], "no examples to score"),
        (["x"], ["a"], "label 'x' is not a class; the classes are a"),
    ],
)
def test_invalid_input_is_an_error(predicted, expected, message):
    with pytest.raises(DataError, match=message):
        confusion_matrix(predicted, expected, labels=["a"])


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.sampled_from("abcde")), min_size=1, max_size=53))
def test_scores_follow_their_definitions(pairs):
    expected, predicted = zip(*pairs, strict=True)
    found = confusion_matrix(predicted, expected)
    assert found.accuracy == pytest.approx(100 * sum(e == p for e, p in pairs) / len(pairs))
    for one in found.classes():
        true_positives = sum(e == p == one.label for e, p in pairs)
        false_positives = sum(p == one.label != e for e, p in pairs)
        false_negatives = sum(e == one.label != p for e, p in pairs)
        assert one.precision == pytest.approx(100 * true_positives / max(1, true_positives + false_positives))
        assert one.recall == pytest.approx(100 * true_positives / max(1, true_positives + false_negatives))
        if one.precision + one.recall:
            assert one.f1 == pytest.approx(2 * one.precision * one.recall / (one.precision + one.recall))
        else:
            assert one.f1 == 0
    assert found.macro_f1 == pytest.approx(sum(one.f1 for one in found.classes()) / len(set(expected + predicted)))
