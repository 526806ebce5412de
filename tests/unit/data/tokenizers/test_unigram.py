"""Learning a unigram model: against counting by hand, and on real words."""

import itertools
import math

import numpy as np
import pytest

from dragoman.data.readers import lines
from dragoman.data.tokenizers import Bpe, Tokenizer, Unigram
from dragoman.data.tokenizers.unigram import Lattice, learn_unigram


def segmentations(word: str) -> list[list[str]]:
    """All ways to cut a word, one by one."""
    cuts = itertools.product([False, True], repeat=len(word) - 1)
    ways = []
    for choice in cuts:
        places = [0, *(place + 1 for place, cut in enumerate(choice) if cut), len(word)]
        ways.append([word[start:end] for start, end in itertools.pairwise(places)])
    return ways


def test_expected_counts_are_those_of_all_segmentations():
    words, weights = ["abab", "ba", "aab", "b"], np.array([3.0, 2.0, 5.0, 1.0])
    inventory = ["a", "b", "ab", "ba", "aba"]
    probability = dict(zip(inventory, [0.3, 0.2, 0.25, 0.15, 0.1], strict=True))
    expected = dict.fromkeys(inventory, 0.0)
    for word, weight in zip(words, weights, strict=True):
        ways = [way for way in segmentations(word) if all(piece in probability for piece in way)]
        shares = [math.prod(probability[piece] for piece in way) for way in ways]
        for way, share in zip(ways, shares, strict=True):
            for piece in way:
                expected[piece] += weight * share / sum(shares)
    found = Lattice(words, inventory).expected_counts(np.log([probability[piece] for piece in inventory]), weights)
    assert found == pytest.approx(list(expected.values()))


def test_the_best_way_without_a_piece_is_the_best_of_its_cuts():
    inventory = ["a", "b", "ab", "ba", "aba"]
    scores = np.log([0.3, 0.2, 0.25, 0.15, 0.1])
    found = Lattice(inventory, inventory).best_without_itself(scores)
    expected = [-math.inf, -math.inf, math.log(0.06), math.log(0.06), math.log(0.25 * 0.3)]
    assert found == pytest.approx(expected)


def test_probabilities_sum_to_one_and_the_size_is_kept():
    counts = {"▁banana": 7, "▁bandana": 5, "▁band": 11, "▁nab": 3, "▁ananas": 2}
    learnt = learn_unigram(counts, pieces=13)
    assert len(learnt) == 13
    assert sum(math.exp(score) for score in learnt.values()) == pytest.approx(1.0)
    assert list(learnt.values()) == sorted(learnt.values(), reverse=True)
    assert "▁band" in learnt


def test_all_characters_stay_where_there_is_room_for_them():
    counts = {"▁banana": 7, "▁bandana": 5, "▁x": 1}
    assert set("▁bandx") <= set(learn_unigram(counts, pieces=14))


def test_it_needs_fewer_pieces_than_byte_pair_encoding_on_real_text(shared_data):
    texts = [text for _, text in lines(shared_data / "multi30k" / "val.de.gz")]

    def pieces(settings) -> int:
        side = Tokenizer.train(lambda: [(text, text) for text in texts], settings).source
        assert len(side) == 1500
        return sum(map(len, side.encode_batch(texts)))

    assert pieces(Unigram(vocabulary=1500)) < pieces(Bpe(vocabulary=1500))
