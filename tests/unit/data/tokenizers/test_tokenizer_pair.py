"""Tokenizers of every kind: round trip, special tokens and file."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.config import Config, parse
from dragoman.data.tokenizers import (
    BOS,
    EOS,
    PAD,
    UNK,
    BpeConfig,
    CharacterConfig,
    Tokenizer,
    TokenizerConfig,
    UnigramConfig,
    WordConfig,
)
from dragoman.errors import ConfigError, DataError
from dragoman.models import special_symbols

PAIRS = [
    ("Two dogs play in the snow .", "Zwei Hunde spielen im Schnee ."),
    ("A dog isn't playing; it's 12:30!", "Ein Hund spielt nicht; es ist 12.30 Uhr!"),
    ("The dogs, the snow and the play.", "Die Hunde, der Schnee und das Spiel."),
    ("Dogs play 2 plays.", "Hunde spielen 2 Spiele."),
] * 3
KINDS: list[TokenizerConfig] = [
    BpeConfig(vocab_size=350),
    BpeConfig(vocab_size=350, shared=False, casing="lower", split_punctuation=False, split_digits=False),
    UnigramConfig(vocab_size=350),
    UnigramConfig(vocab_size=330, shared=False, split_punctuation=False, split_digits=False),
    CharacterConfig(),
    CharacterConfig(shared=False),
]
SPELLABLE = [
    "Two dogs play.",
    "  Ünïcode \t\u00a0 日本語 👩‍👩‍👧 \u0000 \u0007 spaces  ",
    "a▁b ▁ ▁▁",
    "<pad> <unk> <bos> <eos> <end> <0x41> <0x0A> ⁇ \ufffd",
    "",
    "   \n ",
    "cafe\u0301 e\u0301\u0301 \ufeff x",
    "\ud83d alone",
]


class Holder(Config):
    tokenizer: TokenizerConfig = BpeConfig()


def named(settings: TokenizerConfig) -> str:
    return f"{settings.kind}-{'shared' if settings.shared else 'separate'}"


@pytest.fixture(scope="module", params=KINDS, ids=named)
def tokenizer(request) -> Tokenizer:
    return Tokenizer.train(lambda: PAIRS, request.param)


@pytest.mark.parametrize("text", SPELLABLE)
def test_round_trip_gives_the_normalized_text(tokenizer, text):
    for side in (tokenizer.source, tokenizer.target):
        assert side.decode(side.encode(text)) == side.normalize(text)


@pytest.mark.parametrize("text", SPELLABLE)
def test_no_text_becomes_a_special_token(tokenizer, text):
    for side in (tokenizer.source, tokenizer.target):
        ids = side.encode(text)
        assert not {PAD, UNK, BOS, EOS} & set(ids)
        assert all(0 <= index < len(side) for index in ids)


def test_special_tokens_match_the_models():
    ids = special_symbols.PAD, special_symbols.UNK, special_symbols.BOS, special_symbols.EOS
    assert ids == (PAD, UNK, BOS, EOS)


def test_batch_equals_single_texts(tokenizer):
    assert tokenizer.source.encode_batch(SPELLABLE) == [tokenizer.source.encode(text) for text in SPELLABLE]


def test_frequent_words_are_tokens():
    side = Tokenizer.train(lambda: PAIRS, BpeConfig(vocab_size=400)).source
    assert side.ids_to_tokens(side.encode("the dogs play . 12,")) == ["▁the", "▁dogs", "▁play", "▁.", "▁1", "2", ","]


def test_characters_are_tokens():
    side = Tokenizer.train(lambda: PAIRS, CharacterConfig(byte_fallback=False)).source
    assert side.ids_to_tokens(side.encode("a dog")) == ["a", "▁", "d", "o", "g"]
    assert len(side) == 4 + len(set("".join(a + b for a, b in PAIRS)))


def test_words_are_tokens_and_unseen_words_are_unk():
    side = Tokenizer.train(lambda: PAIRS, WordConfig()).source
    assert side.ids_to_tokens(side.encode("Two dogs, zebra .")) == ["▁Two", "▁dogs", ",", "<unk>", "▁."]
    assert side.decode(side.encode("Two dogs, zebra .")) == "Two dogs, ⁇ ."
    assert side.decode(side.encode("The dogs, the snow.")) == "The dogs, the snow."


def test_unseen_character_is_unk_without_bytes():
    for settings in (BpeConfig(vocab_size=80, byte_fallback=False), UnigramConfig(vocab_size=80, byte_fallback=False)):
        side = Tokenizer.train(lambda: PAIRS, settings).source
        assert side.encode("dog Ж").count(UNK) == 1
        assert side.decode(side.encode("dog Ж")) == "dog ⁇"


def test_decoding_skips_special_tokens_and_line_breaks(tokenizer):
    side = tokenizer.target
    assert side.decode([BOS, *side.encode("Zwei Hunde"), EOS, PAD, PAD]) == side.normalize("Zwei Hunde")
    spelt = {piece: index for index, piece in enumerate(side.model.vocab)}
    assert side.decode([spelt["<0x41>"], spelt["<0x0A>"], spelt["<0x42>"]]) == "A B"
    assert side.decode([spelt["<0xC3>"], spelt["<0x41>"]]) == "\ufffdA"
    assert side.ids_to_tokens([PAD, UNK, BOS, EOS]) == ["<pad>", "<unk>", "<bos>", "<eos>"]


@pytest.mark.parametrize(
    ("form", "casing", "expected"),
    [
        ("none", "preserve", "ﬁ E\u0301 İ"),
        ("nfc", "preserve", "ﬁ É İ"),
        ("nfkc", "preserve", "fi É İ"),
        ("nfc", "lower", "ﬁ é i\u0307"),
    ],
)
def test_normalization_and_casing(form, casing, expected):
    side = Tokenizer.train(lambda: PAIRS, BpeConfig(vocab_size=300, normalization=form, casing=casing)).source
    assert side.normalize(" ﬁ\u00a0 E\u0301 İ ") == expected
    assert side.decode(side.encode(" ﬁ\u00a0 E\u0301 İ ")) == expected


def test_vocabulary_is_shared_or_separate():
    shared = Tokenizer.train(lambda: PAIRS, BpeConfig(vocab_size=400))
    assert shared.shared
    assert shared.source is shared.target
    apart = Tokenizer.train(lambda: PAIRS, BpeConfig(vocab_size=400, shared=False))
    assert not apart.shared
    assert "▁Hunde" in apart.target.model.vocab
    assert "▁Hunde" not in apart.source.model.vocab


def test_small_corpus_gives_fewer_tokens(tokenizer):
    big = Tokenizer.train(lambda: PAIRS[:1], BpeConfig(vocab_size=100_000, min_frequency=1))
    assert 260 < len(big.source) < 400


@pytest.mark.parametrize("settings", KINDS, ids=named)
def test_corpus_without_text_is_refused(settings):
    for pairs in ([], [("", " ")]):
        with pytest.raises(DataError, match="no text to train"):
            Tokenizer.train(lambda pairs=pairs: pairs, settings)


def test_file_restores_the_tokenizer(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert again.fingerprint == tokenizer.fingerprint
    assert again.config == tokenizer.config
    assert again.shared == tokenizer.shared
    for text in SPELLABLE:
        assert again.target.encode(text) == tokenizer.target.encode(text)
    assert [path.name for path in tmp_path.iterdir()] == ["tokenizer.json"]


def test_file_has_format_and_version(tmp_path):
    Tokenizer.train(lambda: PAIRS, BpeConfig(vocab_size=300, casing="lower")).save(tmp_path / "tokenizer.json")
    tree = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    assert (tree["format"], tree["format_version"]) == ("dragoman.tokenizer", 3)
    assert tree["config"]["kind"] == "bpe"
    assert tree["source"]["normalizer"]["casing"] == "lower"
    assert tree["target"] is None


def damage_cut(text: str) -> str:
    return text[: len(text) // 2]


def damage_piece(text: str) -> str:
    return text.replace('"▁dogs"', '"▁cats"', 1)


def damage_merge(text: str) -> str:
    tree = json.loads(text)
    tree["source"]["model"]["merges"][0] = ["no", "such"]
    return json.dumps(tree)


def damage_casing(text: str) -> str:
    return text.replace('"casing": "preserve"', '"casing": "lower"')


@pytest.mark.parametrize("damage", [damage_cut, damage_piece, damage_merge, damage_casing])
def test_damaged_file_is_refused_with_a_remedy(tmp_path, damage):
    path = tmp_path / "tokenizer.json"
    Tokenizer.train(lambda: PAIRS, BpeConfig(vocab_size=400)).save(path)
    damaged = damage(path.read_text(encoding="utf-8"))
    assert damaged != path.read_text(encoding="utf-8")
    path.write_text(damaged, encoding="utf-8")
    with pytest.raises(DataError, match=r"tokenizer\.json: damaged .*\(.+\); copy the file again"):
        Tokenizer.load(path)


def test_merge_without_token_is_refused(tmp_path):
    path = tmp_path / "tokenizer.json"
    Tokenizer.train(lambda: [("a a b", "b b a")], BpeConfig(vocab_size=300)).save(path)
    tree = json.loads(path.read_text(encoding="utf-8"))
    model = tree["source"]["model"]
    model["vocab"][-1] = "a long token"
    model["merges"] = [["a long token", "a long token"]]
    path.write_text(json.dumps(tree), encoding="utf-8")
    with pytest.raises(DataError, match="a merge gives no token of the vocabulary"):
        Tokenizer.load(path)


def test_missing_foreign_or_newer_file_is_refused(tmp_path):
    path = tmp_path / "tokenizer.json"
    with pytest.raises(DataError, match="cannot be read"):
        Tokenizer.load(path)
    path.write_text('{"model": {}}', encoding="utf-8")
    with pytest.raises(DataError, match=r"is not of dragoman\.tokenizer"):
        Tokenizer.load(path)
    path.write_text('{"format": "dragoman.tokenizer", "format_version": 4}', encoding="utf-8")
    with pytest.raises(DataError, match="version 4, but this program reads version 3; update"):
        Tokenizer.load(path)


def test_fingerprints_differ_if_ids_differ():
    prints = {Tokenizer.train(lambda: PAIRS, settings).fingerprint for settings in KINDS}
    assert len(prints) == len(KINDS)
    plain, dropping = (Tokenizer.train(lambda: PAIRS, BpeConfig(vocab_size=350, dropout=p)) for p in (0.0, 0.1))
    assert plain.fingerprint == dropping.fingerprint  # dropout changes nothing in translating


TRAIN_IN_A_PROCESS = """
from dragoman.data.tokenizers import BpeConfig, Tokenizer, UnigramConfig
pairs = [(f"the number {n * n % 101} of {n % 7}", f"die Nummer {n * n % 101} aus {n % 7}") for n in range(200)]
for settings in (BpeConfig(vocab_size=300), UnigramConfig(vocab_size=300)):
    print(Tokenizer.train(lambda: pairs, settings).fingerprint)
