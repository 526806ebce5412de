"""Tokenization into a cache, once or in each epoch."""

import pytest

from dragoman.data.datasets.parallel import TextStore, TokenStore
from dragoman.data.preprocessing import tokenize_corpus
from dragoman.data.preprocessing.tokenize_corpus import retokenize_epoch, tokenize_texts
from dragoman.data.readers.parallel import Example
from dragoman.data.tokenizers import BpeConfig, Tokenizer

WORDS = ["banana", "bandana", "ananas", "band", "anna", "nab", "naan"]
EXAMPLES = [Example(" ".join(WORDS[n % 7 :]), " ".join(WORDS[: n % 5 + 1]), n + 1) for n in range(101)]
NO_LIMIT = {"max_source_length": 10_000, "max_target_length": 10_000}


@pytest.fixture
def texts(tmp_path) -> TextStore:
    return TextStore.build(tmp_path / "texts", EXAMPLES)


@pytest.fixture
def tokenizer(texts) -> Tokenizer:
    return Tokenizer.train(lambda: iter(texts), BpeConfig(vocab_size=300, shared=False, dropout=0.3))


def pairs(store: TokenStore) -> list[tuple[list[int], list[int]]]:
    return [tuple(side.tolist() for side in store.pair(index)) for index in range(len(store))]


def test_ids_are_those_of_the_tokenizer(texts, tokenizer, tmp_path):
    store = tokenize_texts(texts, tokenizer, tmp_path / "cache", **NO_LIMIT)
    assert pairs(store) == [
        (tokenizer.source.encode(one.source), tokenizer.target.encode(one.target)) for one in EXAMPLES
    ]
    assert store.origins.tolist() == list(range(101))


def test_damaged_store_is_built_again(texts, tokenizer, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    store = tokenize_texts(texts, tokenizer, cache, **NO_LIMIT)
    built = pairs(store)
    with monkeypatch.context() as patch:
        patch.setattr(tokenize_corpus, "_tokenize", None)  # not called a second time
        assert pairs(tokenize_texts(texts, tokenizer, cache, **NO_LIMIT)) == built
    (store.folder / "target.values").write_bytes(b"")
    assert pairs(tokenize_texts(texts, tokenizer, cache, **NO_LIMIT)) == built


def test_other_tokenizer_corpus_or_limit_has_another_store(texts, tokenizer, tmp_path):
    cache = tmp_path / "cache"
    other_tokenizer = Tokenizer.train(lambda: iter(texts), BpeConfig(vocab_size=280))
    other_texts = TextStore.build(tmp_path / "others", EXAMPLES[1:])
    tokenize_texts(texts, tokenizer, cache, **NO_LIMIT)
    tokenize_texts(texts, other_tokenizer, cache, **NO_LIMIT)
    tokenize_texts(other_texts, tokenizer, cache, **NO_LIMIT)
    tokenize_texts(texts, tokenizer, cache, max_source_length=9, max_target_length=9)
    assert len(list(cache.glob("tokens-*"))) == 4


def test_pairs_over_the_limits_are_left_out(texts, tokenizer, tmp_path):
    whole = tokenize_texts(texts, tokenizer, tmp_path / "cache", **NO_LIMIT)
    store = tokenize_texts(texts, tokenizer, tmp_path / "cache", max_source_length=5, max_target_length=3)
    fits = (whole.source.lengths <= 5) & (whole.target.lengths <= 3)
    assert 0 < fits.sum() < 101
    assert store.origins.tolist() == fits.nonzero()[0].tolist()
    assert pairs(store) == [pair for pair, fit in zip(pairs(whole), fits, strict=True) if fit]


def test_epochs_differ_and_repeat(texts, tokenizer, tmp_path):
    cache = tmp_path / "cache"
    store = tokenize_texts(texts, tokenizer, cache, **NO_LIMIT)

    def epoch(number: int, seed: int = 1, cache=cache):
        anew = retokenize_epoch(store, texts, tokenizer, cache, probability=0.3, seed=seed, epoch=number)
        for index, (source, target) in enumerate(pairs(anew)):
            assert tokenizer.source.decode(source) == EXAMPLES[index].source
            assert tokenizer.target.decode(target) == EXAMPLES[index].target
        return pairs(anew)

    first, second = epoch(0), epoch(1)
    assert first != second
    assert pairs(store) not in (first, second)
    assert epoch(0, seed=2) != first
    assert epoch(0) == epoch(0, cache=tmp_path / "elsewhere") == first


def test_first_and_latest_epoch_stay_on_disk(texts, tokenizer, tmp_path):
    store = tokenize_texts(texts, tokenizer, tmp_path / "cache", **NO_LIMIT)
    folders = [
        retokenize_epoch(store, texts, tokenizer, tmp_path / "cache", probability=0.3, seed=1, epoch=epoch).folder
        for epoch in (0, 1, 2)
    ]
    seen = [path for path in (tmp_path / "cache").iterdir() if not path.name.startswith(".")]  # a lock may stay
    assert sorted(seen) == sorted([store.folder, folders[0], folders[-1]])


def test_resumed_training_reuses_stored_epochs(texts, tokenizer, tmp_path, monkeypatch):
    """A resumed training counts the batches of epoch 0 and seeks to its own epoch."""
    store = tokenize_texts(texts, tokenizer, tmp_path / "cache", **NO_LIMIT)

    def epoch(number: int) -> TokenStore:
        return retokenize_epoch(store, texts, tokenizer, tmp_path / "cache", probability=0.3, seed=1, epoch=number)

    before = [pairs(epoch(number)) for number in (0, 1, 2)]
    monkeypatch.setattr(tokenize_corpus, "_retokenize", None)
    assert [pairs(epoch(number)) for number in (0, 2)] == [before[0], before[2]]


def test_dropout_respects_the_length_limits(texts, tokenizer, tmp_path):
    store = tokenize_texts(texts, tokenizer, tmp_path / "cache", max_source_length=7, max_target_length=5)
    anew = retokenize_epoch(store, texts, tokenizer, tmp_path / "cache", probability=0.5, seed=1, epoch=0)
    assert anew.origins.tolist() == store.origins.tolist()
    assert anew.source.lengths.max() <= 7
    assert anew.target.lengths.max() <= 5
    assert anew.source.lengths.sum() > store.source.lengths.sum()


def test_other_limits_have_other_stores_of_every_epoch(texts, tokenizer, tmp_path):
    cache = tmp_path / "cache"
    long, short = (
        tokenize_texts(texts, tokenizer, cache, max_source_length=most, max_target_length=most) for most in (150, 120)
    )
    assert pairs(long) == pairs(short), "no pair is left out in any"
    for store, most in ((long, 150), (short, 120)):
        found = pairs(retokenize_epoch(store, texts, tokenizer, cache, seed=1, epoch=0, probability=0.9))
        assert max(len(side) for pair in found for side in pair) <= most
