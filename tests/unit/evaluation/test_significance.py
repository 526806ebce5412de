import os
import random

import pytest
from sacrebleu.significance import PairedTest

from dragoman.errors import DataError
from dragoman.evaluation import Bleu, Chrf, ChrfPlusPlus, ExactMatch, PairedResult, Ter, compare_systems
from dragoman.evaluation.metrics import build_metric

WORDS = [f"w{number}" for number in range(23)]


def noisy(sentences, *, share, seed):
    generator = random.Random(seed)
    return [
        " ".join(generator.choice(WORDS) if generator.random() < share else word for word in sentence.split())
        for sentence in sentences
    ]


@pytest.fixture(scope="module")
def reference():
    generator = random.Random(1)
    return [" ".join(generator.choices(WORDS, k=generator.randint(5, 13))) for _ in range(53)]


@pytest.mark.parametrize("metric", [Bleu(), Chrf(), ChrfPlusPlus()], ids=lambda metric: metric.kind)
def test_tests_without_ties_agree_with_sacrebleu(metric, reference, monkeypatch):
    monkeypatch.setenv("SACREBLEU_SEED", "7")
    systems = {"one": noisy(reference, share=0.3, seed=2), "two": noisy(reference, share=0.4, seed=3)}
    baseline, ours = compare_systems(systems, [reference], [metric], seed=7, resamples=211, trials=499)
    named = list(systems.items())
    drawn = PairedTest(named, {"x": build_metric(metric)}, [reference], test_type="bs", n_samples=211)()[1][ours.metric]
    swapped = PairedTest(named, {"x": build_metric(metric)}, [reference], test_type="ar", n_samples=499)()[1][
        ours.metric
    ]
    assert [baseline.score, ours.score] == pytest.approx([result.score for result in drawn])
    assert [baseline.mean, ours.mean] == pytest.approx([result.mean for result in drawn], rel=1e-5)
    assert [baseline.confidence, ours.confidence] == pytest.approx([result.ci for result in drawn], rel=1e-5)
    assert ours.p_bootstrap == drawn[1].p_value
    assert ours.p_randomization == swapped[1].p_value


def test_system_compared_with_itself_has_p_one(reference):
    outputs = noisy(reference, share=0.3, seed=2)
    _, twin = compare_systems({"one": outputs, "copy": list(outputs)}, [reference], [Bleu()], resamples=101, trials=101)
    assert (twin.difference, twin.p_bootstrap, twin.p_randomization) == (0.0, 1.0, 1.0)
    assert twin.verdict() == "no difference"


def test_randomization_of_three_sentences_by_hand():
    """A is right three times, B never; of the 8 ways to swap, two (none, all) are as far apart: p = 1/4."""
    _, row = compare_systems({"A": ["a", "b", "c"], "B": ["x", "x", "x"]}, [["a", "b", "c"]], [ExactMatch()])
    assert row.difference == pytest.approx(-100.0)
    assert row.p_randomization == pytest.approx(1 / 4, abs=0.02)
    assert row.p_bootstrap == pytest.approx(1 / 1001)  # every sample differs by 100, never by 100 more than that
    assert row.verdict() == "no difference"


def test_difference_in_one_sentence_is_not_significant():
    """Swapped or not, the two differ by that sentence: every trial ties with what was observed."""
    right, wrong = ["a"] * 29, ["b", *["a"] * 28]
    _, row = compare_systems({"A": wrong, "B": right}, [right], [ExactMatch()], trials=307)
    assert row.p_randomization == 1.0


def test_verdict_respects_lower_is_better(reference):
    good, bad = noisy(reference, share=0.05, seed=4), noisy(reference, share=0.8, seed=5)
    rows = compare_systems({"bad": bad, "good": good}, [reference], [Bleu(), Ter()], resamples=101, trials=101)
    assert [(row.system, row.metric, row.verdict()) for row in rows] == [
        ("bad", "BLEU", "baseline"),
        ("good", "BLEU", "better"),
        ("bad", "TER", "baseline"),
        ("good", "TER", "better"),
    ]
    rows = compare_systems({"good": good, "bad": bad}, [reference], [Ter()], resamples=101, trials=101)
    assert rows[1].difference > 0
    assert rows[1].verdict() == "worse"


@pytest.mark.parametrize(("p_bootstrap", "p_randomization"), [(0.04, 0.06), (0.06, 0.04)])
def test_verdict_needs_both_tests(p_bootstrap, p_randomization):
    row = PairedResult("B", "BLEU", 30.0, 30.0, 1.0, 2.0, p_bootstrap, p_randomization, True, "")
    assert row.verdict() == "no difference"
    assert row.verdict(level=0.07) == "better"


def test_signature_contains_seed_and_trials(reference, monkeypatch):
    monkeypatch.setenv("SACREBLEU_SEED", "99")
    systems = {"one": noisy(reference, share=0.3, seed=2), "two": noisy(reference, share=0.32, seed=3)}
    first, again, other = (
        compare_systems(systems, [reference], [Bleu()], seed=seed, resamples=101, trials=103) for seed in (5, 5, 6)
    )
    assert first == again
    assert first[1].mean != other[1].mean
    assert "bs:101|ar:103|seed:5|" in first[0].signature
    assert os.environ["SACREBLEU_SEED"] == "99"


def test_invalid_comparison_is_an_error():
    with pytest.raises(DataError, match="at least two systems"):
        compare_systems({"A": ["a"]}, [["a"]], [Bleu()])
    with pytest.raises(DataError, match="reference 1: 2 sentences, but B has 1"):
        compare_systems({"A": ["a", "b"], "B": ["a"]}, [["a", "b"]], [Bleu()])
