"""Sentences with labeled words: columns and JSON objects."""

import pytest

from dragoman.config import Config, parse
from dragoman.data.readers.tagged import TaggedColumns, TaggedCorpus, TaggedJsonl, TaggedSentence, read_tagged
from dragoman.errors import DataError


class Holder(Config):
    corpus: TaggedCorpus


def columns(folder, content: str, **choices) -> TaggedColumns:
    (folder / "a.conll").write_bytes(content.encode())
    return TaggedColumns(path=folder / "a.conll", **choices)


def objects(folder, *rows: str, **choices) -> TaggedJsonl:
    (folder / "a.jsonl").write_text("".join(row + "\n" for row in rows), encoding="utf-8")
    return TaggedJsonl(path=folder / "a.jsonl", **choices)


def test_blank_lines_separate_sentences(tmp_path):
    content = "\nTwo NUM\ndogs\tNOUN\n\n \nplay  VERB"
    assert list(read_tagged(columns(tmp_path, content))) == [
        TaggedSentence(("Two", "dogs"), ("NUM", "NOUN"), 2),
        TaggedSentence(("play",), ("VERB",), 6),
    ]
    assert list(read_tagged(columns(tmp_path, ""))) == []


def test_conll_2003_has_first_and_last_column(tmp_path):
    content = "-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\n"
    assert list(read_tagged(columns(tmp_path, content))) == [TaggedSentence(("EU", "rejects"), ("B-ORG", "O"), 3)]


def test_conll_u_has_columns_and_tabs(tmp_path):
    content = "# text = in New York\n1\tin\tin\tADP\n2\tNew York\t_\tPROPN\n\n# x\n"
    corpus = columns(tmp_path, content, word_column=2, label_column=4, comment="#")
    assert list(read_tagged(corpus)) == [TaggedSentence(("in", "New York"), ("ADP", "PROPN"), 2)]


@pytest.mark.parametrize(
    ("content", "choices", "message"),
    [
        ("a X\nb\n", {}, r"a\.conll:2: 1 column where column 2 is needed; .* Set word_column and label_column"),
        ("a X\nb Y\n", {"label_column": 3}, r"a\.conll:1: 2 columns where column 3 is needed"),
        ("a X\nb Y\n", {"word_column": 2}, r"a\.conll:1: 2 columns where column 3 is needed"),
        ("a\tX\n\tY\n", {}, r"a\.conll:2: the word is empty"),
        ("a\tX\nb\t\n", {}, r"a\.conll:2: the label is empty"),
    ],
)
def test_invalid_line_is_refused(tmp_path, content, choices, message):
    with pytest.raises(DataError, match=message):
        list(read_tagged(columns(tmp_path, content, **choices)))


def test_jsonl_holds_two_lists(tmp_path):
    rows = ['{"tokens": ["Two", "dogs"], "tags": ["NUM", "NOUN"]}', "", '{"tokens": [], "tags": []}']
    corpus = objects(tmp_path, *rows, words_field="tokens", labels_field="tags")
    assert list(read_tagged(corpus)) == [TaggedSentence(("Two", "dogs"), ("NUM", "NOUN"), 1)]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"words": ["a"], "labels": ["X", "Y"]}', "1 words but 2 labels; give one label per word"),
        ('{"words": "a", "labels": ["X"]}', "field 'words' holds str, not a list"),
        ('{"words": ["a"], "labels": [1]}', "field 'labels' holds int, not a text"),
        ('{"words": [" "], "labels": ["X"]}', "a word or a label is empty"),
        ('{"words": ["a"]}', "no field 'labels'; did you mean|no field 'labels'; it has: words"),
    ],
)
def test_invalid_object_is_refused(tmp_path, row, message):
    with pytest.raises(DataError, match=rf"a\.jsonl:1: ({message})"):
        list(read_tagged(objects(tmp_path, row)))


def test_kind_selects_the_format():
    assert isinstance(parse(Holder, {"corpus": {"kind": "columns", "path": "x"}}).corpus, TaggedColumns)
    assert isinstance(parse(Holder, {"corpus": {"kind": "jsonl", "path": "x"}}).corpus, TaggedJsonl)
