from pathlib import Path

import pytest

from dragoman.data.tokenizers import (
    BpeConfig,
    CharacterConfig,
    DirectionWarning,
    SubwordTokenizer,
    Tokenizer,
    TokenizerConfig,
    UnigramConfig,
    WordConfig,
)
from dragoman.data.tokenizers.language_tags import add_language_tags
from dragoman.data.tokenizers.vocabulary import SPECIAL_TOKENS
from dragoman.errors import ConfigError

TEXTS = [("one two", "eins zwei"), ("three <2de>", "drei")] * 4
CONFIGS: list[TokenizerConfig] = [
    BpeConfig(vocab_size=300),
    UnigramConfig(vocab_size=300, shared=False),
    CharacterConfig(whitespace="keep"),
    WordConfig(),
]
SEVERAL = [("en", "de"), ("en", "fr"), ("de", "en")]


def plain(config: TokenizerConfig) -> Tokenizer:
    return Tokenizer.train(lambda: TEXTS, config)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.kind)
def test_tag_of_the_target_precedes_the_source(config: TokenizerConfig, tmp_path: Path) -> None:
    before = plain(config)
    tokenizer = add_language_tags(before, SEVERAL)
    assert len(tokenizer.source) == len(before.source) + 3
    assert tokenizer.shared == before.shared
    direction = tokenizer.prefixes.resolve("en", "fr")
    tag = len(before.source) + 1
    assert direction.encode_sources(tokenizer.source, ["one two"]) == [[tag, *before.source.encode("one two")]]
    assert direction.encode_targets(tokenizer.target, ["eins"]) == [before.target.encode("eins")]
    assert tokenizer.source.ids_to_tokens([tag]) == ["<2fr>"]
    assert tokenizer.source.decode([tag, *before.source.encode("two")]) == "two"
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    assert loaded.prefixes == tokenizer.prefixes
    assert loaded.source.tokens == tokenizer.source.tokens


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.kind)
def test_no_text_spells_a_tag(config: TokenizerConfig) -> None:
    tokenizer = add_language_tags(plain(config), SEVERAL)
    first = len(tokenizer.source) - 3
    for text in ("<2de>", " <2de>", "▁<2de>", "a <2fr> b", "".join(SPECIAL_TOKENS)):
        assert max(tokenizer.source.encode(text)) < first
        assert min(tokenizer.source.encode(text)) > 0


def test_one_language_pair_needs_no_tag() -> None:
    before = plain(WordConfig())
    tokenizer = add_language_tags(before, [("en", "de"), ("en", "de")])
    assert isinstance(tokenizer.source, SubwordTokenizer)
    assert len(tokenizer.source) == len(before.source)
    assert tokenizer.prefixes.resolve() == tokenizer.prefixes.resolve("EN", "de")
    with pytest.warns(DirectionWarning, match="de to en was not trained; the model knows en to de"):
        tokenizer.prefixes.resolve("de", "en")
    with pytest.raises(ConfigError, match="is no language of this model"):
        tokenizer.prefixes.resolve("en", "fi")


def test_corpora_without_languages_change_nothing() -> None:
    before = plain(WordConfig())
    assert add_language_tags(before, [(None, None), (None, None)]) is before


def test_source_languages_are_optional() -> None:
    rules = add_language_tags(plain(WordConfig()), [(None, "de"), ("en", "fr")]).prefixes
    assert (rules.directions, rules.source_language, rules.target_language) == ((), "en", None)
    assert rules.resolve(None, "de").source != rules.resolve("en", "fr").source


@pytest.mark.parametrize("pairs", [[("en", "de"), (None, None)], [("en", None), ("en", "de")], [("en", None)]])
def test_every_corpus_names_its_languages(pairs: list[tuple[str | None, str | None]]) -> None:
    with pytest.raises(ConfigError, match="Name the languages of every corpus"):
        add_language_tags(plain(WordConfig()), pairs)
