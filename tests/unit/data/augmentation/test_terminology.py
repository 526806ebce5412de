"""Terms in training sources: drawn from the word alignment, and written next to their translations."""

import random
import re

import pytest

from dragoman.data.augmentation.config import AugmentationConfig
from dragoman.data.augmentation.pair_augmentation import PairAugmentation
from dragoman.data.augmentation.terminology import TermAnnotator, TermConfig, aligned_span
from dragoman.data.terminology.annotation import Annotation, annotate_terms
from dragoman.data.terminology.word_lexicon import WordLexicon
from dragoman.data.terminology.words import share_stem, split_words
from dragoman.data.tokenizers.reserved_symbols import TERM_SYMBOLS

NOUNS = {"dog": "Hund", "cat": "Katze", "horse": "Pferd", "house": "Haus", "tree": "Baum", "river": "Fluss"}
VERBS = {"sees": "sieht", "likes": "mag", "fears": "fürchtet"}
CORPUS = [
    (f"the {noun} {verb} the {other} .", f"das {NOUNS[noun]} {VERBS[verb]} das {NOUNS[other]} .")
    for noun in NOUNS
    for verb in VERBS
    for other in NOUNS
    if noun != other
]
BEGIN, MIDDLE, END = TERM_SYMBOLS
TERM = re.compile(f"{BEGIN} (.*?) {MIDDLE} (.*?) {END}")


@pytest.fixture(scope="module")
def lexicon() -> WordLexicon:
    return WordLexicon.train(CORPUS)


def test_lexicon_finds_translations(lexicon: WordLexicon) -> None:
    for word, translation in (NOUNS | VERBS).items():
        assert max(lexicon.forward[word], key=lexicon.forward[word].__getitem__) == translation.lower()
    assert lexicon.frequent(2) == {"the", "."}
    links = lexicon.align(["the", "dog", "likes", "a", "tree"], ["den", "Baum", "mag", "das", "Hund"])
    assert set(links) == {(0, 3), (1, 4), (2, 2), (4, 1)}


def test_terms_are_drawn_from_the_pair(lexicon: WordLexicon) -> None:
    config = TermConfig(share=1.0, inflected=0.0, masked=0.0)
    annotator, generator = TermAnnotator(config, lexicon), random.Random(5)
    dictionary = {**NOUNS, **VERBS, "the": "das"}
    found = 0
    for source, target in CORPUS:
        annotated, same = annotator((source, target), generator)
        assert same == target
        assert TERM.sub(r"\1", annotated) == source
        terms = TERM.findall(annotated)
        assert len(terms) <= config.max_terms
        for term, translation in terms:
            assert translation == " ".join(dictionary[word] for word in term.split())
            assert len(term.split()) <= config.max_words
        found += len(terms)
    assert found > len(CORPUS)


def test_share_of_pairs_with_terms(lexicon: WordLexicon) -> None:
    augmentation = PairAugmentation(config=AugmentationConfig(terminology=TermConfig(share=0.25)), corpus=CORPUS)
    changed = [augmentation(pair, seed=3, epoch=1, row=row) != pair for row, pair in enumerate(CORPUS * 5)]
    assert 0.15 < sum(changed) / len(changed) < 0.3
    again = [augmentation(pair, seed=3, epoch=1, row=row) for row, pair in enumerate(CORPUS)]
    assert again == [augmentation(pair, seed=3, epoch=1, row=row) for row, pair in enumerate(CORPUS)]
    assert again != [augmentation(pair, seed=3, epoch=2, row=row) for row, pair in enumerate(CORPUS)]
    assert not PairAugmentation(config=AugmentationConfig()).enabled


def test_other_forms_are_written() -> None:
    forms = ["rot", "rote", "roter", "rotes"]
    corpus = [(f"the red {noun}", f"das {form} {NOUNS[noun]}") for noun in NOUNS for form in forms]
    annotator = TermAnnotator(TermConfig(share=1.0, inflected=1.0, masked=0.0), WordLexicon.train(corpus))
    written = {
        translation
        for number in range(40)
        for term, translation in TERM.findall(annotator(("a red dog", "ein roter Hund"), random.Random(number))[0])
        if term == "red"
    }
    assert written == {"rot", "rote", "rotes"}


@pytest.mark.parametrize(
    ("links", "span", "expected"),
    [
        ([(0, 2), (1, 3), (4, 0)], (0, 1), (2, 3)),
        ([(0, 2), (1, 4), (2, 3)], (0, 1), None),  # a word between is aligned elsewhere
        ([(0, 2)], (0, 1), None),  # the end is not aligned
        ([], (0, 0), None),
    ],
)
def test_phrases_are_consistent_with_the_alignment(links, span, expected) -> None:
    assert aligned_span(links, *span) == expected


def test_symbols_of_a_source_are_replaced(lexicon: WordLexicon) -> None:
    annotator = TermAnnotator(TermConfig(share=1.0), lexicon)
    annotated, _ = annotator((f"the {BEGIN} dog", "der Hund"), random.Random(1))
    assert "\ufffd" in annotated


def test_annotation_keeps_the_rest_of_a_source() -> None:
    text = "A red jacket, (jacket)!"
    terms = [Annotation(15, 21, "Jacke"), Annotation(2, 12, "rote Jacke")]
    assert annotate_terms(text, terms) == (
        f"A {BEGIN} red jacket {MIDDLE} rote Jacke {END} , ( {BEGIN} jacket {MIDDLE} Jacke {END} )!"
    )
    assert annotate_terms(text, []) == text


def test_words_and_stems() -> None:
    assert [word.text for word in split_words("a well-known man's “T-Shirt”.")] == [
        "a", "well-known", "man's", "“", "T-Shirt", "”", ".",
    ]  # fmt: skip
    same = [("Haus", "Häuser"), ("rot", "roten"), ("steht", "stehen"), ("Frau", "Frauen"), ("chien", "chiens")]
    assert all(share_stem(*pair) for pair in same)
    assert not any(share_stem(*pair) for pair in [("Haus", "Hausboot"), ("der", "den"), ("Hund", "Katze")])


def test_masked_terms_lack_their_source(lexicon: WordLexicon) -> None:
    annotator = TermAnnotator(TermConfig(share=1.0, inflected=0.0, masked=1.0, max_terms=1), lexicon)
    found = [annotator(pair, random.Random(number))[0] for number, pair in enumerate(CORPUS)]
    masked = [re.findall(f"{BEGIN} {MIDDLE} (.*?) {END}", source) for source in found]
    assert sum(map(len, masked)) > len(CORPUS) / 2
    assert not any(TERM.findall(source) for source in found)
    assert all(all(term in target for term in terms) for terms, (_, target) in zip(masked, CORPUS, strict=True))
