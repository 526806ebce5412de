"""White space that is kept: units, files, and text that comes in passages or goes out id by id."""

import gzip
import json
from itertools import chain
from pathlib import Path

import pytest

from dragoman.config import Config, parse
from dragoman.data.tokenizers import (
    BEGIN,
    END,
    UNKNOWN,
    Bpe,
    Characters,
    Side,
    Tokenizer,
    TokenizerSettings,
    Unigram,
    Words,
)
from dragoman.errors import ConfigError, DataError

GOLDEN = Path(__file__).parents[3] / "golden" / "run-1" / "tokenizer.json"
CODE = "def add(a, b):\n    return a + b\n\n\nclass Dog:\n\tname = 'Rex'  # a dog\n"
TEXTS = [CODE, "The dog  plays.\nThe cat plays,   too.\n", "Two dogs play in the snow.\n\nTwo cats don't.\n"] * 3
KINDS: list[TokenizerSettings] = [
    Bpe(vocabulary=350, whitespace="keep"),
    Bpe(vocabulary=350, whitespace="keep", split_punctuation=False, split_digits=False),
    Unigram(vocabulary=350, whitespace="keep"),
    Characters(whitespace="keep"),
]
PAIRS = [("Two dogs play in 2 fields.", "Zwei Hunde spielen auf 2 Feldern."), ("A dog plays.", "Ein Hund spielt.")] * 3


class Holder(Config):
    tokenizer: TokenizerSettings = Bpe()


def learnt(settings: TokenizerSettings) -> Side:
    return Tokenizer.train_on_texts(lambda: TEXTS, settings).source


@pytest.fixture(scope="module", params=KINDS, ids=["bpe", "bpe-whole", "unigram", "characters"])
def side(request) -> Side:
    return learnt(request.param)


def units(text: str) -> list[str]:
    """The words inside which pieces are learnt: with so many pieces, every one of them that occurs is a piece."""
    side = Tokenizer.train_on_texts(
        lambda: [text] * 2, Bpe(vocabulary=1000, byte_fallback=False, whitespace="keep")
    ).source
    return side.tokens(side.encode(text))


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
        "<pad> <0x41> ▁<begin>",
    ],
)
def test_text_to_ids_to_text_is_the_text(side, text):
    assert side.decode(side.encode(text)) == side.normalise(text) == text


def test_white_space_makes_units_of_its_own():
    text = "if x:\n    return\t1\n\n\ndone  now "
    expected = ["if", "▁x", ":", "\n", "▁▁▁", "▁return", "\t", "1", "\n\n\n", "done", "▁", "▁now", "▁"]
    assert units(text) == expected


def test_a_line_break_takes_the_spaces_before_it():
    assert units("a  \n \n b") == ["a", "▁▁\n▁\n", "▁b"]


def test_an_unseen_character_is_unknown_without_a_space_around_it():
    side = learnt(Characters(byte_fallback=False, whitespace="keep"))
    ids = side.encode("a Ж\nЖ")
    assert ids.count(UNKNOWN) == 2
    assert side.decode(ids) == "a ⁇\n⁇"


def test_words_cannot_keep_white_space():
    with pytest.raises(ConfigError, match=r"whitespace = keep: whole words cannot spell the runs of spaces.*choose"):
        parse(Holder, {"tokenizer": {"kind": "words", "whitespace": "keep"}})
    assert parse(Holder, {"tokenizer": {"kind": "words", "whitespace": "collapse"}}).tokenizer == Words()


def test_the_file_gives_the_same_tokenizer_and_is_of_a_version_of_its_own(tmp_path):
    tokenizer = Tokenizer.train_on_texts(lambda: TEXTS, KINDS[0])
    tokenizer.save(tmp_path / "tokenizer.json")
    tree = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    assert tree["version"] == 2
    assert tree["settings"]["whitespace"] == tree["source"]["preparation"]["whitespace"] == "keep"
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert again.fingerprint == tokenizer.fingerprint
    assert again.settings == tokenizer.settings
    assert again.source.encode(CODE) == tokenizer.source.encode(CODE)


def test_fingerprints_tell_kept_from_collapsed():
    kept, collapsed = (
        Tokenizer.train_on_texts(lambda: ["a b"], Characters(byte_fallback=False, whitespace=choice))
        for choice in ("keep", "collapse")
    )
    assert kept.source.segmentation == collapsed.source.segmentation
    assert kept.fingerprint != collapsed.fingerprint


def test_a_stored_file_is_written_again_byte_for_byte(tmp_path):
    Tokenizer.load(GOLDEN).save(tmp_path / "tokenizer.json")
    assert (tmp_path / "tokenizer.json").read_bytes() == GOLDEN.read_bytes()


