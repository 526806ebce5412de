"""Formats of labeled texts: reading and errors."""

import gzip
import json

import pytest

from dragoman.config import Config, parse
from dragoman.data.readers.labeled import (
    LabeledCorpus,
    LabeledJsonl,
    LabeledLines,
    LabeledText,
    LabeledTsv,
    read_labeled,
)
from dragoman.data.readers.line_reader import ReadWarnings
from dragoman.errors import ConfigError, DataError


class Holder(Config):
    corpus: LabeledCorpus


def lines(folder, content: str | bytes, **choices) -> LabeledLines:
    (folder / "a.txt").write_bytes(content if isinstance(content, bytes) else content.encode())
    return LabeledLines(path=folder / "a.txt", **choices)


def table(folder, content: str, **choices) -> LabeledTsv:
    (folder / "a.tsv").write_bytes(content.encode())
    return LabeledTsv(path=folder / "a.tsv", **choices)


def objects(folder, *rows: str, **choices) -> LabeledJsonl:
    (folder / "a.jsonl").write_text("".join(row + "\n" for row in rows), encoding="utf-8")
    return LabeledJsonl(path=folder / "a.jsonl", **choices)


def test_line_is_label_space_text(tmp_path):
    warnings = ReadWarnings()
    corpus = lines(tmp_path, "1 a good film\n\n  0  a\tbad  one \r\n")
    assert list(read_labeled(corpus, warnings)) == [
        LabeledText("a good film", "1", 1),
        LabeledText("a\tbad  one", "0", 3),
    ]
    assert (warnings.count("blank"), warnings.count("crlf")) == (1, 1)


def test_label_may_end_at_a_colon(tmp_path):
    content = "LOC:city Where is it : here ?\nNUM How many ?\n"
    assert list(read_labeled(lines(tmp_path, content, label_separator=":"))) == [
        LabeledText("Where is it : here ?", "LOC", 1),
        LabeledText("How many ?", "NUM", 2),
    ]
    assert next(read_labeled(lines(tmp_path, content))).label == "LOC:city"


def test_latin_1_is_read_on_request(tmp_path):
    content = "4 a sister\u00adcity of K\xf6ln \x85 \xa0\n0 x\n".encode("latin-1")
    assert [one.text for one in read_labeled(lines(tmp_path, content, encoding="latin-1"))] == [
        "a sister\u00adcity of Köln",  # what Unicode takes for white space at the end is none of the text
        "x",
    ]
    with pytest.raises(DataError, match=r"a\.txt:1: not UTF-8"):
        list(read_labeled(lines(tmp_path, content)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1 x\n0\n", r"a\.txt:2: no text after the label '0'; a line is a label, a space and a text"),
        ("1 x\n0 \n", r"a\.txt:2: no text after the label '0'"),
        ("1 x\n:city y\n", r"a\.txt:2: the label is empty"),
    ],
)
def test_invalid_line_is_refused(tmp_path, content, message):
    with pytest.raises(DataError, match=message):
        list(read_labeled(lines(tmp_path, content, label_separator=":")))


def test_tsv_is_read_by_columns(tmp_path):
    corpus = table(
        tmp_path, "id\tlabel\ttext\n7\tgood \ta film\n\n8\tbad\t\n", label_column=2, text_column=3, header=True
    )
    assert list(read_labeled(corpus)) == [LabeledText("a film", "good", 2), LabeledText("", "bad", 4)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a film\tgood\nx y\n", r"a\.tsv:2: 1 column where column 2 is needed; .* set text_column and label_column"),
        ("a film\tgood\nx\t \n", r"a\.tsv:2: the label is empty"),
    ],
)
def test_invalid_row_is_refused(tmp_path, content, message):
    with pytest.raises(DataError, match=message):
        list(read_labeled(table(tmp_path, content)))


def test_jsonl_is_read_by_fields(tmp_path):
    rows = [json.dumps({"sentence": "a\nb", "class": 1}), " ", json.dumps({"sentence": "ü", "class": "x"})]
    corpus = objects(tmp_path, *rows, text_field="sentence", label_field="class")
    assert list(read_labeled(corpus)) == [LabeledText("a\nb", "1", 1), LabeledText("ü", "x", 3)]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"text": ', "not valid JSON"),
        ("[1]", "holds a JSON list, not an object"),
        ('{"text": "a", "lable": "b"}', "no field 'label'; did you mean 'lable'"),
        ('{"text": "a", "x": 1}', "no field 'label'; it has: text, x"),
        ('{"text": 3, "label": 1}', "field 'text' holds int, not a text"),
        ('{"text": "a", "label": true}', "field 'label' holds bool, not a text"),
        ('{"text": "a", "label": 1.5}', "field 'label' holds float, not a text"),
        ('{"text": "a\\u0000", "label": 1}', "field 'text' holds a NUL"),
        ('{"text": "\\ud83d", "label": 1}', "field 'text' holds half a surrogate pair"),
        ('{"text": "a", "label": " "}', "the label is empty"),
    ],
)
def test_invalid_object_is_refused(tmp_path, row, message):
    with pytest.raises(DataError, match=rf"a\.jsonl:2: .*{message}"):
        list(read_labeled(objects(tmp_path, '{"text": "a", "label": "b"}', row)))


def test_kind_selects_the_format():
    assert isinstance(parse(Holder, {"corpus": {"kind": "jsonl", "path": "x"}}).corpus, LabeledJsonl)
    with pytest.raises(ConfigError, match="both 2; they must differ"):
        parse(Holder, {"corpus": {"kind": "tsv", "path": "x", "text_column": 2}})
    with pytest.raises(ConfigError, match="encoding = 'utf-16'"):
        parse(Holder, {"corpus": {"kind": "lines", "path": "x", "encoding": "utf-16"}})


@pytest.mark.parametrize(
    ("name", "encoding", "count", "labels"),
    [
        ("stsa.binary.train", "utf-8", 6920, "01"),
        ("stsa.binary.dev", "utf-8", 872, "01"),
        ("stsa.binary.test", "utf-8", 1821, "01"),
        ("TREC.train.all", "latin-1", 5452, "012345"),
        ("TREC.test.all", "latin-1", 500, "012345"),
    ],
)
def test_real_corpora_are_read_whole(shared_data, name, encoding, count, labels):
    warnings = ReadWarnings()
    path = shared_data / "classification" / f"{name}.gz"
    found = list(read_labeled(LabeledLines(path=path, encoding=encoding), warnings))
    assert len(found) == count
    assert {one.label for one in found} == set(labels)
    assert warnings.messages() == []
    raw = gzip.decompress(path.read_bytes()).decode(encoding).split("\n")
    assert [f"{one.label} {one.text}" for one in found] == [line.strip() for line in raw if line]
