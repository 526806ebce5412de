"""Noise in training: what it may change, where its chance comes from, and that none changes nothing."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.config import parse
from dragoman.data.augmentation import KEYBOARD, NoiseConfig, add_noise, add_typo, misspell, perturb_text, truncate_pair
from dragoman.data.datasets.parallel import TextStore, TokenStore
from dragoman.data.preprocessing.tokenize import retokenize_epoch, tokenize_texts
from dragoman.data.readers import Example
from dragoman.data.tokenizers import BpeConfig, Tokenizer, WordConfig
from dragoman.errors import ConfigError

law = settings(max_examples=100)
texts = st.text(alphabet="abcXYZßéя .,!?'7", max_size=40)
letters = st.text(alphabet="abcdefXYZßéя", min_size=1, max_size=11)
seeds = st.integers(0, 2**32)
ALWAYS = NoiseConfig(uppercase=1.0, no_final_punctuation=1.0, typos=1.0, truncation=1.0)


@law
@given(texts, texts, seeds, st.integers(0, 97))
def test_no_noise_changes_nothing(source: str, target: str, seed: int, row: int) -> None:
    assert add_noise((source, target), NoiseConfig(), seed=seed, epoch=3, row=row) == (source, target)


@law
@given(texts, texts, seeds, st.integers(0, 97), st.sampled_from([NoiseConfig(typos=0.3, titlecase=0.5), ALWAYS]))
def test_chance_is_of_seed_epoch_and_row(source: str, target: str, seed: int, row: int, noise: NoiseConfig) -> None:
    """Asked for twice it is the same, whatever the ambient generator has done meanwhile."""
    first = add_noise((source, target), noise, seed=seed, epoch=2, row=row)
    random.random()
    assert add_noise((source, target), noise, seed=seed, epoch=2, row=row) == first


def test_other_epochs_rows_and_seeds_draw_other_faults() -> None:
    pair = ("the quick brown fox jumps over the lazy dog near the riverbank .", "…")
    drawn = {
        add_noise(pair, NoiseConfig(typos=0.5), seed=seed, epoch=epoch, row=row)[0]
        for seed in (1, 2)
        for epoch in (0, 1)
        for row in (0, 1)
    }
    assert len(drawn) == 8


@law
@given(texts, texts, seeds)
def test_one_fault_leaves_the_chance_of_another_where_it_was(source: str, target: str, seed: int) -> None:
    """Capitals on top of the same typing errors are those typing errors in capitals."""
    alone = add_noise((source, target), NoiseConfig(typos=0.5), seed=seed, epoch=0, row=5)
    both = add_noise((source, target), NoiseConfig(typos=0.5, uppercase=1.0), seed=seed, epoch=0, row=5)
    assert both == (alone[0].upper(), alone[1])


@law
@given(texts, st.sampled_from([NoiseConfig(uppercase=1.0), NoiseConfig(lowercase=1.0), NoiseConfig(titlecase=1.0)]))
def test_case_is_all_that_changes_of_it(text: str, noise: NoiseConfig) -> None:
    found, target = add_noise((text, text), noise, seed=1, epoch=1, row=1)
    assert (found.casefold(), target) == (text.casefold(), text)


def test_words_begin_with_capitals_and_white_space_stays() -> None:
    assert (
        add_noise(("two  dogs' éclairs", ""), NoiseConfig(titlecase=1.0), seed=1, epoch=1, row=1)[0]
        == "Two  Dogs' Éclairs"
    )


@law
@given(letters, seeds)
def test_a_mistyped_word_is_one_slip_away(word: str, seed: int) -> None:
    """It has a letter more, a letter less, two neighbours changed about, or one letter from a key beside."""
    found = misspell(word, random.Random(seed))
    if len(word) < 2 or found == word:
        return
    if len(found) == len(word) - 1:
        assert found in {word[:place] + word[place + 1 :] for place in range(len(word))}
    elif len(found) == len(word) + 1:
        assert found in {word[: place + 1] + word[place:] for place in range(len(word))}
    else:
        changed = [place for place in range(len(word)) if word[place] != found[place]]
        if len(changed) == 2:
            first, second = changed
            assert (second - first, found[first], found[second]) == (1, word[second], word[first])
        else:
            [place] = changed
            assert near(word[place], found[place])


def near(key: str, hit: str) -> bool:
    """Whether two keys touch: side by side, or in rows that are half a key apart."""
    at = {letter: (row, column + row / 2) for row, keys in enumerate(KEYBOARD) for column, letter in enumerate(keys)}
    (row, column), (other_row, other_column) = at[key.lower()], at[hit.lower()]
    apart = abs(column - other_column)
    return apart == 1 if row == other_row else abs(row - other_row) == 1 and apart == 0.5


@law
@given(texts, seeds)
def test_one_typing_error_changes_one_word(text: str, seed: int) -> None:
    found = add_typo(text, random.Random(seed))
    before, after = text.split(), found.split()
    assert len(before) == len(after)
    assert sum(one != other for one, other in zip(before, after, strict=True)) <= 1


def test_most_words_change_when_all_are_mistyped() -> None:
    words = [f"{one}{other}s" for one in "abcdefghij" for other in "lmnopqrst"]
    changed = sum(misspell(word, random.Random(number)) != word for number, word in enumerate(words))
    assert changed == len(words)


@law
@given(texts, texts, st.floats(0, 1, exclude_max=True))
def test_both_sides_break_off_together(source: str, target: str, share: float) -> None:
    for whole, cut in zip((source, target), truncate_pair(source, target, share=share), strict=True):
        words, kept = whole.split(), cut.split()
        assert kept == words[: len(kept)]
        assert abs(len(kept) - share * len(words)) <= 1 or len(words) == 0


@pytest.mark.parametrize(
    ("kind", "text", "found"),
    [
        ("capitals", "Two dogs, éh?", "TWO DOGS, ÉH?"),
        ("no-end-marks", "Two dogs play .", "Two dogs play"),
        ("no-end-marks", "Really ?! ", "Really"),
        ("no-end-marks", "No mark", "No mark"),
        ("no-end-marks", "...", "..."),
        ("typos", "1 2 3 .", "1 2 3 ."),
    ],
)
def test_faults_worked_out_by_hand(kind: str, text: str, found: str) -> None:
    assert perturb_text(text, kind, number=3) == found


def test_a_source_has_one_case() -> None:
    with pytest.raises(ConfigError, match=r"noise.capitals, lower and title are 1.2 together"):
        parse(NoiseConfig, {"capitals": 0.5, "lower": 0.4, "title": 0.3})


# In the stores of epochs

SENTENCES = [
    Example(f"two dogs see {word} .", f"zwei {word} .", n + 1) for n, word in enumerate(["cats", "a house"] * 23)
]


def stores(tmp_path, settings_=None) -> tuple[TokenStore, TextStore, Tokenizer]:
    chosen = settings_ or BpeConfig(vocab_size=300)
    store = TextStore.build(tmp_path / "texts", SENTENCES)
    tokenizer = Tokenizer.train(store.pairs, chosen)
    return tokenize_texts(store, tokenizer, tmp_path, max_source_length=31, max_target_length=29), store, tokenizer


def read(store: TokenStore, tokenizer: Tokenizer) -> list[tuple[str, str]]:
    pairs = [store.pair(row) for row in range(len(store))]
    return [(tokenizer.source.decode(source), tokenizer.target.decode(target)) for source, target in pairs]


@pytest.mark.parametrize("settings_", [BpeConfig(vocab_size=300), WordConfig()], ids=["bpe", "words"])
def test_a_store_without_faults_is_the_store(tmp_path, settings_):
    store, text, tokenizer = stores(tmp_path, settings_)
    anew = retokenize_epoch(store, text, tokenizer, tmp_path, noise=NoiseConfig(), seed=1, epoch=0)
    assert read(anew, tokenizer) == read(store, tokenizer)
    assert anew.origins.tolist() == store.origins.tolist()


def test_each_epoch_has_faults_of_its_own_that_come_again(tmp_path):
    store, text, tokenizer = stores(tmp_path)
    noise = NoiseConfig(uppercase=0.5, no_final_punctuation=0.5)

    def epoch(number: int, seed: int = 1) -> list[tuple[str, str]]:
        return read(retokenize_epoch(store, text, tokenizer, tmp_path, noise=noise, seed=seed, epoch=number), tokenizer)

    first = epoch(0)
    expected = [
        add_noise((one.source, one.target), noise, seed=1, epoch=0, row=row) for row, one in enumerate(SENTENCES)
    ]
    assert first == expected
    assert epoch(1) != first
    assert epoch(0, seed=2) != first
    assert epoch(0) == first  # built anew, for only the latest epoch stays


def test_what_noise_makes_too_long_stays_as_it_was(tmp_path):
    text = TextStore.build(tmp_path / "texts", SENTENCES)
    tokenizer = Tokenizer.train(text.pairs, BpeConfig(vocab_size=300))
    longest = max(len(tokenizer.source.encode(one.source)) for one in SENTENCES)
    store = tokenize_texts(text, tokenizer, tmp_path, max_source_length=longest, max_target_length=29)
    anew = retokenize_epoch(store, text, tokenizer, tmp_path, noise=NoiseConfig(uppercase=1.0), seed=1, epoch=0)
    assert anew.source_lengths.max() <= longest
    assert len(anew) == len(store)


def test_noise_and_dropout_go_together(tmp_path):
    store, text, tokenizer = stores(tmp_path)
    anew = retokenize_epoch(
        store, text, tokenizer, tmp_path, noise=NoiseConfig(lowercase=1.0), probability=0.5, seed=1, epoch=0
    )
    assert read(anew, tokenizer) == [(one.source.lower(), one.target) for one in SENTENCES]
    assert anew.source_lengths.sum() > store.source_lengths.sum()