FINGERPRINTS_OF_0_1 = {
    "bpe": "aa466d7417557739f5f02c36f647cfdeae9e37ed623d1b3d35b008d062fe918d",
    "unigram": "9248956a7c60f5b9a1ccd50264dcb9bb3a2deeab3133a688be88a09cd61e99df",
    "characters": "6db5a5acf58fea049c1468b20dd4e63ed847a1f5d3aa55c235393b88790b5b17",
    "words": "33088ba84efac9149ac94408c7166e53c1015c6d6c148798e3b7c19574d83366",
}
"""Made by dragoman 0.1.0, which knew no white space that is kept."""


@pytest.mark.parametrize(
    "settings", [Bpe(vocabulary=350), Unigram(vocabulary=290), Characters(), Words()], ids=lambda one: one.kind
)
def test_what_collapses_white_space_is_as_it_was(settings):
    assert Tokenizer.train(lambda: PAIRS, settings).fingerprint == FINGERPRINTS_OF_0_1[settings.kind]


def test_a_space_that_the_corpus_did_not_have_comes_back():
    for whitespace in ("collapse", "keep"):
        side = Tokenizer.train_on_texts(lambda: ["abc"], Characters(whitespace=whitespace)).source
        assert side.decode(side.encode("a b")) == "a b"


def test_single_texts_have_one_vocabulary():
    tokenizer = Tokenizer.train_on_texts(lambda: TEXTS, Bpe(vocabulary=300))
    assert tokenizer.source is tokenizer.target
    with pytest.raises(ConfigError, match=r"tokenizer\.shared = false: single texts have one side"):
        Tokenizer.train_on_texts(lambda: TEXTS, Bpe(vocabulary=300, shared=False))
    with pytest.raises(DataError, match="no text to learn a vocabulary from"):
        Tokenizer.train_on_texts(list, Bpe(vocabulary=300, whitespace="keep"))


# Id by id


def test_text_comes_out_as_soon_as_it_is_certain():
    side = Tokenizer.train_on_texts(lambda: TEXTS, Characters(whitespace="keep")).source
    decoder = side.decoder()
    ids = side.encode("a é\n")
    assert len(ids) == 5
    assert [decoder.add(index) for index in (BEGIN, *ids, END)] == ["", "a", " ", "", "é", "\n", ""]
    assert decoder.finish() == ""


def test_half_a_character_at_the_end_is_told():
    side = Tokenizer.train_on_texts(lambda: TEXTS, Characters(whitespace="keep")).source
    decoder = side.decoder()
    assert decoder.add(side.encode("é")[0]) == ""
    assert decoder.finish() == "\ufffd"


def test_where_white_space_is_collapsed_a_space_waits_for_its_word():
    side = Tokenizer.train_on_texts(lambda: TEXTS, Characters()).source
    decoder = side.decoder()
    assert [decoder.add(index) for index in side.encode("a b")] == ["a", "", " b"]
    assert decoder.add(side.encode("a b")[1]) == ""
    assert decoder.finish() == ""


@pytest.mark.parametrize("whitespace", ["collapse", "keep"])
def test_a_continuation_begins_where_its_prompt_ended(whitespace):
    side = Tokenizer.train_on_texts(lambda: TEXTS, Bpe(vocabulary=400, whitespace=whitespace)).source
    ids = side.encode("Two dogs play")
    decoder = side.decoder(after=ids[:-1])
    prompt = side.decode(ids[:-1])
    assert prompt + decoder.add(ids[-1]) + decoder.finish() == "Two dogs play"


# In passages


@pytest.mark.parametrize("whitespace", ["collapse", "keep"])
@pytest.mark.parametrize("kind", [Bpe, Unigram, Characters])
def test_the_ids_of_passages_are_those_of_the_text(kind, whitespace):
    side = learnt(kind(vocabulary=400, whitespace=whitespace))
    passages = ["The dog\n\n", "  plays in\n", "'snow, \t\n  \n", "\tthe  end"]
    ids = side.encode_passages([*passages, "Two"], continues=[False, True, True, True, False])
    assert list(chain.from_iterable(ids[:-1])) == side.encode("".join(passages))
    assert ids[-1] == side.encode("Two")


def test_real_running_text_comes_back(shared_data):
    with gzip.open(shared_data / "lm" / "wikitext-2" / "valid.txt.gz", "rt", encoding="utf-8", newline="\n") as file:
        text = file.read()[:200_000]
    side = Tokenizer.train_on_texts(lambda: [text], Bpe(vocabulary=2000, whitespace="keep")).source
    ids = side.encode(text)
    assert side.decode(ids) == text
    assert len(ids) < len(text) / 2.5
