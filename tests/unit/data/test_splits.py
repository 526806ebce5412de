"""Training, validation and test sets of a corpus in memory."""

from pathlib import Path

import pytest

from dragoman.data.readers.labeled import LabeledLines, LabeledText, read_labeled
from dragoman.data.readers.line_reader import ReadWarnings
from dragoman.data.splits import SplitConfig, default_valid_size, read_splits
from dragoman.errors import DataError

Corpora = SplitConfig[LabeledLines]


def corpus(folder: Path, name: str, texts: list[str]) -> LabeledLines:
    (folder / name).write_text("".join(f"{n % 2} {text}\n" for n, text in enumerate(texts)), encoding="utf-8")
    return LabeledLines(path=folder / name)


def read(corpora: Corpora, *, seed: int = 1):
    return read_splits(corpora, read_labeled, group=text_of, content=text_of, seed=seed)


def text_of(example: LabeledText) -> str:
    return example.text


def texts(part) -> list[str]:
    return [one.text for one in part]


def test_given_sets_are_used(tmp_path):
    train = corpus(tmp_path, "train", [f"t{n}" for n in range(11)])
    valid, test = corpus(tmp_path, "valid", ["v"]), corpus(tmp_path, "test", ["x", "y"])
    parts = read(Corpora(train=train, valid=valid, test=test))
    assert (texts(parts.train), texts(parts.valid)) == ([f"t{n}" for n in range(11)], ["v"])
    assert parts.test == [LabeledText("x", "0", 1), LabeledText("y", "1", 2)]
    assert parts.notes == ()
    assert [Path(name).name for name in parts.fingerprints] == ["train", "valid", "test"]


def test_part_is_held_out_without_valid(tmp_path):
    train = corpus(tmp_path, "train", [f"t{n % 89}" for n in range(101)])  # some texts occur twice
    parts = read(Corpora(train=train))
    assert parts.test is None
    assert len(set(texts(parts.valid))) == 4  # 5 % of 89 texts
    assert not set(texts(parts.train)) & set(texts(parts.valid))
    assert len(parts.train) + len(parts.valid) == 101
    assert texts(read(Corpora(train=train)).valid) == texts(parts.valid)
    assert texts(read(Corpora(train=train), seed=2).valid) != texts(parts.valid)
    assert len(set(texts(read(Corpora(train=train, valid_size=17)).valid))) == 17


def test_held_out_part_ignores_case_and_order(tmp_path):
    forth = corpus(tmp_path, "forth", [f"Text {n}" for n in range(53)])
    back = corpus(tmp_path, "back", [f"text {n}" for n in reversed(range(53))])
    held_out = [{text.lower() for text in texts(read(Corpora(train=one)).valid)} for one in (forth, back)]
    assert held_out[0] == held_out[1]


def test_leaks_are_removed_or_reported(tmp_path):
    train = corpus(tmp_path, "train", [*(f"t{n}" for n in range(11)), "v", "x  y"])
    valid, test = corpus(tmp_path, "valid", ["v"]), corpus(tmp_path, "test", ["x y"])
    removed, kept = (read(Corpora(train=train, valid=valid, test=test, remove_leaks=leaks)) for leaks in (True, False))
    assert texts(removed.train) == [f"t{n}" for n in range(11)]
    assert removed.notes == (f"{train.path}: training examples that are in the validation or test text: 2, removed",)
    assert len(kept.train) == 13
    assert kept.notes[0].endswith(": 2, kept, so that scores on it mean less")


def test_text_is_not_held_out(tmp_path):
    train = corpus(tmp_path, "train", [f"t{n}" for n in range(40)])
    test = corpus(tmp_path, "test", [f"t{n}" for n in range(20)])
    parts = read(Corpora(train=train, test=test, valid_size=7))
    assert len(parts.valid) == 7
    assert not set(texts(parts.valid)) & set(texts(parts.test))
    assert set(texts(parts.train)) | set(texts(parts.valid)) == {f"t{n}" for n in range(20, 40)}
    [note] = parts.notes
    assert note.endswith("20, removed")
    kept = read(Corpora(train=train, test=test, valid_size=7, remove_leaks=False))
    assert len(kept.train) + len(kept.valid) == 40


def test_repairs_are_noted(tmp_path):
    path = tmp_path / "train"
    path.write_bytes(b"".join(b"0 t%d\r\n\r\n" % n for n in range(31)))
    parts = read(Corpora(train=LabeledLines(path=path)))
    assert parts.notes == (f"{path}: 62 x Windows line end (CRLF) read as LF (first: line 1)",)


@pytest.mark.parametrize(
    ("names", "held_out", "message"),
    [
        (["train", "empty", None], None, r"empty: holds no example; give another file, or leave data\.valid out"),
        (["train", None, "empty"], None, r"empty: holds no example; .* data\.test out"),
        (["train", None, None], 5, r"train: 6 of 11 examples are left for training, which needs at least 8"),
        (["train", "train", None], None, "train: 0 of 11 examples are left"),
        (["empty", None, None], None, "empty: 0 of 0 examples are left"),
    ],
)
def test_empty_sets_are_refused(tmp_path, names, held_out, message):
    files = {"train": [f"t{n}" for n in range(11)], "empty": []}
    train, valid, test = (None if name is None else corpus(tmp_path, name, files[name]) for name in names)
    with pytest.raises(DataError, match=message):
        read(Corpora(train=train, valid=valid, test=test, valid_size=held_out))


def test_reader_gets_one_warnings_object(tmp_path):
    seen: list[ReadWarnings] = []

    def reading(one: LabeledLines, warnings: ReadWarnings) -> list[LabeledText]:
        seen.append(warnings)
        return list(read_labeled(one, warnings))

    train = corpus(tmp_path, "train", [f"t{n}" for n in range(11)])
    read_splits(
        Corpora(train=train, valid=corpus(tmp_path, "valid", ["v"])), reading, group=text_of, content=text_of, seed=1
    )
    assert len(seen) == 2
    assert seen[0] is seen[1]


def test_default_validation_size():
    assert [default_valid_size(n) for n in (8, 100, 29_000, 40_000, 10**7)] == [1, 5, 1450, 2000, 2000]
