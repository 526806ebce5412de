"""Reserved symbols in training pairs."""

import random
from collections import Counter

import pytest

from dragoman.data.augmentation.placeholders import PlaceholderAugmenter, PlaceholderConfig
from dragoman.data.terminology.word_lexicon import WordLexicon
from dragoman.data.tokenizers.reserved_symbols import PLACEHOLDER_SYMBOLS

PAIRS = [
    ("a red house", "ein rotes haus"),
    ("a red car", "ein rotes auto"),
    ("a house", "ein haus"),
    ("the car", "das auto"),
    ("the red dog", "der rote hund"),
    ("the dog", "der hund"),
]
LEXICON = WordLexicon.train(PAIRS)


def symbols(text: str) -> Counter[str]:
    return Counter(character for character in text if character in PLACEHOLDER_SYMBOLS)


@pytest.mark.parametrize("inserted", [0.0, 1.0])
def test_both_sides_have_the_same_symbols_once(inserted: float) -> None:
    augment = PlaceholderAugmenter(PlaceholderConfig(share=1.0, inserted=inserted), LEXICON)
    for seed in range(40):
        source, target = augment(("a red house in Oslo 17.", "ein rotes haus in Oslo 17."), random.Random(seed))
        assert symbols(source) == symbols(target)
        assert 1 <= symbols(source).total() <= 3 + inserted
        assert set(symbols(source).values()) == {1}


def test_aligned_words_are_replaced_together() -> None:
    augment = PlaceholderAugmenter(PlaceholderConfig(share=1.0, max_placeholders=1, inserted=0.0), LEXICON)
    found = {augment(("a red house", "ein rotes haus"), random.Random(seed)) for seed in range(40)}
    kept = {tuple(" ".join(word for word in text.split() if not symbols(word)) for text in pair) for pair in found}
    assert ("a red", "ein rotes") in kept
    assert ("a red", "rotes haus") not in kept


def test_share_of_zero_changes_nothing() -> None:
    augment = PlaceholderAugmenter(PlaceholderConfig(share=0.0), LEXICON)
    assert [augment(pair, random.Random(7)) for pair in PAIRS] == PAIRS
