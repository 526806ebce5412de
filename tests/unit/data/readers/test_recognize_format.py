"""Recognition of corpora by their content."""

import bz2
import gzip
import json
import os
from pathlib import Path

import pytest

from dragoman.data.readers.parallel import ParallelFiles, ParallelJsonl, ParallelParquet, ParallelTsv, read_corpus
from dragoman.data.readers.plain_text import TextFile, TextJsonl
from dragoman.data.readers.recognize_format import corpus_notes, recognize_corpus, recognize_pairs, recognize_text
from dragoman.errors import DataError

ROW = {"source": "two dogs", "target": "zwei Hunde"}


def write(folder: Path, name: str, *lines: str) -> Path:
    path = folder / name
    content = "".join(f"{line}\n" for line in lines).encode()
    compress = {".gz": gzip.compress, ".bz2": bz2.compress}.get(path.suffix, bytes)
    path.write_bytes(compress(content))
    return path


@pytest.mark.parametrize("name", ["pairs.tsv", "pairs.txt", "pairs", "pairs.tsv.gz", "pairs.bz2"])
def test_columns_are_recognized_whatever_the_name(name, tmp_path):
    path = write(tmp_path, name, "two dogs\tzwei Hunde", "a cat\teine Katze")
    assert recognize_corpus(path) == ParallelTsv(path=path)


@pytest.mark.parametrize(
    ("lines", "options"),
    [
        (["source\ttarget", "two dogs\tzwei Hunde"], {"header": True}),
        (["en\tde", "two dogs\tzwei Hunde"], {"header": True}),
        (["17\ttwo dogs\t19\tzwei Hunde", "23\ta cat\t29\teine Katze"], {"source_column": 2, "target_column": 4}),
        (["two dogs\tzwei Hunde\tCC-BY"], {}),
        (["English\tGerman\tNote", "two dogs\tzwei Hunde\tok"], {"header": True}),
        (
            ["Note\tEnglish (UK)\tGerman", "ok\ttwo dogs\tzwei Hunde"],
            {"source_column": 2, "target_column": 3, "header": True},
        ),
        (["No\ten\tde", "17\ttwo dogs\tzwei Hunde"], {"source_column": 2, "target_column": 3, "header": True}),
        (["French toast\tzwei Scheiben", "a cat\teine Katze"], {}),
        (["two\tzwei"], {}),
    ],
)
def test_header_and_columns_with_text_are_found(lines, options, tmp_path):
    path = write(tmp_path, "pairs.tsv", *lines)
    found = recognize_pairs(path)
    assert found == ParallelTsv(path=path, **options)
    assert next(read_corpus(found)).target.startswith("zwei")


@pytest.mark.parametrize(
    ("row", "fields"),
    [
        (ROW, ("source", "target")),
        ({"id": 3, "tgt": "zwei Hunde", "src": "two dogs"}, ("src", "tgt")),
        ({"en": "two dogs", "de": "zwei Hunde"}, ("en", "de")),
        ({"text": "a", **ROW}, ("source", "target")),
        ({"source": ["two", "dogs"], "target": ["zwei Hunde"]}, ("source", "target")),
    ],
)
def test_fields_of_json_lines_are_found(row, fields, tmp_path):
    path = write(tmp_path, "pairs.json", json.dumps(row))
    assert recognize_pairs(path) == ParallelJsonl(path=path, source_field=fields[0], target_field=fields[1])


def test_parquet_is_recognized_with_its_columns(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "pairs"
    parquet.write_table(pyarrow.table({"id": [1], "translation": [{"en": "two dogs", "de": "zwei Hunde"}]}), path)
    found = recognize_pairs(path)
    assert found == ParallelParquet(path=path, source_column="translation.en", target_column="translation.de")
    assert next(read_corpus(found)).source == "two dogs"


def test_shards_have_the_format_of_the_first(tmp_path):
    for number in (1, 2):
        write(tmp_path, f"pairs.{number}.tsv.gz", "two dogs\tzwei Hunde")
    pattern = tmp_path / "pairs.*.tsv.gz"
    assert recognize_pairs(pattern) == ParallelTsv(path=pattern)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("config.yaml", "task: translation\t# a comment"),
        ("config", "task: translation"),
        ("settings.conf", "# a comment"),
        ("words.yml", "two dogs"),
        ("config.json", '{"preset": "tiny", "data": {"train": {"kind": "tsv"}}}'),
    ],
)
def test_configuration_files_are_no_corpora(name, line, tmp_path):
    assert recognize_corpus(write(tmp_path, name, line)) is None


