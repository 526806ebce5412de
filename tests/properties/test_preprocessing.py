"""Preprocessing in blocks gives the same texts, report and files for any block size and order of work."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.config import Tree, parse
from dragoman.data.config import DataConfig
from dragoman.data.datasets.parallel import TextStore
from dragoman.data.preprocessing.pipeline import SequentialRunner, clean_in_blocks
from dragoman.data.preprocessing.prepare import prepare_data
from dragoman.errors import DataError

law = settings(max_examples=30)
words = st.sampled_from(["dog", "cat", "Dog", "a  dog", "", " ", "dog " * 9, "x", "y" * 30, "7"])
pairs = st.lists(st.tuples(words, words), min_size=1, max_size=60)


class ReversedEngine:
    """Engine that runs the last task first."""

    def run(self, function: Callable[..., Tree], tasks: Sequence[object]) -> list[Tree]:
        return [function(task) for task in reversed(tasks)][::-1]


def write(folder: Path, name: str, texts: Sequence[tuple[str, str]]) -> None:
    for side, ending in enumerate(("en", "de")):
        content = "".join(pair[side] + "\n" for pair in texts)
        (folder / f"{name}.{ending}").write_text(content, encoding="utf-8")


def corpus(folder: Path, name: str) -> dict[str, str]:
    return {"kind": "files", "source": str(folder / f"{name}.en"), "target": str(folder / f"{name}.de")}


def assert_equal_results(tree: Tree, folder: Path, *, seed: int, size: int) -> None:
    """Assert that preprocessing at once and in blocks gives the same result, or the same error message."""
    data = parse(DataConfig, tree)
    whole = message = None
    try:
        whole = prepare_data(data, folder / "cache", seed=seed)
    except DataError as error:
        message = str(error)
    for number, engine in enumerate((SequentialRunner(), ReversedEngine())):
        work = folder / f"work{number}"
        (work / "blocks").mkdir(parents=True)
        if whole is None:
            with pytest.raises(DataError) as refusal:
                clean_in_blocks(data, work, seed=seed, engine=engine, size=size)
            assert str(refusal.value) == message
            continue
        found = clean_in_blocks(data, work, seed=seed, engine=engine, size=size)
        assert list(found.texts.examples()) == list(whole.train.examples())
        assert list(found.valid.examples()) == list(whole.valid.examples())
        assert (found.test is None) == (whole.test is None)
        assert found.report.to_json() == whole.report.to_json()
        assert found.notes == whole.notes
        assert found.ends == whole.ends


@law
@given(pairs, pairs, pairs, st.integers(1, 23), st.booleans(), st.booleans())
def test_blocks_equal_one_block(first, second, valid, size: int, duplicates: bool, leaks: bool) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, "part.0", first)
        write(folder, "part.1", second)
        write(folder, "valid", valid)
        write(folder, "beside", second[:7] + first[:5])
        tree = {
            "train": corpus(folder, "part.*"),
            "extra_corpora": [{"corpus": corpus(folder, "beside")}],
            "valid": corpus(folder, "valid"),
            "test": corpus(folder, "valid"),
            "cleaning": {"remove_duplicates": duplicates, "remove_leaks": leaks, "max_length_ratio": 3},
        }
        assert_equal_results(tree, folder, seed=1, size=size)


@law
@given(
    st.lists(st.integers(0, 97), min_size=9, max_size=150), st.integers(1, 23), st.integers(0, 97), st.integers(1, 31)
)
def test_the_validation_split_is_the_same(numbers: list[int], size: int, seed: int, held_out: int) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        texts = [(f"what is {number}", f"was ist {number % 31}") for number in numbers]
        write(folder, "part.0", texts[: len(texts) // 2])
        write(folder, "part.1", texts[len(texts) // 2 :])
        assert_equal_results({"train": corpus(folder, "part.*"), "valid_size": held_out}, folder, seed=seed, size=size)


def test_complete_parts_are_reused(tmp_path, monkeypatch):
    texts = [(f"what is {number}", f"was ist {number}") for number in range(97)] * 2
    write(tmp_path, "part", texts)
    data = parse(DataConfig, {"train": corpus(tmp_path, "part"), "valid_size": 5})

    class KilledEngine:
        """Engine that is killed at one of its tasks."""

        def __init__(self, at: int) -> None:
            self.left = at

        def run(self, function: Callable[..., Tree], tasks: Sequence[object]) -> list[Tree]:
            found = []
            for task in tasks:
                if self.left == 0:
                    raise KeyboardInterrupt
                self.left -= 1
                found.append(function(task))
            return found

    def clean(work: Path, engine: object):
        (work / "blocks").mkdir(parents=True, exist_ok=True)
        return clean_in_blocks(data, work, seed=3, engine=engine, size=13)  # type: ignore[arg-type]

    whole = clean(tmp_path / "whole", SequentialRunner())
    for at in range(1, 33, 3):
        work = tmp_path / f"killed{at}"
        with pytest.raises(KeyboardInterrupt):
            clean(work, KilledEngine(at))
        again = clean(work, SequentialRunner())
        assert list(again.texts.examples()) == list(whole.texts.examples())
        assert list(again.valid) == list(whole.valid)
        assert again.report == whole.report
        assert again.texts.fingerprint == whole.texts.fingerprint


def test_joined_datasets_are_one_and_damage_is_detected(tmp_path):
    write(tmp_path, "part", [(f"what is {number}", f"was ist {number}") for number in range(41)])
    data = parse(DataConfig, {"train": corpus(tmp_path, "part"), "valid_size": 1})
    (tmp_path / "work" / "blocks").mkdir(parents=True)
    found = clean_in_blocks(data, tmp_path / "work", seed=3, engine=SequentialRunner(), size=7)
    assert len(found.shards) == 6
    assert TextStore(found.texts.folder).pair(23) == found.texts.pair(23)
    assert sum(len(TextStore(shard / "texts")) for shard in found.shards) == len(found.texts) == 40
    header = found.shards[2] / "texts" / "header.json"
    tree = json.loads(header.read_text())
    header.write_text(json.dumps(tree | {"fingerprint": "0"}))
    with pytest.raises(DataError, match="another shard than that which was joined"):
        TextStore(found.texts.folder)
    (found.shards[2] / "texts" / "source.values").write_bytes(b"")
    header.write_text(json.dumps(tree))
    with pytest.raises(DataError, match="bytes instead of"):
        TextStore(found.texts.folder)
