"""Preparation of parallel corpora: splits, leaks, cache and errors."""

import gzip

import pytest

from dragoman.config import parse
from dragoman.data.cleaning_rules import CleaningConfig
from dragoman.data.config import DataConfig
from dragoman.data.preprocessing import pipeline
from dragoman.data.preprocessing.pipeline import prepare_data
from dragoman.data.readers.parallel import ParallelFiles, ParallelTsv
from dragoman.errors import ConfigError, DataError


def corpus(folder, name: str, pairs: list[tuple[str, str]]) -> ParallelFiles:
    for suffix, side in (("en", 0), ("de.gz", 1)):
        content = "".join(pair[side] + "\n" for pair in pairs).encode()
        (folder / f"{name}.{suffix}").write_bytes(gzip.compress(content) if suffix.endswith("gz") else content)
    return ParallelFiles(source=folder / f"{name}.en", target=folder / f"{name}.de.gz")


def numbered(start: int, stop: int) -> list[tuple[str, str]]:
    return [(f"dog {n}", f"Hund {n}") for n in range(start, stop)]


def test_validation_and_test_text_is_removed_from_training(tmp_path):
    settings = DataConfig(
        train=corpus(tmp_path, "train", numbered(0, 50)),
        valid=corpus(tmp_path, "valid", [*numbered(45, 60), ("", "x")]),
        test=corpus(tmp_path, "test", [("DOG 7", "Hund 7"), ("", "")]),
    )
    prepared = prepare_data(settings, tmp_path / "cache", seed=1)
    assert list(prepared.train) == [pair for pair in numbered(0, 45) if pair[0] != "dog 7"]
    assert list(prepared.valid) == numbered(45, 60)
    assert list(prepared.test) == [("DOG 7", "Hund 7"), ("", "")]
    assert prepared.report.num_leaks == 6
    assert any(note.endswith("source is in the validation or test text: 6, removed") for note in prepared.notes)
    assert any(note.endswith("pairs with an empty side left out of validation: 1") for note in prepared.notes)
    assert set(prepared.fingerprints) == {str(path) for path in tmp_path.iterdir() if path.is_file()}


def test_kept_leak_is_reported(tmp_path):
    settings = DataConfig(
        train=corpus(tmp_path, "train", numbered(0, 50)),
        valid=corpus(tmp_path, "valid", numbered(45, 60)),
        cleaning=CleaningConfig(remove_leaks=False),
    )
    prepared = prepare_data(settings, tmp_path / "cache", seed=1)
    assert len(prepared.train) == 50
    [note] = prepared.notes
    assert "text: 5, kept" in note


@pytest.mark.parametrize(("chosen", "size"), [(None, 5), (11, 11)])
def test_part_is_held_out_without_validation_text(tmp_path, chosen, size):
    settings = DataConfig(train=corpus(tmp_path, "train", numbered(0, 101)), valid_size=chosen)
    prepared = prepare_data(settings, tmp_path / "cache", seed=1)
    assert len(prepared.valid) == size
    assert prepared.test is None
    assert sorted([*prepared.train, *prepared.valid]) == sorted(numbered(0, 101))
    assert list(prepare_data(settings, tmp_path / "cache", seed=2).valid) != list(prepared.valid)
    for index in (0, 50):
        line = prepared.train.line(index)
        assert prepared.train.pair(index) == (f"dog {line - 1}", f"Hund {line - 1}")


def test_same_files_and_settings_are_prepared_once(tmp_path, monkeypatch):
    settings = DataConfig(train=corpus(tmp_path, "train", [*numbered(0, 101), ("", "x")]))
    first = prepare_data(settings, tmp_path / "cache", seed=1)
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "clean_in_blocks", None)
        # The limits count tokens, so that other limits need no other texts.
        again = prepare_data(settings.model_copy(update={"max_source_length": 7}), tmp_path / "cache", seed=1)
    assert (again.report, again.notes) == (first.report, first.notes)
    assert list(again.train) == list(first.train)
    corpus(tmp_path, "train", numbered(0, 97))
    assert len(prepare_data(settings, tmp_path / "cache", seed=1).train) < len(first.train)


