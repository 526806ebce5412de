"""ROUGE: values worked by hand, several references, the signature, and the library that may be missing."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import parse
from dragoman.errors import ConfigError, MissingExtraError
from dragoman.evaluation import Rouge, compare_systems, corpus_score, sentence_scores
from tests.property_settings import examples

REFERENCE = "the cat sat on the mat"
GOLDEN = [
    # Words shared: the, cat, sat, on, mat; 5 of 6 on both sides.
    ("1", "the cat sat on a mat", [REFERENCE], 100 * 5 / 6),
    # Pairs shared: the cat, cat sat, sat on; 3 of 5 on both sides.
    ("2", "the cat sat on a mat", [REFERENCE], 100 * 3 / 5),
    # In order: the cat sat on mat.
    ("L", "the cat sat on a mat", [REFERENCE], 100 * 5 / 6),
    # All of 2 words match 2 of 6: 2 · 1 · 1/3 / (4/3).
    ("1", "the cat", [REFERENCE], 50.0),
    # "the" twice in the reference counts twice at most: P = 2/3, R = 2/6.
    ("1", "the the the", [REFERENCE], 100 * 2 * (2 / 3) * (1 / 3) / 1),
    # The same words in another order: the longest common subsequence has half of them.
    ("1", "c d a b", ["a b c d"], 100.0),
    ("L", "c d a b", ["a b c d"], 50.0),
    # Line by line they are all found.
    ("Lsum", "c d\na b", ["a b\nc d"], 100.0),
    ("L", "c d\na b", ["a b\nc d"], 50.0),
    # Case and punctuation do not count, and the best reference does.
    ("1", "The CAT!", ["x", "the, cat", "y"], 100.0),
    ("2", "cat", ["cat"], 0.0),
    ("1", "", ["cat"], 0.0),
]


@pytest.mark.parametrize(("variant", "output", "references", "expected"), GOLDEN)
def test_values_computed_by_hand(variant, output, references, expected):
    score = corpus_score([output], [[reference] for reference in references], Rouge(variant=variant))
    assert score.value == pytest.approx(expected, abs=1e-9)
    assert score.metric == f"ROUGE-{variant}"


def test_stemmer_stems_words_longer_than_three_letters():
    plain, stemmed = (corpus_score(["dogs running"], [["dog runs"]], Rouge(variant="1", stemmer=s)) for s in (0, 1))
    assert (plain.value, stemmed.value) == (0, 100)
    assert "stem:yes" in stemmed.signature


def test_corpus_score_is_the_mean():
    outputs, references = ["the cat", "dog"], [[REFERENCE, "nothing"], ["cat", "dog"]]
    alone = sentence_scores(outputs, references, Rouge(variant="1"))
    assert [score.value for score in alone] == pytest.approx([200 / 3, 100])  # "cat" is the nearer one: 1/2 and 1
    assert corpus_score(outputs, references, Rouge(variant="1")).value == pytest.approx(250 / 3)


def test_signature_contains_all_settings():
    signature = corpus_score(["a"], [["a"], ["b"]], Rouge()).signature
    assert signature.startswith("nrefs:2|case:lc|stem:no|average:mean|rouge-score:")


def test_paired_tests_support_rouge():
    texts = ["a b c", "d e f", "g h i", "j k l", "m n o"]
    worse = ["a x c", "d y f", "g z i", "j k l", "v v v"]
    _, row = compare_systems({"one": texts, "two": worse}, [texts], [Rouge()], resamples=41, trials=43)
    assert row.score == pytest.approx(100 * (3 * 2 / 3 + 1 + 0) / 5)
    assert row.difference == pytest.approx(row.score - 100)


@pytest.mark.parametrize("variant", [1, "1"])
def test_variant_accepts_numbers(variant):
    assert parse(Rouge, {"variant": variant}) == Rouge(variant="1")
    with pytest.raises(ConfigError, match="variant = '3'"):
        parse(Rouge, {"variant": 3})


def test_missing_library_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    with pytest.raises(MissingExtraError, match=r"ROUGE needs an optional library; .*dragoman\[rouge\]"):
        corpus_score(["a"], [["a"]], Rouge())


sentence = st.lists(st.sampled_from(["a", "b", "cat", "Dog", "zw"]), min_size=2, max_size=7).map(" ".join)
variants = pytest.mark.parametrize("variant", ["1", "2", "L", "Lsum"])


@variants
@given(output=sentence, first=sentence, second=sentence)
@examples(30)
def test_rouge_properties(variant, output, first, second):
    metric = Rouge(variant=variant)

    def score(*references: str) -> float:
        return corpus_score([output], [[one] for one in references], metric).value

    assert 0 <= score(first) <= 100
    assert score(output) == pytest.approx(100)
    assert score(first, second) == pytest.approx(max(score(first), score(second)))
    assert score(first, first) == pytest.approx(score(first))
