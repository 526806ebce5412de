"""Properties of source noise: its scope, its randomness, and that no noise changes nothing."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import parse
from dragoman.data.augmentation.noise import (
    KEYBOARD,
    NoiseConfig,
    add_noise,
    add_typo,
    misspell,
    perturb_text,
    truncate_pair,
)
from dragoman.data.augmentation.pair_augmentation import PairAugmentation
from dragoman.data.datasets.parallel import TextStore, TokenStore
from dragoman.data.preprocessing.tokenize_corpus import retokenize_epoch, tokenize_texts
from dragoman.data.readers.parallel import Example
from dragoman.data.tokenizers import BpeConfig, Tokenizer, WordConfig
from dragoman.errors import ConfigError
from tests.property_settings import examples

texts = st.text(alphabet="abcXYZßéя .,!?'7", max_size=40)
letters = st.text(alphabet="abcdefXYZßéя", min_size=1, max_size=11)
seeds = st.integers(0, 2**32)
ALWAYS = NoiseConfig(uppercase=1.0, no_final_punctuation=1.0, typos=1.0, truncation=1.0)


@examples(100)
@given(texts, texts, seeds, st.integers(0, 97))
def test_no_noise_changes_nothing(source: str, target: str, seed: int, row: int) -> None:
    assert add_noise((source, target), NoiseConfig(), seed=seed, epoch=3, row=row) == (source, target)


@examples(100)
@given(texts, texts, seeds, st.integers(0, 97), st.sampled_from([NoiseConfig(typos=0.3, titlecase=0.5), ALWAYS]))
def test_noise_depends_on_seed_epoch_and_row(source: str, target: str, seed: int, row: int, noise: NoiseConfig) -> None:
    """The same arguments give the same noise, whatever the state of the ambient generator."""
    first = add_noise((source, target), noise, seed=seed, epoch=2, row=row)
    random.random()
    assert add_noise((source, target), noise, seed=seed, epoch=2, row=row) == first


def test_other_epochs_rows_and_seeds_differ() -> None:
    pair = ("the quick brown fox jumps over the lazy dog near the riverbank .", "…")
    drawn = {
        add_noise(pair, NoiseConfig(typos=0.5), seed=seed, epoch=epoch, row=row)[0]
        for seed in (1, 2)
        for epoch in (0, 1)
        for row in (0, 1)
    }
    assert len(drawn) == 8


@examples(100)
@given(texts, texts, seeds)
def test_kinds_of_noise_are_independent(source: str, target: str, seed: int) -> None:
    """Uppercase on top of typing errors gives the same typing errors in uppercase."""
    alone = add_noise((source, target), NoiseConfig(typos=0.5), seed=seed, epoch=0, row=5)
    both = add_noise((source, target), NoiseConfig(typos=0.5, uppercase=1.0), seed=seed, epoch=0, row=5)
    assert both == (alone[0].upper(), alone[1])


@examples(100)
@given(texts, st.sampled_from([NoiseConfig(uppercase=1.0), NoiseConfig(lowercase=1.0), NoiseConfig(titlecase=1.0)]))
def test_case_noise_changes_only_the_case(text: str, noise: NoiseConfig) -> None:
    found, target = add_noise((text, text), noise, seed=1, epoch=1, row=1)
    assert (found.casefold(), target) == (text.casefold(), text)


def test_titlecase_keeps_whitespace() -> None:
    assert (
        add_noise(("two  dogs' éclairs", ""), NoiseConfig(titlecase=1.0), seed=1, epoch=1, row=1)[0]
        == "Two  Dogs' Éclairs"
    )


@examples(100)
@given(letters, seeds)
def test_a_typo_is_one_edit(word: str, seed: int) -> None:
    """A typo adds, drops, swaps or replaces one letter; replacements are neighboring keys."""
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
            assert are_neighbors(word[place], found[place])


def are_neighbors(key: str, hit: str) -> bool:
    """Return whether two keys touch: in one row, or in rows offset by half a key."""
    at = {letter: (row, column + row / 2) for row, keys in enumerate(KEYBOARD) for column, letter in enumerate(keys)}
    (row, column), (other_row, other_column) = at[key.lower()], at[hit.lower()]
    apart = abs(column - other_column)
    return apart == 1 if row == other_row else abs(row - other_row) == 1 and apart == 0.5


@examples(100)
@given(texts, seeds)
def test_one_typo_changes_one_word(text: str, seed: int) -> None:
    found = add_typo(text, random.Random(seed))
    before, after = text.split(), found.split()
    assert len(before) == len(after)
    assert sum(one != other for one, other in zip(before, after, strict=True)) <= 1


def test_full_typo_rate_changes_most_words() -> None:
    words = [f"{one}{other}s" for one in "abcdefghij" for other in "lmnopqrst"]
    changed = sum(misspell(word, random.Random(number)) != word for number, word in enumerate(words))
    assert changed == len(words)


@examples(100)
@given(texts, texts, st.floats(0, 1, exclude_max=True))
def test_truncation_cuts_both_sides(source: str, target: str, share: float) -> None:
    for whole, cut in zip((source, target), truncate_pair(source, target, share=share), strict=True):
        words, kept = whole.split(), cut.split()
        assert kept == words[: len(kept)]
        assert abs(len(kept) - share * len(words)) <= 1 or len(words) == 0


@pytest.mark.parametrize(
    ("kind", "text", "found"),
    [
        ("uppercase", "Two dogs, éh?", "TWO DOGS, ÉH?"),
        ("no_final_punctuation", "Two dogs play .", "Two dogs play"),
        ("no_final_punctuation", "Really ?! ", "Really"),
        ("no_final_punctuation", "No mark", "No mark"),
        ("no_final_punctuation", "...", "..."),
        ("typos", "1 2 3 .", "1 2 3 ."),
    ],
)
def test_noise_examples(kind: str, text: str, found: str) -> None:
    assert perturb_text(text, kind, number=3) == found


def test_a_source_gets_one_case() -> None:
    with pytest.raises(ConfigError, match=r"lowercase and titlecase are 1.2 together"):
        parse(NoiseConfig, {"uppercase": 0.5, "lowercase": 0.4, "titlecase": 0.3})


# In the stores of epochs

SENTENCES = [
    Example(f"two dogs see {word} .", f"zwei {word} .", n + 1) for n, word in enumerate(["cats", "a house"] * 23)
]


def stores(tmp_path, settings_=None) -> tuple[TokenStore, TextStore, Tokenizer]:
    chosen = settings_ or BpeConfig(vocab_size=300)
    store = TextStore.build(tmp_path / "texts", SENTENCES)
    tokenizer = Tokenizer.train(lambda: iter(store), chosen)
    return tokenize_texts(store, tokenizer, tmp_path, max_source_length=31, max_target_length=29), store, tokenizer


def read(store: TokenStore, tokenizer: Tokenizer) -> list[tuple[str, str]]:
    pairs = [store.pair(row) for row in range(len(store))]
    return [(tokenizer.source.decode(source), tokenizer.target.decode(target)) for source, target in pairs]


@pytest.mark.parametrize("settings_", [BpeConfig(vocab_size=300), WordConfig()], ids=["bpe", "words"])
def test_dataset_without_noise_is_unchanged(tmp_path, settings_):
    store, text, tokenizer = stores(tmp_path, settings_)
    anew = retokenize_epoch(
        store, text, tokenizer, tmp_path, augmentation=PairAugmentation(NoiseConfig()), seed=1, epoch=0
    )
    assert read(anew, tokenizer) == read(store, tokenizer)
    assert anew.origins.tolist() == store.origins.tolist()


def test_epochs_differ_and_repeat(tmp_path):
    store, text, tokenizer = stores(tmp_path)
    noise = NoiseConfig(uppercase=0.5, no_final_punctuation=0.5)

    def epoch(number: int, seed: int = 1) -> list[tuple[str, str]]:
        return read(
            retokenize_epoch(
                store, text, tokenizer, tmp_path, augmentation=PairAugmentation(noise), seed=seed, epoch=number
            ),
            tokenizer,
        )

    first = epoch(0)
    expected = [
        add_noise((one.source, one.target), noise, seed=1, epoch=0, row=row) for row, one in enumerate(SENTENCES)
    ]
    assert first == expected
    assert epoch(1) != first
    assert epoch(0, seed=2) != first
    assert epoch(0) == first  # built anew, for only the latest epoch stays


def test_overlong_noisy_sources_stay_unchanged(tmp_path):
    text = TextStore.build(tmp_path / "texts", SENTENCES)
    tokenizer = Tokenizer.train(lambda: iter(text), BpeConfig(vocab_size=300))
    longest = max(len(tokenizer.source.encode(one.source)) for one in SENTENCES)
    store = tokenize_texts(text, tokenizer, tmp_path, max_source_length=longest, max_target_length=29)
    anew = retokenize_epoch(
        store, text, tokenizer, tmp_path, augmentation=PairAugmentation(NoiseConfig(uppercase=1.0)), seed=1, epoch=0
    )
    assert anew.source.lengths.max() <= longest
    assert len(anew) == len(store)


def test_noise_combines_with_bpe_dropout(tmp_path):
    store, text, tokenizer = stores(tmp_path)
    anew = retokenize_epoch(
        store,
        text,
        tokenizer,
        tmp_path,
        augmentation=PairAugmentation(NoiseConfig(lowercase=1.0)),
        probability=0.5,
        seed=1,
        epoch=0,
    )
    assert read(anew, tokenizer) == [(one.source.lower(), one.target) for one in SENTENCES]
    assert anew.source.lengths.sum() > store.source.lengths.sum()
