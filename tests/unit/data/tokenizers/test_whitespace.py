"""Kept white space: units, files, passages and streaming."""

import gzip
import json
from itertools import chain
from pathlib import Path

import pytest

from dragoman.config import Config, parse
from dragoman.data.tokenizers import (
    BOS,
    EOS,
    UNK,
    BpeConfig,
    CharacterConfig,
    LanguageTokenizer,
    Tokenizer,
    TokenizerConfig,
    UnigramConfig,
    WordConfig,
)
from dragoman.errors import ConfigError, DataError

GOLDEN = Path(__file__).parents[3] / "golden" / "run-1" / "tokenizer.json"
CODE = "def add(a, b):\n    return a + b\n\n\nclass Dog:\n\tname = 'Rex'  # a dog\n"
TEXTS = [CODE, "The dog  plays.\nThe cat plays,   too.\n", "Two dogs play in the snow.\n\nTwo cats don't.\n"] * 3
KINDS: list[TokenizerConfig] = [
    BpeConfig(vocab_size=350, whitespace="keep"),
    BpeConfig(vocab_size=350, whitespace="keep", split_punctuation=False, split_digits=False),
    UnigramConfig(vocab_size=350, whitespace="keep"),
    CharacterConfig(whitespace="keep"),
]
PAIRS = [("Two dogs play in 2 fields.", "Zwei Hunde spielen auf 2 Feldern."), ("A dog plays.", "Ein Hund spielt.")] * 3


class Holder(Config):
    tokenizer: TokenizerConfig = BpeConfig()


def trained(settings: TokenizerConfig) -> LanguageTokenizer:
    return Tokenizer.train_on_texts(lambda: TEXTS, settings).source


@pytest.fixture(scope="module", params=KINDS, ids=["bpe", "bpe-whole", "unigram", "characters"])
def side(request) -> LanguageTokenizer:
    return trained(request.param)


def units(text: str) -> list[str]:
    """Return the units inside which tokens are learned; the vocabulary is large enough to hold every unit."""
    side = Tokenizer.train_on_texts(
        lambda: [text] * 2, BpeConfig(vocab_size=1000, byte_fallback=False, whitespace="keep")
    ).source
    return side.ids_to_tokens(side.encode(text))


@pytest.mark.parametrize(
    "text",
    [
        CODE,
        "",
        " ",
        "\n",
        "  two  spaces  ",
        "\t\ttabs\t\n \n\n x",
        "no line feed at the end",
        "▁ and a▁b ▁▁",
        "\u00a0\u2003\u2028 odd\rspaces\x0b\x1c",
        "日本語 👩‍👩‍👧 ünïcode",
        "<pad> <0x41> ▁<bos>",
    ],
)
def test_round_trip_keeps_white_space(side, text):
    assert side.decode(side.encode(text)) == side.normalize(text) == text


def test_white_space_forms_units():
    text = "if x:\n    return\t1\n\n\ndone  now "
    expected = ["if", "▁x", ":", "\n", "▁▁▁", "▁return", "\t", "1", "\n\n\n", "done", "▁", "▁now", "▁"]
    assert units(text) == expected


def test_line_break_ends_its_spaces():
    assert units("a  \n \n b") == ["a", "▁▁\n▁\n", "▁b"]


def test_unknown_character_has_no_space_around_it():
    side = trained(CharacterConfig(byte_fallback=False, whitespace="keep"))
    ids = side.encode("a Ж\nЖ")
    assert ids.count(UNK) == 2
    assert side.decode(ids) == "a ⁇\n⁇"


def test_word_tokenizer_refuses_kept_white_space():
    with pytest.raises(ConfigError, match=r"whitespace = keep: whole words cannot spell unseen runs of spaces.*choose"):
        parse(Holder, {"tokenizer": {"kind": "words", "whitespace": "keep"}})
    assert parse(Holder, {"tokenizer": {"kind": "words", "whitespace": "collapse"}}).tokenizer == WordConfig()


def test_save_and_load_restore_the_tokenizer(tmp_path):
    tokenizer = Tokenizer.train_on_texts(lambda: TEXTS, KINDS[0])
    tokenizer.save(tmp_path / "tokenizer.json")
    tree = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    assert tree["format_version"] == 3
    assert tree["config"]["whitespace"] == tree["source"]["normalizer"]["whitespace"] == "keep"
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert again.fingerprint == tokenizer.fingerprint
    assert again.config == tokenizer.config
    assert again.source.encode(CODE) == tokenizer.source.encode(CODE)


def test_fingerprint_depends_on_white_space():
    kept, collapsed = (
        Tokenizer.train_on_texts(lambda: ["a b"], CharacterConfig(byte_fallback=False, whitespace=choice))
        for choice in ("keep", "collapse")
    )
    assert kept.source.model == collapsed.source.model
    assert kept.fingerprint != collapsed.fingerprint


