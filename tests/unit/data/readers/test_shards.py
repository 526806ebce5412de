"""Corpora in several files: patterns, lists and pairing."""

import json
import re

import pyarrow
import pyarrow.parquet
import pytest

from dragoman.config import Config, parse
from dragoman.data.readers.line_reader import ReadWarnings
from dragoman.data.readers.parallel import (
    Example,
    ParallelCorpus,
    ParallelFiles,
    ParallelJsonl,
    ParallelParquet,
    ParallelTsv,
    corpus_name,
    corpus_paths,
    pair_files,
    resolve_files,
)
from dragoman.data.readers.parallel import read_corpus as read_corpus
from dragoman.errors import ConfigError, DataError, MissingExtraError
from dragoman.runs.config import resolve_corpus_paths


class Holder(Config):
    corpus: ParallelCorpus


def read(corpus, warnings: ReadWarnings | None = None) -> list[Example]:
    return list(read_corpus(corpus, warnings))


def written(folder, **contents: str) -> None:
    for name, content in contents.items():
        (folder / name.replace("_", ".")).write_text(content, encoding="utf-8")


PAIRS = [Example("dog", "Hund", 1), Example("cat", "Katze", 2), Example("mouse", "Maus", 3)]


@pytest.fixture
def folder(tmp_path):
    written(tmp_path, train_0_en="dog\ncat\n", train_0_de="Hund\nKatze\n", train_1_en="mouse\n", train_1_de="Maus\n")
    return tmp_path


def test_pattern_gives_matching_files_by_name(folder):
    assert [path.name for path in resolve_files(folder / "train.*.en")] == ["train.0.en", "train.1.en"]
    corpus = ParallelFiles(source=folder / "train.*.en", target=folder / "train.?.de")
    assert read(corpus) == PAIRS
    assert [path.name for path in corpus_paths(corpus)] == ["train.0.en", "train.1.en", "train.0.de", "train.1.de"]
    assert corpus_name(corpus) == f"{folder}/train.*.en and {folder}/train.?.de"


def test_list_is_read_in_order(folder):
    tree = {"kind": "files", "source": ["train.1.en", "train.0.en"], "target": ["train.1.de", "train.0.de"]}
    placed = resolve_corpus_paths({"data": {"train": tree}}, folder)["data"]["train"]
    corpus = parse(Holder, {"corpus": placed}).corpus
    assert read(corpus) == [Example("mouse", "Maus", 1), Example("dog", "Hund", 2), Example("cat", "Katze", 3)]
    assert corpus_name(corpus) == (f"{folder}/train.1.en and 1 further file and {folder}/train.1.de and 1 further file")


def test_pattern_may_match_folders(tmp_path):
    for part in ("a", "b/c"):
        (tmp_path / part).mkdir(parents=True)
        written(tmp_path / part, x_en=f"{part} en\n", x_de=f"{part} de\n")
    pairs = pair_files(tmp_path / "**/x.en", tmp_path / "**/x.de")
    assert [one.parent.name for one, _ in pairs] == [other.parent.name for _, other in pairs] == ["a", "c"]


def test_existing_file_named_like_a_pattern_is_a_file(tmp_path):
    (tmp_path / "a[1].en").write_text("dog\n")
    assert resolve_files(tmp_path / "a[1].en") == (tmp_path / "a[1].en",)


def test_mismatched_files_are_refused(folder):
    with pytest.raises(DataError, match="no file matches; check the path"):
        resolve_files(folder / "valid.*.en")
    written(folder, train_2_en="x\n")
    with pytest.raises(DataError, match=r"3 files, but .* is 2 files; .*train\.2\.en has none"):
        read(ParallelFiles(source=folder / "train.*.en", target=folder / "train.*.de"))
    (folder / "train.1.de").rename(folder / "train.3.de")
    (folder / "train.2.en").unlink()
    with pytest.raises(DataError, match=r"train\.1\.en and .*train\.3\.de do not belong together"):
        read(ParallelFiles(source=folder / "train.*.en", target=folder / "train.*.de"))


def test_shards_of_different_lengths_are_refused(folder):
    written(folder, train_0_de="Hund\n", train_1_de="Katze\nMaus\n")
    with pytest.raises(DataError, match=r"train\.0\.de:1: ends after 1 line, but .*train\.0\.en has 2"):
        read(ParallelFiles(source=folder / "train.*.en", target=folder / "train.*.de"))


def test_empty_list_and_trees_of_shards_are_refused(folder):
    with pytest.raises(ConfigError, match=r"corpus\.source"):
        parse(Holder, {"corpus": {"kind": "files", "source": [], "target": "a"}})
    tree = {"kind": "files", "source": f"{folder}/train.*.en", "target": "a", "source_features": "b"}
    with pytest.raises(ConfigError, match="source_features needs a single source file"):
        parse(Holder, {"corpus": tree})