rare = [("abcdefghijklm", "nopqrstuvwxyz")] * 2  # more characters than half a vocabulary, all equally rare
print(Tokenizer.train(lambda: rare, BpeConfig(vocab_size=290)).fingerprint)
"""


def test_training_is_the_same_in_every_process():
    runs = [
        subprocess.run([sys.executable, "-c", TRAIN_IN_A_PROCESS], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert runs[0] == runs[1]
    assert len(set(runs[0].split())) == 3


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"kind": "bpe", "vocab_size": 260}, "vocab_size = 260: 260 are taken .* set byte_fallback"),
        ({"kind": "unigram", "dropout": 0.1}, "tokenizer.dropout: no such key"),
        ({"kind": "bpe", "dropout": 1.5}, "tokenizer.dropout"),
        ({"kind": "bpee"}, "tokenizer.kind"),
    ],
)
def test_invalid_settings_are_refused(tree, message):
    with pytest.raises(ConfigError, match=message):
        parse(Holder, {"tokenizer": tree})


def lines_of(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\n") for line in file]


@pytest.mark.parametrize(("part", "language"), [("", "de"), ("", "fr"), ("tok", "de")])
def test_multi30k_round_trips(shared_data, part, language):
    folder = shared_data / "multi30k" / part
    pairs = list(zip(lines_of(folder / "train.en.gz"), lines_of(folder / f"train.{language}.gz"), strict=True))[:6000]
    tokenizer = Tokenizer.train(lambda: pairs, BpeConfig(vocab_size=4000))
    held_out = lines_of(folder / f"val.{language}.gz")
    encoded = tokenizer.target.encode_batch(held_out)
    assert [tokenizer.target.decode(ids) for ids in encoded] == [" ".join(text.split()) for text in held_out]
    words = sum(len(text.split()) for text in held_out)
    assert sum(map(len, encoded)) < 1.7 * words  # subwords, not characters


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (CharacterConfig(byte_fallback=True), ["猫", "z"]),
        (CharacterConfig(byte_fallback=False), ["猫", "z"]),
        (BpeConfig(vocab_size=300, byte_fallback=True), ["猫", "z"]),
        (WordConfig(), ["猫a", "zz"]),
    ],
)
def test_units_that_the_vocabulary_lacks_are_found(config, expected):
    side = Tokenizer.train_on_texts(lambda: ["two dogs and a cat", "a cat a cat"], config).source
    for text, units in (("a cat", []), ("", []), ("a 猫a zz 猫a", expected)):
        assert side.missing_units(text, side.encode(text)) == units


def test_own_ids_are_read_as_they_are() -> None:
    side = Tokenizer.train_on_texts(lambda: ["two dogs"], CharacterConfig()).source
    ids = side.encode("two dogs")
    assert side.read_ids(ids) == ids
    for index in (-1, len(side)):
        with pytest.raises(DataError, match=f"{index} is no token"):
            side.read_ids([index])
