import random

import pytest

from dragoman.config import parse
from dragoman.data.config import DataConfig
from dragoman.data.document_context import (
    ContextConfig,
    ContextForm,
    ContextReader,
    count_context_tokens,
    drop_oldest_sentence,
    has_context,
    join_context,
    last_sentences,
    replace_last_sentence,
    split_context,
    with_context,
)
from dragoman.data.readers.parallel import Example
from dragoman.data.tokenizers import BpeConfig, Tokenizer
from dragoman.data.tokenizers.reserved_symbols import (
    SOURCE_CONTEXT_SYMBOLS,
    TARGET_CONTEXT_SYMBOLS,
    add_reserved_symbols,
)
from dragoman.errors import ConfigError

ONE, TWO, *_ = SOURCE_CONTEXT_SYMBOLS
TEXT = [("a b", "A B"), ("c", "C"), ("d", "D"), ("", ""), ("e", "E"), ("f", "F")]
WHOLE = ContextConfig(source_sentences=2, dropout=0.0)


def read(rows, config=WHOLE, *, is_training=True, begins=()):
    reader = ContextReader(config, is_training=is_training)
    examples = [Example(*row, line, begins_document=line in begins) for line, row in enumerate(rows, 1)]
    return [(one.source, one.target) for one in map(reader.join, examples)]


def test_sources_have_the_sentences_before_until_a_blank_line():
    assert read(TEXT) == [
        ("a b", "A B"),
        (f"a b {ONE} c", "C"),
        (f"a b {TWO} c {ONE} d", "D"),
        ("", ""),
        ("e", "E"),
        (f"e {ONE} f", "F"),
    ]


def test_targets_have_the_sentences_before_with_target():
    joined = read(TEXT, ContextConfig(target=True, dropout=0.0))
    symbol = TARGET_CONTEXT_SYMBOLS[0]
    assert joined[2] == (f"c {symbol} d", f"C {symbol} D")
    assert joined[4] == ("e", "E")


def test_context_ends_where_another_document_begins():
    assert read(TEXT, begins=(2,))[1:3] == [("c", "C"), (f"c {ONE} d", "D")]


def test_alternative_targets_are_no_context_of_each_other():
    reader = ContextReader(ContextConfig(dropout=0.0), is_training=True)
    rows = [("a", "A", 1), ("a", "AA", 1), ("b", "B", 2), ("b", "BB", 2)]
    assert [reader.join(Example(*row)).source for row in rows] == ["a", "a", f"a {ONE} b", f"a {ONE} b"]


@pytest.mark.parametrize(("target", "expected"), [(False, f"x {ONE} c"), (True, "c")])
def test_sentence_without_translation_is_context_of_sources(target, expected):
    config = ContextConfig(target=target, dropout=0.0)
    assert read([("x", ""), ("c", "C")], config)[1][0] == expected


def test_removed_pair_is_no_context_where_its_target_would_be_written():
    for target, expected in ((False, f"a {ONE} b"), (True, "b")):
        reader = ContextReader(ContextConfig(target=target, dropout=0.0), is_training=True)
        reader.join(Example("a", "A", 1))
        reader.forget()
        assert reader.join(Example("b", "B", 2)).source == expected


def test_dropout_removes_context_in_training_only():
    rows = [("a", "A"), ("b", "B")] * 500
    config = ContextConfig(dropout=0.25)
    joined = [has_context(source) for source, _ in read(rows, config)[1:]]
    assert 0.15 < joined.count(False) / len(joined) < 0.35
    assert all(has_context(source) for source, _ in read(rows, config, is_training=False)[1:])


def test_reserved_symbols_of_texts_are_replaced():
    assert read([(f"a {ONE}", "A"), (f"{TWO} b", "B")])[1] == (f"a \ufffd {ONE} \ufffd b", "B")


def test_held_out_corpus_has_no_blank_lines_between_documents():
    examples = [Example(*row, line) for line, row in enumerate(TEXT, 1)]
    assert [one.source for one in with_context(examples, WHOLE)][3:] == ["e", f"e {ONE} f"]
    assert list(with_context(examples, None)) == examples


def test_split_context_inverts_join_context():
    generator = random.Random(1)
    for count in range(5):
        context = ["".join(generator.choices("ab .", k=5)).strip() + "x" for _ in range(count)]
        joined = join_context(context, "last one", SOURCE_CONTEXT_SYMBOLS)
        assert split_context(joined) == (context, "last one")
        assert replace_last_sentence(joined, "new") == join_context(context, "new", SOURCE_CONTEXT_SYMBOLS)


def test_plain_texts_with_quotation_marks_have_no_context():
    assert not has_context("“it's”, ue0 \\ [a]")
    assert split_context("a, 'b' \\ é") == ([], "a, 'b' \\ é")


def test_oldest_sentences_are_dropped_first():
    pair = (f"a {TWO} b {ONE} c", f"A {TWO} B {ONE} C")
    assert drop_oldest_sentence(pair) == (f"b {ONE} c", f"B {ONE} C")
    assert last_sentences(pair) == ("c", "C")
    assert drop_oldest_sentence((f"a {ONE} c", "C")) == ("c", "C")


def test_context_tokens_are_counted_up_to_the_last_symbol():
    assert count_context_tokens(["a", "▁" + TARGET_CONTEXT_SYMBOLS[1], "b", TARGET_CONTEXT_SYMBOLS[0], "c"]) == 4
    assert count_context_tokens(["a", "b"]) == 0


@pytest.mark.parametrize("config", [ContextConfig(source_sentences=3), ContextConfig(source_sentences=2, target=True)])
def test_vocabulary_says_what_its_model_reads(config):
    tokenizer = Tokenizer.train(lambda: [("ab cd", "ef gh")] * 3, BpeConfig(vocab_size=300))
    assert ContextForm.of(tokenizer) is None
    form = ContextForm.of(add_reserved_symbols(tokenizer, config.symbols))
    assert form == ContextForm(config.symbols, config.target)


def test_context_without_validation_corpus_is_refused(tmp_path):
    train = {"kind": "tsv", "path": tmp_path / "train.tsv"}
    with pytest.raises(ConfigError, match="give valid, documents that train does not have"):
        parse(DataConfig, {"train": train, "context": {}})
    assert parse(DataConfig, {"train": train, "valid": train, "context": {}}).context == ContextConfig()
