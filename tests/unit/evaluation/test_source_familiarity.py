"""Familiarity of texts: the n-gram model against its equation, its thresholds and its file."""

import math
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.evaluation import source_familiarity
from dragoman.evaluation.source_familiarity import SourceFamiliarity

SIZE = 7
TEXTS = st.lists(st.lists(st.integers(1, SIZE - 1), max_size=5), max_size=11)


def probability(sources: list[list[int]], context: tuple[int, ...], token: int) -> float:
    """Return Witten and Bell's probability, computed from the texts themselves."""
    shorter = probability(sources, context[1:], token) if context else 1 / SIZE
    followers: Counter[int] = Counter()
    for ids in sources:
        padded = [0, 0, *ids, 0]
        for end in range(2, len(padded)):
            if tuple(padded[end - len(context) : end]) == context:
                followers[padded[end]] += 1
    if not followers:
        return shorter
    return (followers[token] + len(followers) * shorter) / (followers.total() + len(followers))


@given(TEXTS, st.lists(st.integers(1, SIZE - 1), max_size=4))
def test_surprisals_follow_the_equation(sources, ids):
    model = SourceFamiliarity.fit(sources, [], vocab_size=SIZE)
    padded = [0, 0, *ids, 0]
    expected = [
        -math.log2(probability(sources, (padded[end - 2], padded[end - 1]), padded[end]))
        for end in range(2, len(padded))
    ]
    np.testing.assert_allclose(model.surprisals(ids), expected)


@given(TEXTS, st.integers(1, SIZE - 1), st.integers(1, SIZE - 1))
def test_probabilities_sum_to_one(sources, first, second):
    model = SourceFamiliarity.fit(sources, [], vocab_size=SIZE)
    bits = [model.surprisals([first, second, token])[2] for token in range(SIZE)]
    assert sum(2**-one for one in bits) == pytest.approx(1)


def sentences(count: int, seed: int) -> list[list[int]]:
    """Return texts in which each id is followed by the next or the one after it."""
    draw = random.Random(seed)
    texts = []
    for _ in range(count):
        ids = [draw.randrange(1, 50)]
        for _ in range(draw.randrange(2, 13)):
            ids.append(1 + (ids[-1] + draw.randrange(2)) % 49)
        texts.append(ids)
    return texts


@pytest.fixture(scope="module")
def familiarity() -> SourceFamiliarity:
    return SourceFamiliarity.fit(sentences(5000, 1), sentences(1000, 2), vocab_size=61)


def test_few_texts_of_the_same_kind_are_unfamiliar(familiarity):
    assert np.mean([familiarity.is_unfamiliar(ids) for ids in sentences(2000, 3)]) <= 0.02


def test_other_texts_are_unfamiliar(familiarity):
    backwards = [ids[::-1] for ids in sentences(300, 4)]
    assert np.mean([familiarity.is_unfamiliar(ids) for ids in backwards]) > 0.97
    assert familiarity.is_unfamiliar([5, 6, 7, 60, 8, 9]), "a token that no source has"
    assert not familiarity.is_unfamiliar([])


def test_without_held_out_texts_nothing_is_unfamiliar():
    assert not SourceFamiliarity.fit([], [], vocab_size=61).is_unfamiliar([3, 4])


def test_only_frequent_ngrams_are_kept(monkeypatch):
    monkeypatch.setattr(source_familiarity, "MAX_NGRAMS", 2)
    model = SourceFamiliarity.fit([[3, 3, 3], [4], [3, 5]], [], vocab_size=SIZE)
    assert [len(table.keys) for table in model.ngrams] == [2, 2, 2]
    assert model.surprisals([3])[0] < model.surprisals([5])[0]


def test_file_gives_the_same_surprisals(familiarity, tmp_path):
    path = tmp_path / "familiarity.safetensors"
    familiarity.save(path)
    loaded = SourceFamiliarity.load(path)
    for ids in sentences(20, 5):
        np.testing.assert_array_equal(loaded.surprisals(ids), familiarity.surprisals(ids))
    assert (loaded.max_mean, loaded.max_token) == (familiarity.max_mean, familiarity.max_token)
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(DataError):
        SourceFamiliarity.load(path)
