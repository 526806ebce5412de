"""Running text: documents, passages and errors."""

import gzip
import json
import tracemalloc
from itertools import pairwise

import pytest

from dragoman.config import Config, parse
from dragoman.data.readers import plain_text
from dragoman.data.readers.labeled import LabeledLines, LabeledTsv
from dragoman.data.readers.line_reader import ReadWarnings
from dragoman.data.readers.plain_text import PASSAGE_SIZE, Passage, TextCorpus, TextFile, TextJsonl, read_texts
from dragoman.errors import ConfigError, DataError

TEXT = "\n = A dog = \n\n It plays .\n\tIt barks .\n \n\nA cat .\n"


class Holder(Config):
    corpus: TextCorpus


def text_file(folder, content: str, **choices) -> TextFile:
    (folder / "a.txt").write_text(content, encoding="utf-8", newline="")
    return TextFile(path=folder / "a.txt", **choices)


def objects(folder, *rows: str, **choices) -> TextJsonl:
    (folder / "a.jsonl").write_text("".join(row + "\n" for row in rows), encoding="utf-8", newline="")
    return TextJsonl(path=folder / "a.jsonl", **choices)


def test_file_is_one_document_with_its_white_space(tmp_path):
    assert list(read_texts(text_file(tmp_path, TEXT))) == [Passage(TEXT, 1, is_first=True)]


def test_last_line_gets_a_line_feed(tmp_path):
    [passage] = read_texts(text_file(tmp_path, "a\nb"))
    assert passage.text == "a\nb\n"


def test_blank_lines_separate_documents(tmp_path):
    assert list(read_texts(text_file(tmp_path, TEXT, documents="blank_line"))) == [
        Passage(" = A dog = ", 2, is_first=True),
        Passage(" It plays .\n\tIt barks .", 4, is_first=True),
        Passage("A cat .", 8, is_first=True),
    ]


@pytest.mark.parametrize("line", ["", "...", " "])
@pytest.mark.parametrize("documents", ["file", "blank_line"])
def test_passage_without_end_is_refused(tmp_path, monkeypatch, line, documents):
    monkeypatch.setattr(plain_text, "MAX_PASSAGE_SIZE", 2**18)
    corpus = text_file(tmp_path, f"{line}\n" * 2**18 + "a dog\n", documents=documents)
    if documents == "blank_line" and not line.strip():
        assert [passage.text for passage in read_texts(corpus)] == ["a dog"]
        return
    with pytest.raises(DataError, match=r"a\.txt:[0-9]+: lines 1 to [0-9,]+ have 262,1[0-9]+ characters and no place"):
        list(read_texts(corpus))


def test_each_line_may_be_a_document(tmp_path):
    found = list(read_texts(text_file(tmp_path, TEXT, documents="line")))
    assert [passage.text for passage in found] == [" = A dog = ", " It plays .", "\tIt barks .", "A cat ."]
    assert [passage.line for passage in found] == [2, 4, 5, 8]
    assert all(passage.is_first for passage in found)


def test_each_object_is_a_document(tmp_path):
    rows = [{"body": "a\r\n\r\nb\n", "n": 1}, {"body": " \n"}, {"body": "c\u2028d"}]
    warnings = ReadWarnings()
    corpus = objects(tmp_path, json.dumps(rows[0]), "", json.dumps(rows[1]), json.dumps(rows[2]), text_field="body")
    assert list(read_texts(corpus, warnings)) == [
        Passage("a\n\nb\n", 1, is_first=True),
        Passage("c\u2028d", 4, is_first=True),
    ]
    assert warnings.count("crlf") == 1


@pytest.mark.parametrize("documents", ["file", "blank_line"])
def test_long_document_has_several_passages(tmp_path, documents):
    lines = [f"{'  ' * (n % 3)}line {n * n}" if n % 5 else "  ...  " for n in range(20_000)]
    found = list(read_texts(text_file(tmp_path, "\n".join(lines) + "\n", documents=documents)))
    assert "".join(passage.text for passage in found) == "\n".join(lines) + ("\n" if documents == "file" else "")
    assert [passage.is_first for passage in found] == [True] + [False] * (len(found) - 1)
    assert 4 < len(found) < 10
    for passage, following in pairwise(found):
        assert PASSAGE_SIZE <= len(passage.text) < PASSAGE_SIZE + 100
        assert passage.text.endswith("\n")
        assert following.line == passage.line + passage.text.count("\n")
        assert "line" in following.text.split("\n")[0]