def test_golden_file_is_saved_byte_for_byte(tmp_path):
    Tokenizer.load(GOLDEN).save(tmp_path / "tokenizer.json")
    assert (tmp_path / "tokenizer.json").read_bytes() == GOLDEN.read_bytes()


FINGERPRINTS = {
    "bpe": "f67229e4647c8b66cab2adaeef3e4ed5028f89fb5b221f77d70dfcad0a14a53f",
    "characters": "fd80f5a5e20556586a3e51bf2fa0d58aebe46d7531db72029459d360ce8523ef",
    "words": "ab070d0b805766bb3845fff6fff59c99ec14c769a26d8d1dc253ff1c209597e2",
}
"""Recorded once; a change means that training gives other vocabularies."""


@pytest.mark.parametrize(
    "settings", [BpeConfig(vocab_size=350), CharacterConfig(), WordConfig()], ids=lambda one: one.kind
)
def test_training_is_reproducible_across_versions(settings):
    assert Tokenizer.train(lambda: PAIRS, settings).fingerprint == FINGERPRINTS[settings.kind]


def test_unseen_space_is_decoded():
    for whitespace in ("collapse", "keep"):
        side = Tokenizer.train_on_texts(lambda: ["abc"], CharacterConfig(whitespace=whitespace)).source
        assert side.decode(side.encode("a b")) == "a b"


def test_single_texts_give_one_vocabulary():
    tokenizer = Tokenizer.train_on_texts(lambda: TEXTS, BpeConfig(vocab_size=300))
    assert tokenizer.source is tokenizer.target
    with pytest.raises(ConfigError, match=r"tokenizer\.shared = false: single texts have one side"):
        Tokenizer.train_on_texts(lambda: TEXTS, BpeConfig(vocab_size=300, shared=False))
    with pytest.raises(DataError, match="no text to train"):
        Tokenizer.train_on_texts(list, BpeConfig(vocab_size=300, whitespace="keep"))


# Id by id


def test_streaming_returns_final_text_early():
    side = Tokenizer.train_on_texts(lambda: TEXTS, CharacterConfig(whitespace="keep")).source
    decoder = side.streaming_decoder()
    ids = side.encode("a é\n")
    assert len(ids) == 5
    assert [decoder.add(index) for index in (BOS, *ids, EOS)] == ["", "a", " ", "", "é", "\n", ""]
    assert decoder.finish() == ""


def test_incomplete_character_is_replaced():
    side = Tokenizer.train_on_texts(lambda: TEXTS, CharacterConfig(whitespace="keep")).source
    decoder = side.streaming_decoder()
    assert decoder.add(side.encode("é")[0]) == ""
    assert decoder.finish() == "\ufffd"


def test_collapsed_space_waits_for_its_word():
    side = Tokenizer.train_on_texts(lambda: TEXTS, CharacterConfig()).source
    decoder = side.streaming_decoder()
    assert [decoder.add(index) for index in side.encode("a b")] == ["a", "", " b"]
    assert decoder.add(side.encode("a b")[1]) == ""
    assert decoder.finish() == ""


@pytest.mark.parametrize("whitespace", ["collapse", "keep"])
def test_continuation_starts_after_its_prompt(whitespace):
    side = Tokenizer.train_on_texts(lambda: TEXTS, BpeConfig(vocab_size=400, whitespace=whitespace)).source
    ids = side.encode("Two dogs play")
    decoder = side.streaming_decoder(after=ids[:-1])
    prompt = side.decode(ids[:-1])
    assert prompt + decoder.add(ids[-1]) + decoder.finish() == "Two dogs play"


# In passages


@pytest.mark.parametrize("whitespace", ["collapse", "keep"])
@pytest.mark.parametrize("kind", [BpeConfig, UnigramConfig, CharacterConfig])
def test_passages_give_the_ids_of_the_text(kind, whitespace):
    side = trained(kind(vocab_size=400, whitespace=whitespace))
    passages = ["The dog\n\n", "  plays in\n", "'snow, \t\n  \n", "\tthe  end"]
    ids = side.encode_passages([*passages, "Two"], continues=[False, True, True, True, False])
    assert list(chain.from_iterable(ids[:-1])) == side.encode("".join(passages))
    assert ids[-1] == side.encode("Two")


def test_real_text_round_trips(shared_data):
    with gzip.open(shared_data / "lm" / "wikitext-2" / "valid.txt.gz", "rt", encoding="utf-8", newline="\n") as file:
        text = file.read()[:200_000]
    side = Tokenizer.train_on_texts(lambda: [text], BpeConfig(vocab_size=2000, whitespace="keep")).source
    ids = side.encode(text)
    assert side.decode(ids) == text
    assert len(ids) < len(text) / 2.5