def test_texts_are_plain_or_json_lines(tmp_path):
    plain = write(tmp_path, "story.txt", "Once upon a time.")
    assert recognize_corpus(plain) == recognize_text(plain) == TextFile(path=plain)
    objects = write(tmp_path, "stories.jsonl.gz", '{"text": "Once upon a time.", "id": 3}')
    assert recognize_corpus(objects) == recognize_text(objects) == TextJsonl(path=objects)
    columns = write(tmp_path, "table.txt", "a\tb")
    assert recognize_text(columns) == TextFile(path=columns)


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("pairs.csv", "two dogs,zwei Hunde", "comma- or semicolon-separated columns"),
        ("pairs.csv", "note: two dogs; zwei Hunde", "comma- or semicolon-separated columns"),
        ("memory", '<?xml version="1.0"?>', "export it as tab-separated text"),
        ("texts.pot", "# Translations", "PO files are not read here"),
        ("train.en", "two dogs", "--source and --target"),
        ("pairs.jsonl", '{"a": "x", "b": "y", "c": "z"}', "among the fields a, b, c"),
        ("story.txt", "Once upon a time.", "is not a file of sentence pairs"),
    ],
)
def test_other_files_are_no_pairs(name, line, message, tmp_path):
    with pytest.raises(DataError, match=message):
        recognize_pairs(write(tmp_path, name, line))


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("pairs.csv", "two dogs;zwei Hunde", "semicolon"),
        ("texts.pot", "# Translations", "PO files are not read here"),
        ("real.xlsx", "PK\x03\x04", "a ZIP archive or an office document, such as .xlsx"),
        ("train.en", "two dogs", "--source and --target"),
    ],
)
def test_other_files_are_no_corpora_either(name, line, message, tmp_path):
    with pytest.raises(DataError, match=message):
        recognize_corpus(write(tmp_path, name, line))


@pytest.mark.parametrize(
    ("line", "is_header"),
    [
        ("English (US)\tFrançais", True),
        ("Simplified Chinese\t日本語", True),
        ("English - UK\tPortuguês (Brasil)", True),
        ("Tiếng Việt\tEnglish", True),
        ("German\tDeutsch", False),
        ("Speak English\tParlez français", False),
        ("English\tAnglais", False),
    ],
)
def test_names_of_two_languages_are_a_header(line, is_header, tmp_path):
    found = recognize_pairs(write(tmp_path, "pairs.tsv", line, *["two dogs run\tzwei Hunde laufen"] * 5))
    assert isinstance(found, ParallelTsv)
    assert found.header is is_header


@pytest.mark.parametrize(
    ("lines", "notes"),
    [
        (["two dogs\tzwei Hunde", "a cat\teine Katze"], []),
        (
            ["English\tGerman\tNote", "two dogs\tzwei Hunde\tok"],
            [
                "of 3 columns, 1 and 2 are read as source and target",
                "the first line (English | German) is read as the names of the columns",
            ],
        ),
        (
            ["Phrase\tInhalt", *["two dogs run\tzwei Hunde laufen"] * 5],
            ["the first line (Phrase | Inhalt) is read as a pair of texts; if it names the columns, remove it"],
        ),
        (
            ['two dogs\t"zwei ""Hunde"""', *["two dogs run\tzwei Hunde laufen"] * 9],
            [
                "1 cell of the first 10 lines in quotation marks, which are read as part of the text; export without "
                'them, or remove them: single ones around a cell, and "" becomes "'
            ],
        ),
        (['"Yes."\t"Ja."', *["two dogs run\tzwei Hunde laufen"] * 9], []),
        (["dog\tHund", "cat\tKatze"], []),
        (["Yes.\tJa.", *["two dogs run\tzwei Hunde laufen"] * 5], []),
        ([], []),
    ],
)
def test_unread_columns_and_headers_are_noted(lines, notes, tmp_path):
    path = write(tmp_path, "pairs.tsv", *lines)
    found = ParallelTsv(path=path) if not lines else recognize_pairs(path)
    assert [*corpus_notes(found)] == [f"{path}: {note}" for note in notes]


def test_text_file_with_columns_is_noted(tmp_path):
    columns = write(tmp_path, "heldout.tsv", *["two dogs\tzwei Hunde"] * 19, "no tab")
    plain = write(tmp_path, "plain.de", "a tab\there", *["zwei Hunde"] * 19)
    (note,) = corpus_notes(ParallelFiles(source=plain, target=columns))
    assert note == (
        f"{columns}: 19 of the first 20 lines contain a tab, and are read as one text; "
        "a file with both sides goes to --pairs"
    )


def test_pipe_is_refused_before_its_lines_are_lost(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match=r"pipe: is a pipe or device, which cannot be read twice\. Give a file"):
        recognize_pairs(tmp_path / "pipe")
