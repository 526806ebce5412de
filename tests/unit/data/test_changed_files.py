"""Files that change between their fingerprint and the last byte that is read."""

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.data.config import DataConfig
from dragoman.data.datasets.source_token_features import prepare_source_features
from dragoman.data.datasets.text import TextDataConfig, prepare_text, tokenize_documents
from dragoman.data.fingerprints import file_fingerprint
from dragoman.data.preprocessing.pipeline import prepare_data
from dragoman.data.readers.labeled import LabeledTsv, read_labeled
from dragoman.data.readers.line_reader import ReadWarnings, read_lines
from dragoman.data.readers.parallel import ParallelFiles, ParallelJsonl, ParallelParquet, ParallelTsv, read_corpus
from dragoman.data.readers.plain_text import TextFile
from dragoman.data.readers.qa import SquadFile, read_questions
from dragoman.data.tokenizers import BpeConfig, Tokenizer
from dragoman.errors import DataError

CHANGED = "has changed while it was read. Run again when no other program writes to it"


def texts_of(word: str, count: int = 43) -> list[tuple[str, str]]:
    return [(f"{word} {number}", f"Hund {number}") for number in range(count)]


def write(path: Path, content: str) -> Path:
    """Write a file as its ending says."""
    compress = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
    if path.suffix == ".zst":
        compress[".zst"] = pytest.importorskip("zstandard").compress
    path.write_bytes(compress.get(path.suffix, bytes)(content.encode()))
    return path


def write_pairs(folder: Path, word: str, *, ending: str = "") -> ParallelFiles:
    sides = list(zip(*texts_of(word), strict=True))
    source, target = (
        write(folder / f"train.{side}{ending}", "".join(f"{text}\n" for text in texts))
        for side, texts in zip(("en", "de"), sides, strict=True)
    )
    return ParallelFiles(source=source, target=target)


def write_tsv(folder: Path, word: str) -> ParallelTsv:
    return ParallelTsv(path=write(folder / "train.tsv", "".join(f"{one}\t{two}\n" for one, two in texts_of(word))))


def write_jsonl(folder: Path, word: str) -> ParallelJsonl:
    rows = [json.dumps({"source": one, "target": two}) for one, two in texts_of(word)]
    return ParallelJsonl(path=write(folder / "train.jsonl", "\n".join(rows)))


def write_parquet(folder: Path, word: str) -> ParallelParquet:
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet")
    source, target = zip(*texts_of(word), strict=True)
    pyarrow.parquet.write_table(pyarrow.table({"source": source, "target": target}), folder / "train.parquet")
    return ParallelParquet(path=folder / "train.parquet")


WRITERS: dict[str, Callable[[Path, str], ParallelFiles | ParallelTsv | ParallelJsonl | ParallelParquet]] = {
    "files": write_pairs,
    "gz": lambda folder, word: write_pairs(folder, word, ending=".gz"),
    "bz2": lambda folder, word: write_pairs(folder, word, ending=".bz2"),
    "xz": lambda folder, word: write_pairs(folder, word, ending=".xz"),
    "zst": lambda folder, word: write_pairs(folder, word, ending=".zst"),
    "tsv": write_tsv,
    "jsonl": write_jsonl,
    "parquet": write_parquet,
}


@pytest.mark.parametrize("kind", WRITERS)
def test_fingerprint_is_that_of_the_content_read(tmp_path, kind):
    corpus, warnings = WRITERS[kind](tmp_path, "dog"), ReadWarnings()
    assert [(one.source, one.target) for one in read_corpus(corpus, warnings)] == texts_of("dog")
    files = [path for path in tmp_path.iterdir() if path.is_file()]
    assert warnings.fingerprints == {str(path): file_fingerprint(path) for path in files}


