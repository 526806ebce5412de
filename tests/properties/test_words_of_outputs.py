"""Required, single, forbidden and glossary words, judged on the final text by regular expressions, not by the program.

Random models with eight kinds of tokenizer write any text; what a translation violates has to be reported.
"""

import re
import warnings
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import Constraint, Translator
from dragoman.data.tokenizers import (
    BpeConfig,
    CharacterConfig,
    ImportedTokenizerConfig,
    Tokenizer,
    UnigramConfig,
    WordConfig,
)
from dragoman.models.config import EncoderDecoderConfig
from tests.partner_tokenizers import TEXTS, imported, imported_sentencepiece
from tests.property_settings import examples
from tests.random_models import NO_DROPOUT, random_transformer

TRAINED = {
    "bpe, white space kept": BpeConfig(vocab_size=340, whitespace="keep"),
    "bpe": BpeConfig(vocab_size=340),
    "unigram": UnigramConfig(vocab_size=340),
    "characters": CharacterConfig(whitespace="keep"),
    "words": WordConfig(),
}
IMPORTED = {"byte-level": "byte_level", "sentencepiece": "sp_unigram", "sentencepiece, no dummy prefix": "sp_plain"}
SOURCES = (
    "The quick brown fox jumps over the lazy dog.",
    'Say "stop" (or so), and don\'t stop',
    "dog-like dogs, naïve café",
    "the the the dog",
)
PIECES = ("the", "The", "dog", "dogs", "fox", "stop", "so", "or so", "café", "words", "lazy-dog", "don't", "12", "und")


@cache
def translator(kind: str) -> Translator:
    """Return a random model with a tokenizer of a kind."""
    if kind in TRAINED:
        pairs = [(text, text.replace("the", "(the)").replace("dog", "dog-dog")) for text in TEXTS]
        tokenizer = Tokenizer.train(lambda: pairs, TRAINED[kind])
    else:
        name = IMPORTED[kind]
        side = imported_sentencepiece(name) if name.startswith("sp") else imported(name)
        tokenizer = Tokenizer(side, side, ImportedTokenizerConfig())
    config = EncoderDecoderConfig(
        d_model=12, num_heads=2, encoder_layers=1, decoder_layers=1, d_ff=17, dropout=NO_DROPOUT
    )
    sizes = len(tokenizer.source), len(tokenizer.target)
    model = random_transformer(config, source_vocabulary=sizes[0], target_vocabulary=sizes[1], seed=len(kind))
    return Translator(model, tokenizer)


def occurrences(word: str, text: str, *, any_case: bool = False) -> int:
    """Count a word in a text, where it is no part of a longer or a hyphenated word; kana and Han are words alone."""
    text = re.sub(r"([\u3040-\u30ff\u4e00-\u9fff])", r" \1 ", text)
    pattern = r"\s+".join(map(re.escape, word.split()))
    return len(re.findall(rf"(?<!\w)(?<!\w-){pattern}(?!\w)(?!-\w)", text, re.IGNORECASE if any_case else 0))


def violates(kind: str, word: str, text: str) -> bool:
    count = occurrences(word, text, any_case=kind == "forbidden" and word.islower())
    return {"required": count == 0, "once": count != 1, "forbidden": count > 0}[kind]


@pytest.mark.parametrize("tokenizer", [*TRAINED, *IMPORTED])
@examples(20)
@given(data=st.data())
def test_no_constraint_is_violated_without_a_word(tokenizer: str, data: st.DataObject) -> None:
    model = translator(tokenizer)
    source = data.draw(st.sampled_from(SOURCES))
    options = {"max_length": 9, "beam_size": data.draw(st.sampled_from([1, 2, 5]))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        free = model.translate(source, **options).text
        drawn = data.draw(st.sampled_from([*PIECES, *re.findall(r"\w+(?:-\w+)*", free)]))
        word = model.tokenizer.target.decode(model.tokenizer.target.encode(drawn)).strip()
        if not word or "⁇" in word or not word[0].isalnum():
            return
        kind = data.draw(st.sampled_from(["required", "once", "forbidden"]))
        found = model.translate(source, constraints=[Constraint(word, kind)], **options)[0]
    assert violates(kind, word, found.text) == bool(found.unmet), found


@pytest.mark.parametrize("tokenizer", [*TRAINED, *IMPORTED])
def test_words_follow_a_space_and_not_another_word(tokenizer: str) -> None:
    model = translator(tokenizer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = model.translate(SOURCES[0], constraints=[Constraint("dog"), Constraint("the")], max_length=12)[0]
    assert found.unmet == ()
    assert not violates("required", "dog", found.text)
    assert not violates("required", "the", found.text)


@pytest.mark.parametrize("tokenizer", [*TRAINED, *IMPORTED])
def test_contradictory_constraints_leave_the_ordinary_translation(tokenizer: str) -> None:
    model = translator(tokenizer)
    constraints = [Constraint("dog"), Constraint("dog", kind="forbidden")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        free = model.translate(SOURCES[1], max_length=9)
        found = model.translate(SOURCES[1], constraints=constraints, max_length=9)
    assert found.text == free.text
    assert set(found[0].unmet) == {"dog"}
