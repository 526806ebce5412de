import json
from pathlib import Path

import numpy as np
import pytest

from dragoman.data.tokenizers import (
    BOS,
    EOS,
    PAD,
    UNK,
    BpeConfig,
    ImportedTokenizer,
    ImportedTokenizerConfig,
    Tokenizer,
    tokenizer_from_json,
    tokenizer_from_sentencepiece,
)
from dragoman.data.tokenizers.vocabulary_extension import extend_vocab
from dragoman.errors import ConfigError, DataError
from tests.partner_tokenizers import (
    JSON_KINDS,
    SENTENCEPIECE_KINDS,
    imported,
    imported_sentencepiece,
    library,
    order_of,
    processor,
    sentencepiece_model,
)

ALL = {kind: imported(kind) for kind in JSON_KINDS} | {
    f"{kind}-{shift}": imported_sentencepiece(kind, shift=shift) for kind in SENTENCEPIECE_KINDS for shift in (0, 7)
}


def pair(side: ImportedTokenizer) -> Tokenizer:
    return Tokenizer(side, side, ImportedTokenizerConfig())


@pytest.mark.parametrize("side", ALL.values(), ids=ALL)
def test_saved_tokenizer_is_the_same(side: ImportedTokenizer, tmp_path: Path) -> None:
    pair(side).save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    assert loaded.fingerprint == pair(side).fingerprint
    assert loaded.shared
    text = "The dog doesn't see 日本 Größe, naïve."
    assert loaded.source.encode(text) == side.encode(text)
    assert loaded.target.tokens == side.tokens


def test_two_models_share_a_vocabulary(tmp_path: Path) -> None:
    kinds = [sentencepiece_model(**SENTENCEPIECE_KINDS[kind]) for kind in ("sp_unigram", "sp_bpe")]
    pieces = {
        piece: None
        for kind in ("sp_unigram", "sp_bpe")
        for piece in (processor(kind).id_to_piece(n) for n in range(processor(kind).get_piece_size()))
    }
    vocabulary = {piece: n for n, piece in enumerate(pieces)}
    source, target = (
        tokenizer_from_sentencepiece(model, order=[-1, *range(len(vocabulary))], vocabulary=vocabulary)
        for model in kinds
    )
    tokenizer = Tokenizer(source, target, ImportedTokenizerConfig())
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    assert loaded.shared
    assert loaded.source is not loaded.target
    assert loaded.target.encode("the dog") == target.encode("the dog") != source.encode("the dog")


def test_special_symbols_have_the_first_ids() -> None:
    side, judge = imported("byte_level"), library("byte_level")
    assert [side.order[index] for index in (PAD, UNK, BOS, EOS)] == [
        judge.token_to_id(one) for one in ("<pad>", "<unk>", "<s>", "</s>")
    ]
    assert side.ids_to_tokens([PAD, UNK, BOS, EOS]) == ["<pad>", "<unk>", "<bos>", "<eos>"]
    assert side.encode("a</s>")[-1] == EOS
    assert side.decode([*side.encode("dog"), EOS, PAD]) == "dog"


def test_copied_and_added_symbols() -> None:
    judge = library("byte_level")
    end = judge.token_to_id("</s>")
    others = [n for n in range(judge.get_vocab_size()) if n != end]
    side = tokenizer_from_json(judge.to_str(), order=[-1, -1, end, end, *others, 100_000])
    assert side.encode("</s>") == [EOS]
    assert side.decode([PAD, UNK, BOS, EOS, len(side) - 1]) == ""
    assert side.ids_to_tokens([len(side) - 1]) == [f"<{len(side) - 1}>"]
    assert side.tokens[len(side) - 1] == ""


@pytest.mark.parametrize(
    ("kind", "tokens"),
    [
        ("byte_level", "The ▁dogs ▁ <0xF0> <0x9F> <0x98> <0x80> ▁ plain_token <extra>"),
        ("wordpiece", "▁the ▁dogs <unk> plain_token <extra>"),
        ("unigram", "▁ T h e ▁dog s ▁ <unk> ▁ plain_token <extra>"),
        ("suffix", "▁The ▁dogs <unk> plain_token <extra>"),
        ("words", "▁The ▁dogs <unk> plain_token <extra>"),
    ],
)
def test_tokens_are_readable(kind: str, tokens: str) -> None:
    side = imported(kind)
    assert side.ids_to_tokens(side.encode("The dogs 😀 plain_token<extra>")) == tokens.split(" ")


def test_hidden_symbols_write_nothing() -> None:
    side = imported("unigram")
    extra = side.encode("<extra>")
    assert side.decode([*extra, *side.encode("dog"), *extra]) == "dog"
    model = processor("sp_unigram")
    vocabulary = {model.id_to_piece(n): n for n in range(model.get_piece_size())} | {"__de__": 900}
    order = [-1, 0, 1, 2, *range(3, model.get_piece_size()), 900]
    content = sentencepiece_model(**SENTENCEPIECE_KINDS["sp_unigram"])
    with_language = tokenizer_from_sentencepiece(content, order=order, vocabulary=vocabulary, hidden=[900])
    assert with_language.decode([len(with_language) - 1, *with_language.encode("dog")]) == "dog"
    assert with_language.ids_to_tokens([len(with_language) - 1]) == ["__de__"]


