"""Reserved symbols: one token each, whatever the kind of tokenizer, and no change for other texts."""

import pytest

from dragoman.data.tokenizers import BpeConfig, Tokenizer, UnigramConfig, WordConfig
from dragoman.data.tokenizers.config import CharacterConfig, TrainedTokenizerConfig
from dragoman.data.tokenizers.reserved_symbols import (
    PLACEHOLDER_SYMBOLS,
    TERM_SYMBOLS,
    add_reserved_symbols,
    has_reserved_symbols,
    remove_reserved_symbols,
)

PAIRS = [("a red house stands there", "ein rotes Haus steht da"), ("the houses (old)", "die Häuser (alt)")] * 5
TEXT = f"a {TERM_SYMBOLS[0]} house {TERM_SYMBOLS[1]} there {TERM_SYMBOLS[2]} there"
KINDS: list[TrainedTokenizerConfig] = [
    BpeConfig(vocab_size=320),
    BpeConfig(vocab_size=70, byte_fallback=False, shared=False, split_punctuation=False),
    UnigramConfig(vocab_size=320),
    CharacterConfig(vocab_size=320),
    WordConfig(vocab_size=40),
]


@pytest.mark.parametrize("config", KINDS, ids=lambda one: one.kind)
def test_a_symbol_is_one_token(config: TrainedTokenizerConfig) -> None:
    plain = Tokenizer.train(lambda: PAIRS, config)
    tokenizer = add_reserved_symbols(plain, TERM_SYMBOLS)
    assert not has_reserved_symbols(plain.source, TERM_SYMBOLS)
    assert has_reserved_symbols(tokenizer.source, TERM_SYMBOLS)
    side = tokenizer.source
    tokens = [side.tokens[index] for index in side.encode(TEXT)]
    assert [token.lstrip("▁") for token in tokens if token.lstrip("▁") in TERM_SYMBOLS] == list(TERM_SYMBOLS)
    assert side.decode(side.encode(TEXT)) == TEXT
    for source, _ in PAIRS:
        assert side.encode(source) == plain.source.encode(source)


def test_symbols_next_to_punctuation_stay_whole() -> None:
    symbol = PLACEHOLDER_SYMBOLS[3]
    for config in KINDS[:3]:
        side = add_reserved_symbols(Tokenizer.train(lambda: PAIRS, config), PLACEHOLDER_SYMBOLS).target
        assert sum(symbol in side.tokens[index] for index in side.encode(f"({symbol}) {symbol}te")) == 2


def test_a_shared_vocabulary_stays_shared_and_keeps_its_ids(tmp_path) -> None:
    plain = Tokenizer.train(lambda: PAIRS, KINDS[0])
    tokenizer = add_reserved_symbols(add_reserved_symbols(plain, TERM_SYMBOLS), PLACEHOLDER_SYMBOLS)
    assert tokenizer.shared
    assert tokenizer.source.tokens[: len(plain.source)] == plain.source.tokens
    assert add_reserved_symbols(tokenizer, TERM_SYMBOLS) is tokenizer
    tokenizer.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json").source.encode(TEXT) == tokenizer.source.encode(TEXT)


def test_symbols_of_texts_are_replaced() -> None:
    assert remove_reserved_symbols(TEXT).count("\ufffd") == len(TERM_SYMBOLS)
    assert remove_reserved_symbols("größer") == "größer"
