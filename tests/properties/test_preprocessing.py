"""Properties of preprocessing in blocks: the result equals plain cleaning in memory, for all blocks and orders."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import parse
from dragoman.config_trees import Tree
from dragoman.data.cleaning_rules import CleaningReport, leak_key
from dragoman.data.config import DataConfig
from dragoman.data.datasets.parallel import TextStore
from dragoman.data.preprocessing.pipeline import clean_in_blocks, prepare_data, run_sequentially
from dragoman.data.readers.parallel import Example, read_corpus
from dragoman.data.splits import default_valid_size
from dragoman.errors import DataError
from tests.plain_cleaning import clean, hold_out
from tests.property_settings import examples

words = st.sampled_from(["dog", "cat", "Dog", "a  dog", "", " ", "dog " * 9, "x", "y" * 30, "7"])
pairs = st.lists(st.tuples(words, words), min_size=1, max_size=60)


class ReversedRunner:
    """Runner that begins with the last task."""

    def __call__(self, function: Callable[..., Tree], tasks: Sequence[object]) -> list[Tree]:
        return [function(task) for task in reversed(tasks)][::-1]


def write(folder: Path, name: str, texts: Sequence[tuple[str, str]]) -> None:
    for side, ending in enumerate(("en", "de")):
        content = "".join(pair[side] + "\n" for pair in texts)
        (folder / f"{name}.{ending}").write_text(content, encoding="utf-8")


def corpus(folder: Path, name: str) -> dict[str, str]:
    return {"kind": "files", "source": str(folder / f"{name}.en"), "target": str(folder / f"{name}.de")}


def clean_plainly(data: DataConfig, *, seed: int) -> tuple[list[Example], list[Example], CleaningReport]:
    """Return training pairs, validation pairs and the report."""
    valid = [] if data.valid is None else [one for one in read_corpus(data.valid) if one.source.strip()]
    valid = [one for one in valid if one.target.strip()]
    test = [] if data.test is None else list(read_corpus(data.test))
    held_out = {leak_key(example) for example in valid + test}
    corpora = [list(read_corpus(one)) for one in data.train_corpora]
    starts = [sum(one[-1].line for one in corpora[:number]) for number in range(len(corpora))]
    mixture = chain.from_iterable(
        (replace(example, line=start + example.line) for example in one)
        for start, one in zip(starts, corpora, strict=True)
    )
    report = CleaningReport()
    train = list(clean(mixture, data.cleaning, report=report, held_out=held_out))
    if data.valid is None:
        size = default_valid_size(len(train)) if data.valid_size is None else data.valid_size
        train, valid = hold_out(train, size=size, seed=seed)
    return train, valid, report


def check(tree: Tree, folder: Path, *, seed: int, size: int) -> None:
    """Compare preprocessing in blocks of `size` pairs with plain cleaning, or check that both refuse the corpus."""
    data = parse(DataConfig, tree)
    train, valid, report = clean_plainly(data, seed=seed)
    for number, runner in enumerate((run_sequentially, ReversedRunner())):
        work = folder / f"work{number}"
        if len(train) < 8 or not valid:
            with pytest.raises(DataError, match=r"examples are left|to learn from|for training|no pair of texts"):
                clean_in_blocks(data, work, fingerprints={}, seed=seed, runner=runner, size=size)
            continue
        found = clean_in_blocks(data, work, fingerprints={}, seed=seed, runner=runner, size=size)
        assert list(found.train.examples()) == train
        assert list(found.valid.examples()) == valid
        assert (found.test is None) == (data.test is None)
        assert found.report.to_json() == report.to_json()


@examples(30)
@given(pairs, pairs, pairs, st.integers(1, 23), st.booleans(), st.booleans())
def test_blocks_equal_one_block(first, second, valid, size: int, duplicates: bool, leaks: bool) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, "part.0", first)
        write(folder, "part.1", second)
        write(folder, "valid", valid)
        write(folder, "extra", second[:7] + first[:5])
        tree = {
            "train": corpus(folder, "part.*"),
            "extra_corpora": [{"corpus": corpus(folder, "extra")}],
            "valid": corpus(folder, "valid"),
            "test": corpus(folder, "valid"),
            "cleaning": {"remove_duplicates": duplicates, "remove_leaks": leaks, "max_length_ratio": 3},
        }
        check(tree, folder, seed=1, size=size)


@examples(30)
@given(
    st.lists(st.integers(0, 97), min_size=9, max_size=150), st.integers(1, 23), st.integers(0, 97), st.integers(1, 31)
)
def test_the_validation_split_is_the_same(numbers: list[int], size: int, seed: int, held_out: int) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        texts = [(f"what is {number}", f"was ist {number % 31}") for number in numbers]
        write(folder, "part.0", texts[: len(texts) // 2])
        write(folder, "part.1", texts[len(texts) // 2 :])
        check({"train": corpus(folder, "part.*"), "valid_size": held_out}, folder, seed=seed, size=size)


def test_complete_parts_are_reused(tmp_path, monkeypatch):
    texts = [(f"what is {number}", f"was ist {number}") for number in range(97)] * 2
    write(tmp_path, "part", texts)
    data = parse(DataConfig, {"train": corpus(tmp_path, "part"), "valid_size": 5})

    class KilledEngine:
        """Engine that is killed at one of its tasks."""

        def __init__(self, at: int) -> None:
            self.left = at

        def __call__(self, function: Callable[..., Tree], tasks: Sequence[object]) -> list[Tree]:
            found = []
            for task in tasks:
                if self.left == 0:
                    raise KeyboardInterrupt
                self.left -= 1
                found.append(function(task))
            return found

    def run(work: Path, runner: object):
        return clean_in_blocks(data, work, fingerprints={}, seed=3, runner=runner, size=13)  # type: ignore[arg-type]

    whole = run(tmp_path / "whole", run_sequentially)
    for at in range(1, 17, 2):
        work = tmp_path / f"killed{at}"
        with pytest.raises(KeyboardInterrupt):
            run(work, KilledEngine(at))
        again = run(work, run_sequentially)
        assert list(again.train.examples()) == list(whole.train.examples())
        assert list(again.valid) == list(whole.valid)
        assert again.report == whole.report
        assert again.train.fingerprint == whole.train.fingerprint


def test_joined_datasets_are_one_and_damage_is_detected(tmp_path):
    write(tmp_path, "part", [(f"what is {number}", f"was ist {number}") for number in range(41)])
    data = parse(DataConfig, {"train": corpus(tmp_path, "part"), "valid_size": 1})
    found = clean_in_blocks(data, tmp_path / "work", fingerprints={}, seed=3, runner=run_sequentially, size=7)
    assert len(found.shards) == 6
    assert TextStore(found.train.folder).pair(23) == found.train.pair(23)
    assert sum(len(TextStore(shard / "texts")) for shard in found.shards) == len(found.train) == 40
    header = found.shards[2] / "texts" / "header.json"
    tree = json.loads(header.read_text())
    header.write_text(json.dumps({key: value for key, value in tree.items() if key != "crc32"} | {"fingerprint": "0"}))
    with pytest.raises(DataError, match="not the shard that was concatenated"):
        TextStore(found.train.folder)
    (found.shards[2] / "texts" / "source.values").write_bytes(b"")
    header.write_text(json.dumps(tree))
    with pytest.raises(DataError, match="bytes instead of"):
        TextStore(found.train.folder)


def test_training_from_files_uses_the_same_texts(tmp_path):
    write(tmp_path, "part", [(f"what is {number}", f"was ist {number}") for number in range(41)] * 2)
    data = parse(DataConfig, {"train": corpus(tmp_path, "part"), "valid_size": 5})
    prepared = prepare_data(data, tmp_path / "cache", seed=3)
    cleaned = clean_in_blocks(data, tmp_path / "work", fingerprints={}, seed=3, runner=run_sequentially, size=7)
    assert list(prepared.train.examples()) == list(cleaned.train.examples())
    assert list(prepared.valid) == list(cleaned.valid)
    assert (prepared.report, prepared.notes, prepared.ends) == (cleaned.report, cleaned.notes, cleaned.ends)
