"""Formats of parallel corpora: reading and errors."""

import json
import tracemalloc
from itertools import islice

import pytest

from dragoman.config import Config, parse
from dragoman.data.readers.line_reader import ReadWarnings
from dragoman.data.readers.parallel import (
    Example,
    ParallelCorpus,
    ParallelFiles,
    ParallelJsonl,
    ParallelTsv,
    corpus_name,
    corpus_paths,
    read_corpus,
)
from dragoman.errors import ConfigError, DataError


class Holder(Config):
    corpus: ParallelCorpus


def files(folder, source: str, target: str) -> ParallelFiles:
    (folder / "a.en").write_text(source, encoding="utf-8", newline="")
    (folder / "a.de").write_text(target, encoding="utf-8", newline="")
    return ParallelFiles(source=folder / "a.en", target=folder / "a.de")


def table(folder, content: str, **choices) -> ParallelTsv:
    (folder / "a.tsv").write_text(content, encoding="utf-8", newline="")
    return ParallelTsv(path=folder / "a.tsv", **choices)


def objects(folder, *rows: str, **choices) -> ParallelJsonl:
    (folder / "a.jsonl").write_text("".join(row + "\n" for row in rows), encoding="utf-8", newline="")
    return ParallelJsonl(path=folder / "a.jsonl", **choices)


def test_two_files_are_read_line_by_line(tmp_path):
    assert list(read_corpus(files(tmp_path, "dog\ncat\n", "Hund\nKatze"))) == [
        Example("dog", "Hund", 1),
        Example("cat", "Katze", 2),
    ]


def test_blank_lines_are_kept_and_counted(tmp_path):
    warnings = ReadWarnings()
    assert list(read_corpus(files(tmp_path, "dog\n\n", "Hund\nKatze\n"), warnings))[1] == Example("", "Katze", 2)
    assert warnings.count("blank") == 1


def test_json_source_and_target_may_be_lists(tmp_path):
    rows = ['{"source": ["One.", "Two."], "target": ["eins", "zwei"]}', '{"source": "a", "target": []}']
    assert list(read_corpus(objects(tmp_path, *rows))) == [
        Example("One. Two.", "eins", 1),
        Example("One. Two.", "zwei", 1),
        Example("a", "", 2),
    ]


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [("1\n2\n3\n4\n", "1\n2\n", "a.de:2: ends after 2 lines, but .*a.en has 4"), ("", "1\n", "a.en:0: .*a.de has 1")],
)
def test_files_of_different_lengths_are_refused(tmp_path, source, target, message):
    with pytest.raises(DataError, match=message):
        list(read_corpus(files(tmp_path, source, target)))


def test_tsv_is_read_by_columns(tmp_path):
    corpus = table(
        tmp_path, 'id\tde\ten\n7\tHund\t"dog\n\n8\tKatze\tcat\tx\n', source_column=3, target_column=2, header=True
    )
    assert list(read_corpus(corpus)) == [Example('"dog', "Hund", 2), Example("", "", 3), Example("cat", "Katze", 4)]


def test_tsv_row_with_too_few_columns_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"a\.tsv:2: 1 column where column 2 is needed; separate the columns by tabs"):
        list(read_corpus(table(tmp_path, "dog\tHund\ncat Katze\n")))


def test_tsv_needs_two_different_columns():
    with pytest.raises(ConfigError, match="both 1; they must differ"):
        parse(Holder, {"corpus": {"kind": "tsv", "path": "a.tsv", "target_column": 1}})


def test_jsonl_is_read_by_fields(tmp_path):
    rows = [json.dumps({"en": "dog\u2028x", "de": "Hünd", "n": 1}), "", json.dumps({"de": "b", "en": "a"})]
    corpus = objects(tmp_path, *rows, source_field="en", target_field="de")
    assert list(read_corpus(corpus)) == [Example("dog\u2028x", "Hünd", 1), Example("", "", 2), Example("a", "b", 3)]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"source": "a", "target": ', "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ('["a", "b"]', "JSON list, not an object"),
        ('{"source": "a", "tgt": "b"}', "no field 'target'"),
        ('{"source": "a", "targets": "b"}', "did you mean 'targets'"),
        ('{"source": "a", "target": 3}', "field 'target' holds int, not a text"),
        ('{"source": "a", "target": "\\u0000"}', "field 'target' holds a NUL"),
        ('{"source": "\\ud83d", "target": "b"}', "field 'source' holds half a surrogate pair"),
    ],
)
def test_invalid_jsonl_line_is_refused(tmp_path, row, message):
    with pytest.raises(DataError, match=rf"a\.jsonl:2: .*{message}"):
        list(read_corpus(objects(tmp_path, '{"source": "a", "target": "b"}', row)))


def test_kind_selects_the_format(tmp_path):
    chosen = parse(Holder, {"corpus": {"kind": "jsonl", "path": "x.jsonl"}}).corpus
    assert isinstance(chosen, ParallelJsonl)
    assert [str(path) for path in corpus_paths(chosen)] == ["x.jsonl"]
    assert corpus_name(parse(Holder, {"corpus": {"kind": "files", "source": "a", "target": "b"}}).corpus) == "a and b"


def test_reading_takes_constant_memory(tmp_path):
    line = "x" * 1000 + "\n"
    corpus = files(tmp_path, line * 20_000, line * 20_000)  # 20 MB on each side
    reading = read_corpus(corpus)
    tracemalloc.start()
    try:
        count = sum(1 for _ in islice(reading, 20_000))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 20_000
    assert peak < 8 * 2**20


def test_multi30k_is_read_whole(shared_data):
    folder = shared_data / "multi30k"
    warnings = ReadWarnings()
    examples = list(read_corpus(ParallelFiles(source=folder / "val.en.gz", target=folder / "val.de.gz"), warnings))
    assert len(examples) == 1014
    assert examples[0].source == "A group of men are loading cotton onto a truck"
    assert warnings.messages() == []
