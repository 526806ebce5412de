"""Properties of every metric for any text. The numbers of sentences are distinct primes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.evaluation import (
    Bleu,
    Chrf,
    ChrfPlusPlus,
    ExactMatch,
    Ter,
    compare_systems,
    corpus_score,
    sentence_scores,
)
from tests.property_settings import examples

METRICS = [Bleu(tokenize="none"), Bleu(), Chrf(), ChrfPlusPlus(), Ter(), ExactMatch()]
words = st.sampled_from(["a", "b", "cat", "Dog", "zwölf", "«", "!", "3.5"])
sentence = st.lists(words, min_size=4, max_size=11).map(" ".join)


def corpora(sentences: int, columns: int):
    """Draw aligned texts: the outputs, then `columns` references."""
    return st.tuples(*[st.lists(sentence, min_size=sentences, max_size=sentences) for _ in range(columns)])


every_metric = pytest.mark.parametrize(
    "metric", METRICS, ids=lambda metric: "-".join(map(str, metric.model_dump().values()))
)


@every_metric
@given(texts=corpora(5, 2))
@examples(30)
def test_a_perfect_output_has_the_best_score(metric, texts):
    reference, other = texts
    best = corpus_score(reference, [other, reference], metric)
    assert best.value == pytest.approx(100.0 if best.higher_is_better else 0.0)


@every_metric
@given(texts=corpora(5, 3))
@examples(30)
def test_scores_stay_within_their_bounds(metric, texts):
    outputs, *references = texts
    scores = [corpus_score(outputs, references, metric), *sentence_scores(outputs, references, metric)]
    assert all(score.value >= 0 for score in scores)
    assert all(score.value <= 100 + 1e-9 for score in scores if score.higher_is_better)


@every_metric
@given(texts=corpora(7, 3), order=st.permutations(range(7)))
@examples(30)
def test_sentence_order_is_irrelevant(metric, texts, order):
    outputs, *references = texts
    moved, *moved_references = [[text[row] for row in order] for text in texts]
    whole = corpus_score(outputs, references, metric)
    assert corpus_score(moved, moved_references, metric).value == pytest.approx(whole.value)
    alone = [score.value for score in sentence_scores(outputs, references, metric)]
    assert [s.value for s in sentence_scores(moved, moved_references, metric)] == [alone[row] for row in order]


@every_metric
@given(texts=corpora(5, 2))
@examples(30)
def test_a_repeated_reference_changes_nothing(metric, texts):
    outputs, reference = texts
    once, twice = (corpus_score(outputs, [reference] * times, metric) for times in (1, 2))
    assert twice.value == pytest.approx(once.value)


@pytest.mark.parametrize("metric", [Chrf(), ChrfPlusPlus(), ExactMatch()], ids=lambda metric: metric.kind)
@given(texts=corpora(3, 3))
@examples(30)
def test_another_reference_never_lowers_a_sentence_score(metric, texts):
    """BLEU and TER are excluded, because their reference length changes with the references."""
    outputs, first, second = texts
    fewer, more = sentence_scores(outputs, [first], metric), sentence_scores(outputs, [first, second], metric)
    assert all(after.value >= before.value - 1e-9 for before, after in zip(fewer, more, strict=True))


@every_metric
@given(texts=corpora(3, 3))
@examples(30)
def test_corpus_of_one_sentence_equals_the_sentence(metric, texts):
    outputs, *references = texts
    alone = sentence_scores(outputs, references, metric)
    for row, score in enumerate(alone):
        corpus = corpus_score([outputs[row]], [[reference[row]] for reference in references], metric)
        assert corpus.value == pytest.approx(score.value)


@pytest.mark.parametrize("kind", [Bleu, Chrf, ChrfPlusPlus, Ter, ExactMatch])
@given(texts=corpora(5, 2))
@examples(30)
def test_lowercase_option_equals_lowercased_text(kind, texts):
    outputs, reference = texts
    lowered = [[line.lower() for line in text] for text in texts]
    folded = corpus_score(outputs, [reference], kind(lowercase=True))
    assert folded.value == corpus_score(lowered[0], [lowered[1]], kind(lowercase=False)).value


@pytest.mark.parametrize("metric", [Bleu(), Ter(), ExactMatch()], ids=lambda metric: metric.kind)
@given(texts=corpora(7, 3), seed=st.integers(0, 2**32))
@examples(20)
def test_swapping_systems_flips_the_sign_and_keeps_p(metric, texts, seed):
    one, two, reference = texts
    options = {"seed": seed, "resamples": 41, "trials": 43}
    _, there = compare_systems({"one": one, "two": two}, [reference], [metric], **options)
    _, back = compare_systems({"two": two, "one": one}, [reference], [metric], **options)
    assert there.difference == -back.difference
    assert (there.p_bootstrap, there.p_randomization) == (back.p_bootstrap, back.p_randomization)
    assert 0 < there.p_bootstrap <= 1
    assert 0 < there.p_randomization <= 1