def test_lines_continue_across_shards(tmp_path):
    written(tmp_path, a_0="en\tde\ndog\tHund\n", a_1="en\tde\ncat\tKatze\n")
    assert read(ParallelTsv(path=tmp_path / "a.*", header=True)) == [
        Example("dog", "Hund", 2),
        Example("cat", "Katze", 4),
    ]
    rows = [json.dumps({"source": one.source, "target": one.target}) + "\n" for one in PAIRS]
    written(tmp_path, b_0="".join(rows[:2]), b_1=rows[2])
    assert read(ParallelJsonl(path=(tmp_path / "b.0", tmp_path / "b.1"))) == PAIRS
    written(tmp_path, b_1='{"source": "a"}\n')
    with pytest.raises(DataError, match=r"b\.1:1: no field 'target'"):
        read(ParallelJsonl(path=tmp_path / "b.*"))


# Parquet


def parquet(folder, name: str, rows: list[dict], **options) -> None:
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / name, **options)


def test_parquet_is_read_by_columns_and_shards(tmp_path):
    rows = [{"id": n, "source": one.source, "target": one.target} for n, one in enumerate(PAIRS)]
    parquet(tmp_path, "a.0", rows[:2], row_group_size=1)
    parquet(tmp_path, "a.1", rows[2:], use_dictionary=True)
    assert read(ParallelParquet(path=tmp_path / "a.*")) == PAIRS


def test_dot_names_a_nested_column(tmp_path):
    parquet(tmp_path, "a", [{"translation": {"en": one.source, "de": one.target}} for one in PAIRS])
    chosen = parse(Holder, {"corpus": {"kind": "parquet", "path": str(tmp_path / "a"), **COLUMNS}}).corpus
    assert read(chosen) == PAIRS


COLUMNS = {"source_column": "translation.en", "target_column": "translation.de"}


def test_missing_value_is_an_empty_text(tmp_path):
    parquet(tmp_path, "a", [{"source": "dog", "target": None}, {"source": "cat", "target": "Katze"}])
    warnings = ReadWarnings()
    assert read(ParallelParquet(path=tmp_path / "a"), warnings) == [Example("dog", "", 1), Example("cat", "Katze", 2)]
    assert warnings.count("blank") == 1


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"source": "a", "de": "b"}], "no column 'target'; it has: source, de. Set source_column"),
        ([{"source": "a", "target": 3}], "row 1: field 'target' holds int, not a text"),
        ([{"source": "a", "target": "b"}, {"source": "a\0", "target": "b"}], "row 2: field 'source' holds a NUL"),
    ],
)
def test_invalid_parquet_value_is_refused(tmp_path, rows, message):
    parquet(tmp_path, "a.parquet", rows)
    with pytest.raises(DataError, match=rf"a\.parquet.*{re.escape(message)}"):
        read(ParallelParquet(path=tmp_path / "a.parquet"))


def test_other_file_is_refused_as_parquet(tmp_path, monkeypatch):
    parquet(tmp_path, "a", [{"source": "a" * 999, "target": "b"}])
    content = (tmp_path / "a").read_bytes()
    for damaged in (b"", b"PAR1", content[:-20], b"dog\tHund\n"):
        (tmp_path / "b").write_bytes(damaged)
        with pytest.raises(DataError, match=r"/b: no Parquet file, or a damaged one"):
            read(ParallelParquet(path=tmp_path / "b"))
    with pytest.raises(DataError, match=r"nowhere: cannot be read"):
        read(ParallelParquet(path=tmp_path / "nowhere"))
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"dragoman\[parquet\]"):
        read(ParallelParquet(path=tmp_path / "a"))


def test_parquet_takes_constant_memory(tmp_path):
    schema = pyarrow.schema([("source", pyarrow.string()), ("target", pyarrow.string())])
    with pyarrow.parquet.ParquetWriter(tmp_path / "a", schema, compression="none") as writer:
        for group in range(20):
            texts = [f"{group} {n} " + "x" * 900 for n in range(1000)]
            writer.write_table(pyarrow.table({"source": texts, "target": texts}, schema=schema))
    pool = pyarrow.default_memory_pool()
    before, peak, count = pool.bytes_allocated(), 0, 0
    for _ in read_corpus(ParallelParquet(path=tmp_path / "a")):
        count += 1
        peak = max(peak, pool.bytes_allocated() - before)
    assert count == 20_000
    assert peak < 16 * 2**20  # of 40 MB