@pytest.mark.parametrize("kind", WRITERS)
def test_corpus_replaced_before_it_is_read_never_enters_the_cache(tmp_path, kind):
    """The first message comes after the files were hashed, and before they are read."""
    settings, cache = DataConfig(train=WRITERS[kind](tmp_path, "dog"), valid_size=5), tmp_path / "cache"
    with pytest.raises(DataError, match=CHANGED):
        prepare_data(settings, cache, seed=1, report=lambda _: WRITERS[kind](tmp_path, "cat"))
    assert list(cache.glob("[!.]*")) == list(cache.glob(".*.tmp")) == []
    again = prepare_data(settings, cache, seed=1)
    assert {source.split()[0] for source, _ in again.train} == {"cat"}
    WRITERS[kind](tmp_path, "dog")
    first = prepare_data(settings, cache, seed=1)
    assert {source.split()[0] for source, _ in first.train} == {"dog"}


@pytest.mark.parametrize("name", ["valid", "test"])
def test_held_out_corpus_is_compared_too(tmp_path, name):
    (tmp_path / name).mkdir()
    given = {"train": write_tsv(tmp_path, "dog"), name: write_tsv(tmp_path / name, "bird")}
    with pytest.raises(DataError, match=rf"{name}/train\.tsv: {CHANGED}"):
        prepare_data(
            DataConfig(**given), tmp_path / "cache", seed=1, report=lambda _: write_tsv(tmp_path / name, "cat")
        )


def test_file_that_grows_while_it_is_read_is_refused(tmp_path):
    path = write(tmp_path / "a.txt", "one\ntwo\n")
    warnings = ReadWarnings(fingerprints={str(path): file_fingerprint(path)})
    lines = read_lines(path, warnings)
    assert next(lines) == (1, "one")
    with path.open("a") as file:
        file.write("three\n")
    with pytest.raises(DataError, match=rf"a\.txt: {CHANGED}"):
        list(lines)


def test_running_text_is_compared_at_every_reading(tmp_path):
    path = write(tmp_path / "a.txt", "a dog sleeps\n" * 400)
    prepared = prepare_text(TextDataConfig(train=TextFile(path=path)))
    assert prepared.fingerprints == {str(path): file_fingerprint(path)}
    tokenizer = Tokenizer.train_on_texts(prepared.train.texts, BpeConfig(vocab_size=280))
    write(path, "a cat sleeps\n" * 400)
    with pytest.raises(DataError, match=CHANGED):
        Tokenizer.train_on_texts(prepared.train.texts, BpeConfig(vocab_size=280))
    for part in (prepared.train, prepared.valid):
        with pytest.raises(DataError, match=CHANGED):
            tokenize_documents(part, tokenizer, tmp_path / "cache")
    assert list((tmp_path / "cache").glob("[!.]*")) == []


def test_readers_of_examples_record_what_they_read(tmp_path):
    labeled, warnings = write(tmp_path / "a.tsv", "yes\ta dog\nno\ta cat\n"), ReadWarnings()
    list(read_labeled(LabeledTsv(path=labeled), warnings))
    questions = write(tmp_path / "a.json", json.dumps({"data": []}))
    list(read_questions(SquadFile(path=questions), warnings))
    assert warnings.fingerprints == {str(path): file_fingerprint(path) for path in (labeled, questions)}


@pytest.mark.parametrize("changed", ["a.en", "a.conllu"])
def test_trees_of_a_changed_file_are_not_stored(tmp_path, changed):
    tree = "1\tdogs\t_\t_\t_\t_\t0\t_\t_\t_\n2\tsleep\t_\t_\t_\t_\t1\t_\t_\t_\n\n"
    files = [write(tmp_path / "a.en", "dogs sleep\n"), write(tmp_path / "a.conllu", tree)]
    fingerprints = {str(path): file_fingerprint(path) for path in files}
    write(tmp_path / changed, (tmp_path / changed).read_text().replace("dogs", "cats"))
    with pytest.raises(DataError, match=CHANGED):
        prepare_source_features(*files, tmp_path / "cache", fingerprints=fingerprints)
    assert list((tmp_path / "cache").glob("[!.]*")) == []
