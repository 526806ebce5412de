"""Dependency trees stored by line, and converted to features of tokens."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.data.batching.token_budget_batches import batches_in_order, collate, pair_stream
from dragoman.data.datasets.parallel import TextStore, TokenStore
from dragoman.data.datasets.source_token_features import (
    FeatureStore,
    StoredFeatures,
    build_source_features,
    prepare_source_features,
    split_tree,
    word_start_mask,
)
from dragoman.data.fingerprints import file_fingerprint
from dragoman.data.preprocessing.tokenize_corpus import retokenize_epoch, tokenize_texts
from dragoman.data.readers.conllu import find_tree_error
from dragoman.data.readers.parallel import Example
from dragoman.data.tokenizers import EOS, BpeConfig, CharacterConfig, Tokenizer, UnigramConfig, WordConfig
from dragoman.errors import DataError
from tests.trees import Heads, Parsed, conllu, forests
from tests.trees import structure_of as by_hand

SENTENCES: list[tuple[str, Heads]] = [
    ("two dogs sleep.", (2, 3, 0)),
    ("dogs", (0,)),
    ("a man's dog barks loudly", (2, 3, 4, 0, 4)),
    ("  two\tdogs ", (0, 1)),
    ("猫 sleep ▁ now", (2, 0, 2, 3)),
]
LINES = ["two dogs sleep.", "", "dogs", "a man's dog barks loudly", "  two\tdogs ", " ", "猫 sleep ▁ now"]
NO_LIMIT = {"max_source_length": 1000, "max_target_length": 1000}


def learn(settings) -> Tokenizer:
    texts = [text for text, _ in SENTENCES[:4]]
    return Tokenizer.train(lambda: [(text, text) for text in texts * 3], settings)


BPE = BpeConfig(vocab_size=300)
TELLING = [
    BPE,
    BpeConfig(vocab_size=40, byte_fallback=False),
    BpeConfig(vocab_size=300, split_punctuation=False, casing="lower"),
    UnigramConfig(vocab_size=300),
    UnigramConfig(vocab_size=50, byte_fallback=False, normalization="none"),
]


@pytest.fixture
def files(tmp_path) -> tuple[Path, Path]:
    (tmp_path / "a.en").write_text("".join(line + "\n" for line in LINES), encoding="utf-8")
    (tmp_path / "a.conllu").write_text(conllu(SENTENCES), encoding="utf-8")
    return tmp_path / "a.en", tmp_path / "a.conllu"


def prepare(source: Path, trees: Path, cache: Path) -> FeatureStore:
    fingerprints = {str(path): file_fingerprint(path) for path in (source, trees)}
    return prepare_source_features(source, trees, cache, fingerprints=fingerprints)


@pytest.fixture
def trees(files, tmp_path) -> FeatureStore:
    return prepare(*files, tmp_path / "cache")


@pytest.fixture
def texts(tmp_path) -> TextStore:
    """Return the lines with words in reverse order, as after shuffling."""
    examples = [Example(line, "x", number) for number, line in enumerate(LINES, start=1) if line.strip()]
    return TextStore.build(tmp_path / "texts", examples[::-1])


def test_trees_are_found_by_line(trees):
    assert [tuple(trees.heads.row(line).tolist()) for line in range(7)] == [
        (2, 3, 0),
        (),
        (0,),
        (2, 3, 4, 0, 4),
        (0, 1),
        (),
        (2, 0, 2, 3),
    ]


def test_changed_file_gives_a_new_store(files, tmp_path):
    source, path = files
    prepare(source, path, tmp_path / "cache")
    [folder] = (tmp_path / "cache").glob("[!.]*")
    stamp = (folder / "header.json").stat().st_mtime_ns
    prepare(source, path, tmp_path / "cache")
    assert (folder / "header.json").stat().st_mtime_ns == stamp
    path.write_text(conllu([("two dogs sleep.", (0, 1, 1)), *SENTENCES[1:]]), encoding="utf-8")
    assert prepare(source, path, tmp_path / "cache").heads.row(0).tolist() == [0, 1, 1]


def test_damaged_store_is_built_again(files, tmp_path):
    cache = tmp_path / "cache"
    prepare(*files, cache)
    [folder] = cache.glob("[!.]*")
    (folder / "heads.values").write_bytes(b"")
    assert prepare(*files, cache).heads.row(0).tolist() == [2, 3, 0]
    FeatureStore.build(tmp_path / "whole", [(0, 1), (0,)])
    (tmp_path / "whole" / "heads.lengths").write_bytes(np.array([2, 7], dtype=np.int32).tobytes())
    with pytest.raises(DataError, match="its files do not fit each other"):
        FeatureStore(tmp_path / "whole")


def test_trees_of_another_text_are_not_stored(files, tmp_path):
    source, path = files
    path.write_text(conllu(SENTENCES[:-1]), encoding="utf-8")
    with pytest.raises(DataError, match=r"a\.conllu: ends after 4 sentences, but .*a\.en:7 has words too"):
        prepare(source, path, tmp_path / "cache")
    assert list((tmp_path / "cache").glob("[!.]*")) == []


@pytest.mark.parametrize("settings", TELLING, ids=lambda one: f"{one.kind}-{one.vocab_size}")
def test_tokenizer_marks_word_starts(settings):
    side = learn(settings).source
    starts = word_start_mask(side)
    for text, heads in SENTENCES:
        assert starts[side.encode(text)].sum() == len(heads)
        assert [len(side.encode(word)) for word in text.split()] == sizes(side, text)


def sizes(side, text: str) -> list[int]:
    """Return the tokens of each word."""
    begins = [*word_start_mask(side)[side.encode(text)].nonzero()[0].tolist(), len(side.encode(text))]
    return np.diff(begins).tolist()


@pytest.mark.parametrize(
    "settings",
    [
        CharacterConfig(),
        WordConfig(),
        BpeConfig(vocab_size=300, whitespace="keep"),
        BpeConfig(vocab_size=300, normalization="nfkc"),
    ],
    ids=lambda one: f"{one.kind}-{one.whitespace}-{one.normalization}",
)
def test_tokenizer_without_word_starts_is_refused(settings):
    with pytest.raises(DataError, match="do not show where words begin, which trees need; train"):
        word_start_mask(learn(settings).source)


def expected(side, text: str, heads: Heads) -> Parsed:
    return Parsed(tuple(side.encode(text)), tuple(len(side.encode(word)) for word in text.split()), heads)


def same(structure, other) -> bool:
    return torch.equal(structure.words, other.words) and torch.equal(structure.heads, other.heads)


def test_batch_has_the_trees_of_its_lines(texts, trees, tmp_path):
    tokenizer = learn(BPE)
    store = tokenize_texts(texts, tokenizer, tmp_path / "cache", **NO_LIMIT)
    beside = StoredFeatures(trees, texts, tokenizer.source)
    assert [beside.heads(row) for row in range(len(texts))] == [heads for _, heads in SENTENCES[::-1]]
    for batch in batches_in_order(store, budget=40, source_features=beside):
        origins = [int(store.origins[row]) for row in batch.rows]
        rows = [expected(tokenizer.source, *SENTENCES[::-1][origin]) for origin in origins]
        assert [ids[: len(row.ids)] for ids, row in zip(batch.source.tolist(), rows, strict=True)] == [
            list(row.ids) for row in rows
        ]
        assert same(batch.source_features, by_hand(rows))
        moved = batch.to(torch.device("meta")).source_features
        assert moved.words.device.type == moved.heads.device.type == "meta"


def test_batch_without_trees_has_no_features(tmp_path):
    store = TokenStore.build(tmp_path / "tokens", [([5], [6])])
    batch = collate(store, np.array([0]))
    assert batch.source_features is None
    assert batch.to(torch.device("cpu")).source_features is None


def test_words_keep_their_heads_under_bpe_dropout(texts, trees, tmp_path):
    tokenizer = learn(BPE)
    store = tokenize_texts(texts, tokenizer, tmp_path / "cache", **NO_LIMIT)
    beside = StoredFeatures(trees, texts, tokenizer.source)

    def anew(epoch: int) -> TokenStore:
        chances = {"probability": 0.7, "seed": 1, "epoch": epoch}
        return retokenize_epoch(store, texts, tokenizer, tmp_path / "cache", **chances)

    stream = pair_stream(anew, budget=1000, seed=1, source_features=beside)
    seen = set()
    for _ in range(3):
        batch = next(stream)
        for ids, words, row in zip(
            batch.source.tolist(), batch.source_features.words.tolist(), batch.rows, strict=True
        ):
            text, heads = SENTENCES[::-1][int(store.origins[row])]
            end = ids.index(EOS)
            seen.add(tuple(ids[:end]))
            assert words[end:] == [0] * (len(words) - end)
            spelt = [
                tokenizer.source.decode(np.array(ids[:end])[np.array(words[:end]) == n])
                for n in sorted(set(words) - {0})
            ]
            assert spelt == [tokenizer.source.normalize(word) for word in text.split()]
            assert len(spelt) == len(heads)
    assert len(seen) > len(SENTENCES)


def test_features_are_built_from_ids_and_trees(tmp_path):
    side = learn(BPE).source
    rows = [expected(side, text, heads) for text, heads in [*SENTENCES, ("", ())]]
    found = build_source_features([row.ids for row in rows], [row.heads for row in rows], word_start_mask(side))
    assert same(found, by_hand(rows))
    alone = build_source_features([()], [()], word_start_mask(side))
    assert (alone.words.tolist(), alone.heads.tolist()) == ([[0]], [[0]])


def test_tokens_of_other_words_fail_the_assertion():
    side = learn(BPE).source
    with pytest.raises(AssertionError):
        build_source_features([side.encode("two dogs")], [(0,)], word_start_mask(side))


def test_head_in_another_segment_makes_a_root():
    heads = (2, 0, 2, 5, 3)
    assert split_tree(heads, "a b c d e", ["a b", "c", "d e"]) == [(2, 0), (0,), (2, 0)]
    assert split_tree(heads, "a b c d e", ["a b c", "d e"]) == [(2, 0, 2), (2, 0)]
    assert split_tree((), " ", [" "]) == [()]


def test_parts_of_a_word_share_its_head():
    assert split_tree((2, 3, 0), "ab cdef gh", ["ab cd", "ef gh"]) == [(2, 0), (2, 0)]
    assert split_tree((0,), "abcdef", ["ab", "cd", "ef"]) == [(0,), (0,), (0,)]


@given(forests(most=9), st.data())
def test_trees_of_segments_are_trees(heads: Heads, data: st.DataObject) -> None:
    """Segments may cut words; a head in the same segment stays the head."""
    words = [data.draw(st.sampled_from(["a", "bc", "def"])) for _ in heads]
    text = " ".join(words)
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(text) - 1)), max_size=3)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    found = split_tree(heads, text, pieces)
    assert [len(tree) for tree in found] == [len(piece.split()) for piece in pieces]
    assert [find_tree_error(tree) for tree in found] == [None] * len(pieces)
    if len(pieces) == 1:
        assert found == [heads]
