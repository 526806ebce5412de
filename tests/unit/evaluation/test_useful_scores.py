"""Judgment of scores that are too low for a useful model."""

import pytest

from dragoman.evaluation import Baseline, Bleu, Chrf, ChrfPlusPlus, Rouge, Score, Ter, corpus_score
from dragoman.evaluation.classification_metrics import classification_scores
from dragoman.evaluation.useful_scores import LIMITS, reasons_against


def score(metric, value, *, higher_is_better=True, baseline=None):
    return Score(metric, value, "signature", "", higher_is_better, baseline)


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ({"BLEU": 2.6, "chrF2": 19.0}, 2),
        ({"BLEU": 2.6, "chrF2": 45.0}, 0),  # such as Chinese, whose words 13a does not split
        ({"exact": 0.5, "BLEU": 31.0}, 0),
        ({"exact": 0.5}, 0),
        ({"EM": 3.96, "F1": 11.32}, 1),
        ({"perplexity": 900.0}, 0),
        ({}, 0),
    ],
)
def test_model_is_judged_by_its_best_metric(values, count):
    assert len(reasons_against([score(*one) for one in values.items()])) == count


def test_reasons_name_score_limit_and_why():
    assert reasons_against([score("BLEU", 2.6)]) == [
        "BLEU is 2.60, useful models have 10 or more: hardly any output keeps the meaning of its source"
    ]
    [reason] = reasons_against([score("TER", 101.0, higher_is_better=False)])
    assert reason.startswith("TER is 101.00, useful models have 90 or less: ")


@pytest.mark.parametrize(("correct", "useful"), [(70, False), (72, False), (74, True), (100, True)])
def test_accuracy_is_compared_with_the_most_frequent_label(correct, useful):
    expected = ["a"] * 70 + ["b"] * 30
    scores = classification_scores(["a"] * 70 + ["b"] * (correct - 70) + ["a"] * (100 - correct), expected)
    assert scores[0].baseline == Baseline(70.0, "the most frequent label")
    reasons = (
        [] if useful else [f"accuracy is {correct:.2f}, useful models have 73 or more: the most frequent label has 70"]
    )
    assert reasons_against(scores) == reasons


@pytest.mark.parametrize(("loss", "useful"), [(5.0, False), (4.6, False), (4.4, True)])
def test_loss_is_compared_with_token_frequencies(loss, useful):
    baseline = Baseline(5.0, "a model of token frequencies")
    assert (reasons_against([score("loss", loss, higher_is_better=False, baseline=baseline)]) == []) == useful


def test_limits_have_the_names_of_the_metrics():
    texts = ["the cat sat on the mat", "a dog"]
    metrics = (Bleu(), Chrf(), ChrfPlusPlus(), Ter(), Rouge())
    found = {corpus_score(texts, [texts], metric).metric for metric in metrics}
    assert found | {"F1"} == LIMITS.keys()