def test_passages_of_an_object_have_its_line(tmp_path):
    text = "\n".join(f"line {n * n}" for n in range(20_000))
    found = list(read_texts(objects(tmp_path, json.dumps({"text": "short"}), json.dumps({"text": text}))))
    assert "".join(passage.text for passage in found[1:]) == text
    assert [(passage.line, passage.is_first) for passage in found[:3]] == [(1, True), (2, True), (2, False)]


def test_no_passage_is_blank(tmp_path):
    found = list(read_texts(text_file(tmp_path, "\n" * (2 * PASSAGE_SIZE) + "a\n" * PASSAGE_SIZE)))
    assert len(found) == 2
    assert found[0].text.startswith("\n" * (2 * PASSAGE_SIZE) + "a\n")


def test_compressed_text_is_read_and_repaired(tmp_path):
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"\xef\xbb\xbfone\r\n\r\ntwo\r\n"))
    warnings = ReadWarnings()
    [passage] = read_texts(TextFile(path=tmp_path / "a.txt.gz"), warnings)
    assert passage.text == "one\n\ntwo\n"
    assert (warnings.count("bom"), warnings.count("crlf")) == (1, 3)


def test_labeled_texts_are_documents_without_labels(tmp_path):
    (tmp_path / "a.txt").write_text("1 a warm film\n\n0 dull\n")
    (tmp_path / "a.tsv").write_text("text\tlabel\na warm film\tgood\n \tbad\n")
    both = [Passage("a warm film", 1, is_first=True), Passage("dull", 3, is_first=True)]
    assert list(read_texts(LabeledLines(path=tmp_path / "a.txt"))) == both
    table = LabeledTsv(path=tmp_path / "a.tsv", header=True)
    assert list(read_texts(table)) == [Passage("a warm film", 2, is_first=True)]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("[1]", r"a\.jsonl:2: holds a JSON list, not an object"),
        ("{", r"a\.jsonl:2: not valid JSON"),
        ('{"txt": "b"}', r"a\.jsonl:2: no field 'text'; did you mean 'txt'"),
        ('{"text": 3}', r"a\.jsonl:2: field 'text' holds int, not a text"),
    ],
)
def test_invalid_object_is_refused_with_its_line(tmp_path, row, message):
    with pytest.raises(DataError, match=message):
        list(read_texts(objects(tmp_path, '{"text": "a"}', row)))


def test_binary_file_is_refused_with_its_line(tmp_path):
    (tmp_path / "a.txt").write_bytes("gut\nschön\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"a\.txt:2: not UTF-8"):
        list(read_texts(TextFile(path=tmp_path / "a.txt")))


def test_kind_selects_the_format():
    assert parse(Holder, {"corpus": {"kind": "text", "path": "a", "documents": "line"}}).corpus.documents == "line"
    assert isinstance(parse(Holder, {"corpus": {"kind": "jsonl", "path": "a"}}).corpus, TextJsonl)
    assert isinstance(
        parse(Holder, {"corpus": {"kind": "lines", "path": "a", "encoding": "latin-1"}}).corpus, LabeledLines
    )
    with pytest.raises(ConfigError, match=r"corpus\.documents"):
        parse(Holder, {"corpus": {"kind": "text", "path": "a", "documents": "page"}})


def test_reading_takes_constant_memory(tmp_path):
    corpus = text_file(tmp_path, "a line of a hundred characters or so, as prose has them\n" * 200_000)  # 11 MB
    tracemalloc.start()
    try:
        size = sum(len(passage.text) for passage in read_texts(corpus))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size == 56 * 200_000
    assert peak < 8 * 2**20


def test_tiny_shakespeare_is_read_whole(shared_data):
    path = shared_data / "lm" / "tinyshakespeare.txt.gz"
    text = "".join(passage.text for passage in read_texts(TextFile(path=path)))
    assert len(text) == 1_115_394
    assert text == gzip.decompress(path.read_bytes()).decode()
    assert len(list(read_texts(TextFile(path=path, documents="blank_line")))) > 7000