def test_missing_characters_and_words_are_named() -> None:
    side = imported_sentencepiece("sp_unigram")
    assert side.missing_units("dog ж ѳ", side.encode("dog ж ѳ")) == ["ж", "ѳ"]
    words = imported("words")
    assert (words.unit, words.missing_units("the zebra dog", words.encode("the zebra dog"))) == ("word", ["zebra"])
    assert imported("byte_level").missing_units("ѳ", imported("byte_level").encode("ѳ")) == []


@pytest.mark.parametrize("kind", ["byte_level", "byte_fallback"])
def test_text_streams_character_by_character(kind: str) -> None:
    side = imported(kind)
    before = side.encode("the")
    decoder = side.streaming_decoder(after=before)
    pieces = [decoder.add(index) for index in side.encode("the 語😀 dog")[len(before) :]]
    assert "".join(pieces) + decoder.finish() == " 語😀 dog"
    assert pieces[-1].endswith("g")


def test_dropout_and_extension_are_refused() -> None:
    side = imported("unigram")
    with pytest.raises(ConfigError, match="has no BPE dropout"):
        side.encode_with_dropout(["a"], probability=0.1, generator=np.random.default_rng(0))
    with pytest.raises(ConfigError, match="cannot be extended"):
        extend_vocab(pair(side), lambda: [("a", "b")], num_tokens=3)
    with pytest.raises(ConfigError, match="comes with its model"):
        Tokenizer.train_on_texts(lambda: ["a"], ImportedTokenizerConfig())


def _without(key: str) -> str:
    tree = json.loads(library("unigram").to_str())
    del tree[key]
    return json.dumps(tree)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        "\x00",
        '{"a": 1, "a": 2}',
        _without("model"),
        '{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["a", "b"]]}}',
        '{"model": {"type": "BPE", "vocab": {"a": 4000000000}, "merges": []}}',
        '{"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "<unk>"}}',
        '{"model": {"type": "Unigram", "vocab": [], "unk_id": 7}}',
    ],
)
def test_invalid_json_is_one_error(content: str) -> None:
    with pytest.raises(DataError, match=r"tokenizer|vocabulary"):
        tokenizer_from_json(content, order=range(10))


@pytest.mark.parametrize("content", [b"", b"abc", b"\x0a\xff\xff\xff", bytes(1000)])
def test_invalid_sentencepiece_is_one_error(content: bytes) -> None:
    with pytest.raises(DataError, match="SentencePiece"):
        tokenizer_from_sentencepiece(content, order=range(10))


@pytest.mark.parametrize("order", [[], [0, 1, 2], [0, 1, 2, -2], [0, 1, 2, 3, 10**9]])
def test_invalid_order_is_refused(order: list[int]) -> None:
    with pytest.raises(DataError, match="vocabulary"):
        tokenizer_from_json(library("words").to_str(), order=order)


def test_order_of_the_library_is_complete() -> None:
    judge = library("wordpiece")
    assert sorted(order_of(judge)) == list(range(judge.get_vocab_size()))


def test_damaged_file_is_one_error(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    pair(imported("unigram")).save(path)
    content = path.read_text()
    for damaged in (
        content.replace('"order": [', '"order": ["x", '),
        content.replace('"kind": "tokenizers"', '"kind": "other"'),
        content.replace("Unigram", "BPE"),
        content.replace('"order": [', '"order": [5, '),
    ):
        assert damaged != content
        path.write_text(damaged)
        with pytest.raises(DataError, match="damaged tokenizer"):
            Tokenizer.load(path)


def test_trained_tokenizers_keep_their_file(tmp_path: Path) -> None:
    tokenizer = Tokenizer.train_on_texts(lambda: ["a b c"] * 3, BpeConfig(vocab_size=300))
    tokenizer.save(tmp_path / "one.json")
    tokenizer = Tokenizer.load(tmp_path / "one.json")
    tokenizer.save(tmp_path / "two.json")
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


def test_ids_of_the_other_program_are_read() -> None:
    side, judge = imported_sentencepiece("sp_bytes", shift=7), processor("sp_bytes")
    text = "The dog doesn't see 日本 Größe."
    pieces = judge.encode(text)
    theirs = [judge.get_piece_size() + 7 - index for index in pieces]
    assert side.read_ids(theirs) == side.encode(text) != theirs
    assert side.read_ids([judge.get_piece_size() + 7 - judge.bos_id()]) == [BOS]
    for index in (0, 1_000_000):
        with pytest.raises(DataError, match=f"{index} is no token"):
            side.read_ids([index])