def test_damaged_cache_is_built_again(tmp_path):
    settings = DataConfig(train=corpus(tmp_path, "train", numbered(0, 101)))
    first = prepare_data(settings, tmp_path / "cache", seed=1)
    pairs = list(first.train)
    (first.train.folder.parent / "shards" / "00000" / "texts" / "source.values").write_bytes(b"")
    assert list(prepare_data(settings, tmp_path / "cache", seed=1).train) == pairs
    (first.train.folder.parent / "summary.json").write_text("[]")
    assert list(prepare_data(settings, tmp_path / "cache", seed=1).train) == pairs
    assert len(list((tmp_path / "cache").glob("[!.]*"))) == 1


def test_repairs_are_noted(tmp_path):
    settings = DataConfig(train=corpus(tmp_path, "train", numbered(0, 20)))
    path = tmp_path / "train.en"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    prepared = prepare_data(settings, tmp_path / "cache", seed=1)
    assert [note.split(": ", 1)[1].split(" (")[0] for note in prepared.notes] == [
        "20 x Windows line end",
        "1 x byte order mark removed",
    ]
    assert "dog 0" in [source for pairs in (prepared.train, prepared.valid) for source, _ in pairs]


@pytest.mark.parametrize(
    ("pairs", "choices", "message"),
    [
        ([], {}, r"train\.en and .*train\.de\.gz: the corpus is empty"),
        ([("dog", "Hund")], {}, "1 of 1 example is left after cleaning; training needs at least 8"),
        ([("dog", "Hund")] * 50, {}, r"1 of 50 examples are left after cleaning \(49 duplicate\)"),
        ([("word " * 100_000, "Wort")], {}, r"0 of 1 .*\(1 too long\)"),
        (numbered(0, 20), {"valid_size": 15}, "15 sources held out of 20 examples leave 5 for training"),
    ],
)
def test_too_little_text_is_refused_and_leaves_nothing(tmp_path, pairs, choices, message):
    settings = DataConfig(train=corpus(tmp_path, "train", pairs), **choices)
    with pytest.raises(DataError, match=message):
        prepare_data(settings, tmp_path / "cache", seed=1)
    assert list((tmp_path / "cache").glob("[!.]*")) == []


def test_empty_validation_corpus_is_refused(tmp_path):
    settings = DataConfig(train=corpus(tmp_path, "train", numbered(0, 20)), valid=corpus(tmp_path, "valid", [("", "")]))
    with pytest.raises(DataError, match=r"valid\.en .*: the validation corpus holds no pair of texts; give another"):
        prepare_data(settings, tmp_path / "cache", seed=1)


def test_valid_size_with_valid_is_refused():
    files = {"kind": "files", "source": "a", "target": "b"}
    with pytest.raises(ConfigError, match="valid_size has no effect if valid is given"):
        parse(DataConfig, {"train": files, "valid": files, "valid_size": 5})


def test_multi30k_has_one_leak(shared_data, tmp_path):
    def part(name: str) -> ParallelFiles:
        folder = shared_data / "multi30k"
        return ParallelFiles(source=folder / f"{name}.en.gz", target=folder / f"{name}.de.gz")

    settings = DataConfig(train=part("train"), valid=part("val"), test=part("test_2016_flickr"))
    prepared = prepare_data(settings, tmp_path, seed=1)
    assert (len(prepared.train), len(prepared.valid), len(prepared.test)) == (28_996, 1014, 1000)
    assert prepared.report.num_leaks == 1
    assert prepared.report.rules["duplicate"].count == 3


def test_cleaning_is_reported_once_and_notes_are_kept(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{source}\t{target}\tCC-BY\n" for source, target in numbered(0, 50)), encoding="utf-8")
    settings, messages = DataConfig(train=ParallelTsv(path=path)), list[str]()
    for _ in range(2):
        prepared = prepare_data(settings, tmp_path / "cache", seed=1, report=messages.append)
        assert f"{path}: of 3 columns, 1 and 2 are read as source and target" in prepared.notes
    assert messages == ["reading and cleaning the corpus"]
