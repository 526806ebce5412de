"""Properties of the path from text to batches, for any text and any lengths."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.data.batching.corpus_mixing import permute_indices
from dragoman.data.batching.token_budget_batches import _cut, collate, pair_stream, plan_batches
from dragoman.data.datasets.memory_map import ConcatenatedArray, RaggedArray
from dragoman.data.datasets.parallel import TextStore, TokenStore
from dragoman.data.readers.parallel import Example, ParallelFiles, ParallelJsonl, read_corpus
from dragoman.data.tokenizers import (
    BOS,
    EOS,
    PAD,
    UNK,
    BpeConfig,
    CharacterConfig,
    LanguageTokenizer,
    TextNormalizer,
    Tokenizer,
    UnigramConfig,
)
from tests.padding_efficiency import padding_efficiency
from tests.property_settings import examples

PAIRS = [
    ("Two dogs play.", "Zwei Hunde spielen."),
    ("The dog's 12 cats", "die 12 Katzen des Hundes"),
    ("a b", "日本 语"),
] * 2
SIDES = {
    f"{type(choice).__name__}-{choice.normalization}-{choice.casing}": Tokenizer.train(lambda: PAIRS, choice).source
    for choice in (
        BpeConfig(vocab_size=300),
        BpeConfig(vocab_size=300, normalization="nfkc", casing="lower"),
        BpeConfig(vocab_size=300, normalization="none", split_punctuation=False, split_digits=False),
        UnigramConfig(vocab_size=300),
        UnigramConfig(vocab_size=300, normalization="nfkc", casing="lower", split_punctuation=False),
        CharacterConfig(casing="lower"),
    )
}
any_text = st.text(st.characters(exclude_categories=())) | st.text(
    st.sampled_from("ab▁ <>0x4F1dogsı̇İßΣ\u0301\u00a0\r\n\t.日")
)
lengths = st.lists(st.tuples(st.integers(0, 29), st.integers(0, 31)), min_size=1, max_size=97)


@pytest.mark.parametrize("side", SIDES.values(), ids=SIDES)
@given(text=any_text)
def test_decode_of_encode_is_the_normalized_text(side: LanguageTokenizer, text: str) -> None:
    ids = side.encode(text)
    assert side.decode(ids) == side.normalize(text)
    assert not {PAD, UNK, BOS, EOS} & set(ids)


@pytest.mark.parametrize("side", SIDES.values(), ids=SIDES)
@given(numbers=st.lists(st.integers(0, 10**6)))
def test_any_ids_decode_to_one_line(side: LanguageTokenizer, numbers: list[int]) -> None:
    text = side.decode([number % len(side) for number in numbers])
    assert text == " ".join(text.split())
    text.encode("utf-8")


@given(
    text=any_text,
    preparation=st.builds(
        TextNormalizer,
        normalization=st.sampled_from(["none", "nfc", "nfkc"]),
        casing=st.sampled_from(["preserve", "lower"]),
    ),
)
def test_normalization_is_idempotent(text: str, preparation: TextNormalizer) -> None:
    once = preparation.normalize(text)
    assert preparation.normalize(once) == once
    assert "▁" not in once


@given(texts=st.lists(any_text, max_size=7), probability=st.sampled_from([0.0, 0.3, 1.0]), seed=st.integers(0, 2**31))
def test_bpe_dropout_never_changes_the_text(texts: list[str], probability: float, seed: int) -> None:
    side = SIDES["BpeConfig-nfc-preserve"]
    drawn = side.encode_with_dropout(texts, probability=probability, generator=np.random.default_rng(seed))
    assert [side.decode(ids) for ids in drawn] == [side.normalize(text) for text in texts]
    if probability == 0:
        assert drawn == side.encode_batch(texts)


@given(sizes=lengths, budget=st.integers(32, 211), seed=st.integers(0, 2**31), epoch=st.integers(0, 1000))
def test_batches_cover_every_example_within_the_budget(sizes, budget: int, seed: int, epoch: int) -> None:
    source, target = (np.array(side, dtype=np.int32) for side in zip(*sizes, strict=True))
    batches = plan_batches(source, target, budget=budget, seed=seed, epoch=epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(sizes)))
    for rows in batches:
        assert len(rows) * (max(source[rows].max(), target[rows].max()) + 1) <= budget
    again = plan_batches(source, target, budget=budget, seed=seed, epoch=epoch)
    assert [rows.tolist() for rows in again] == [rows.tolist() for rows in batches]
    found = padding_efficiency(batches, source, target)
    assert 0 < found.target <= 1
    assert 0 < found.source <= 1


@examples(30)
@given(sizes=lengths, taken=st.integers(0, 41), seed=st.integers(0, 2**31))
def test_a_resumed_stream_equals_an_uninterrupted_one(sizes, taken: int, seed: int) -> None:
    with TemporaryDirectory() as folder:
        pairs = [([5 + n] * a, [7 + n] * b) for n, (a, b) in enumerate(sizes)]
        store = TokenStore.build(Path(folder) / "tokens", pairs)
        whole = pair_stream(store, budget=101, seed=seed)
        for _ in range(taken):
            next(whole)
        resumed = pair_stream(store, budget=101, seed=seed)
        resumed.seek(json.loads(json.dumps(whole.position)))
        for _ in range(5):
            expected, found = next(whole), next(resumed)
            assert found.rows.tolist() == expected.rows.tolist()
            assert found.source.equal(expected.source)
            assert found.labels.equal(expected.labels)


@examples(50)
@given(sizes=lengths, budget=st.integers(32, 211), seed=st.integers(0, 2**31), window=st.integers(1, 101))
def test_seeking_equals_replaying(sizes, budget: int, seed: int, window: int) -> None:
    with TemporaryDirectory() as folder:
        store = TokenStore.build(Path(folder) / "tokens", [([5] * a, [7] * b) for a, b in sizes])
        whole = pair_stream(store, budget=budget, seed=seed, window=window)
        replayed: list[list[int]] = []
        places = []
        while whole.position["epoch"] < 2:
            places.append(json.loads(json.dumps(whole.position)))
            replayed.append(next(whole).rows.tolist())
        other = pair_stream(store, budget=budget, seed=seed, window=window)
        for place, rows in list(zip(places, replayed, strict=True))[:: max(1, len(places) // 7)]:
            other.seek(place)
            assert other.position == place
            assert next(other).rows.tolist() == rows
        for epoch in (0, 1):
            rows = [
                row for place, batch in zip(places, replayed, strict=True) if place["epoch"] == epoch for row in batch
            ]
            assert sorted(rows) == list(range(len(sizes)))


@given(count=st.integers(1, 2000), seed=st.integers(0, 2**31), epoch=st.integers(0, 97))
def test_chunked_order_is_a_permutation(count: int, seed: int, epoch: int) -> None:
    whole = permute_indices(np.arange(count), count, seed=(seed, epoch))
    assert sorted(whole.tolist()) == list(range(count))
    half = permute_indices(np.arange(count // 2, count), count, seed=(seed, epoch))
    assert half.tolist() == whole[count // 2 :].tolist()


def batches_by_definition(order: np.ndarray, widths: np.ndarray, budget: int) -> list[list[int]]:
    """Return the batches by definition: an example joins the current batch while it fits."""
    batches: list[list[int]] = []
    widest = 0
    for row in order.tolist():
        widest = max(widest, int(widths[row]))
        if not batches or (len(batches[-1]) + 1) * widest > budget:
            batches.append([])
            widest = int(widths[row])
        batches[-1].append(row)
    return batches


@given(sizes=st.lists(st.integers(1, 41), max_size=97), budget=st.integers(1, 211))
def test_batches_equal_the_definition(sizes: list[int], budget: int) -> None:
    widths = np.array(sizes, dtype=np.int64)
    order = np.argsort(widths % 7, kind="stable")
    assert [rows.tolist() for rows in _cut(order, widths, budget)] == batches_by_definition(order, widths, budget)


@examples(50)
@given(
    sizes=st.lists(st.integers(0, 23), min_size=1, max_size=61),
    cuts=st.sets(st.integers(0, 61)),
    rows=st.lists(st.integers(0, 60), min_size=1),
)
def test_several_arrays_equal_one_array(sizes: list[int], cuts: set[int], rows: list[int]) -> None:
    values = np.arange(sum(sizes), dtype=np.uint16)
    ends = [sum(sizes[:cut]) for cut in sorted(cuts)]
    one, several = (
        RaggedArray(part, np.array(sizes, dtype=np.int32))
        for part in (values, ConcatenatedArray(np.split(values, ends)))
    )
    taken = np.array(rows) % len(sizes)
    filled = [np.full((len(taken), max(sizes) + 1), -1, dtype=np.int64) for _ in range(2)]
    one.fill(taken, filled[0])
    several.fill(taken, filled[1])
    starts = np.cumsum([0, *sizes])
    for place, row in enumerate(taken.tolist()):
        expected = list(range(starts[row], starts[row + 1]))
        assert several.row(row).tolist() == one.row(row).tolist() == expected
        assert filled[0][place].tolist() == filled[1][place].tolist() == expected + [-1] * (max(sizes) + 1 - sizes[row])
    middle = len(sizes) // 2
    assert [row.tolist() for row in several.rows(middle, 97)] == [
        one.row(row).tolist() for row in range(middle, len(sizes))
    ]


@examples(30)
@given(sizes=lengths)
def test_a_batch_holds_its_padded_examples(sizes) -> None:
    with TemporaryDirectory() as folder:
        pairs = [([5 + n] * a, list(range(7, 7 + b))) for n, (a, b) in enumerate(sizes)]
        store = TokenStore.build(Path(folder) / "tokens", pairs)
        batch = collate(store, np.arange(len(pairs))[::-1].copy())
    for place, (source, target) in enumerate(reversed(pairs)):
        assert batch.source[place].tolist() == pad([*source, EOS], batch.source.shape[1])
        assert batch.target[place].tolist() == pad([BOS, *target], batch.target.shape[1])
        assert batch.labels[place].tolist() == pad([*target, EOS], batch.labels.shape[1])
        assert batch.source_lengths[place] == len(source) + 1
        assert batch.target_lengths[place] == len(target) + 1


def pad(ids: list[int], width: int) -> list[int]:
    return ids + [PAD] * (width - len(ids))


line = st.text(st.characters(codec="utf-8", exclude_characters="\n\r\x00\ufeff"))


@examples(50)
@given(pairs=st.lists(st.tuples(line, line), max_size=11))
def test_all_formats_store_the_same_text(pairs) -> None:
    expected = [Example(source, target, number) for number, (source, target) in enumerate(pairs, start=1)]
    with TemporaryDirectory() as name:
        folder = Path(name)
        for side, file in enumerate("ab"):
            (folder / file).write_bytes("".join(pair[side] + "\n" for pair in pairs).encode())
        rows = [json.dumps({"source": a, "target": b}, ensure_ascii=len(a) % 2 == 0) + "\n" for a, b in pairs]
        (folder / "c").write_bytes("".join(rows).encode())
        assert list(read_corpus(ParallelFiles(source=folder / "a", target=folder / "b"))) == expected
        assert list(read_corpus(ParallelJsonl(path=folder / "c"))) == expected
        assert list(TextStore.build(folder / "texts", expected).examples()) == expected
