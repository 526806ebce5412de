"""Properties of corpus mixing: the number of times each pair is drawn, and the corpus of each line."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import parse
from dragoman.data.batching.corpus_mixing import (
    CorpusWeights,
    locate_line,
    row_ends,
    sample_rows,
    temperature_weights,
)
from dragoman.data.batching.token_budget_batches import pair_stream
from dragoman.data.config import DataConfig
from dragoman.data.datasets.parallel import TokenStore
from dragoman.data.preprocessing.pipeline import prepare_data
from dragoman.errors import ConfigError
from dragoman.runs.config import resolve_corpus_paths
from tests.property_settings import examples

seeds = st.integers(0, 2**32)
frequencies = st.lists(st.sampled_from([0.1, 0.5, 1.0, 1.7, 2.0, 13.0]), min_size=1, max_size=23)


@examples(50)
@given(frequencies, seeds, st.integers(0, 97))
def test_rows_occur_weight_times_or_once_more(times: list[float], seed: int, epoch: int) -> None:
    rows = sample_rows(np.array(times), seed=(seed, epoch))
    counts = Counter(rows.tolist())
    for row, wanted in enumerate(times):
        assert int(wanted) <= counts[row] <= -int(-wanted // 1)
    assert sample_rows(np.array(times), seed=(seed, epoch)).tolist() == rows.tolist()


def test_counts_average_to_the_weights() -> None:
    times = np.array([0.25, 1.0, 1.5] * 101)
    drawn = [np.bincount(sample_rows(times, seed=(1, epoch)), minlength=len(times)) for epoch in range(200)]
    means = np.mean(drawn, axis=0).reshape(101, 3).mean(axis=0)
    np.testing.assert_allclose(means, [0.25, 1.0, 1.5], atol=0.01)


@examples(50)
@given(st.lists(st.integers(1, 13), min_size=1, max_size=5))
def test_a_line_belongs_to_one_corpus(sizes: list[int]) -> None:
    ends = np.cumsum(sizes).tolist()
    lines = np.arange(1, ends[-1] + 1)
    places = [locate_line(line, ends) for line in lines.tolist()]
    assert places == [(corpus, line + 1) for corpus, size in enumerate(sizes) for line in range(size)]
    found = row_ends(lambda row: int(lines[row]), len(lines), ends)
    times = CorpusWeights(found, np.arange(1.0, len(sizes) + 1))
    assert times.weights_of(np.arange(len(lines))).tolist() == [corpus + 1 for corpus, _ in places]


@examples(50)
@given(st.lists(st.integers(1, 10**7), min_size=1, max_size=5), st.sampled_from([1.0, 1.5, 3.0, 5.0, 100.0]))
def test_temperature_gives_each_corpus_its_share(sizes: list[int], temperature: float) -> None:
    ends = np.cumsum(sizes)
    times = temperature_weights(ends, temperature)
    pairs = times.weights * sizes
    powers = np.array(sizes) ** (1 / temperature)
    np.testing.assert_allclose(pairs / pairs.sum(), powers / powers.sum(), rtol=1e-9)
    assert pairs.sum() == pytest.approx(sum(sizes))
    if temperature == 1:
        assert times.weights.tolist() == [1.0] * len(sizes)
    means = times.tokens_per_epoch(lambda start, end: end - start)
    assert means == pytest.approx(sum(sizes))


def test_draws_follow_the_temperature(tmp_path):
    store = TokenStore.build(tmp_path / "store", [([4 + n % 13], [5]) for n in range(1100)])
    times = temperature_weights(np.array([1000, 1100]), 2.0)
    stream = pair_stream(store, budget=211, seed=1, weights=times, window=307)
    counts = np.zeros(2)
    while stream.position["epoch"] < 20:
        counts += np.bincount(next(stream).rows >= 1000, minlength=2)
    assert counts.sum() == pytest.approx(20 * 1100, rel=0.01)
    assert counts[0] / counts[1] == pytest.approx(10**0.5, rel=0.03)


CORPUS = {"kind": "files", "source": "back.en", "target": "back.de"}
PAIRS = [([4 + n % 13] * (1 + n % 5), [4 + n % 11] * (1 + n % 7)) for n in range(43)]


def read(store: TokenStore, each: np.ndarray | None) -> list[list[int]]:
    """Return the rows of the batches of an epoch."""
    times = None if each is None else CorpusWeights(np.arange(1, len(each) + 1), each)
    stream = pair_stream(store, budget=47, seed=3, weights=times)
    return [next(stream).rows.tolist() for _ in range(stream.batches_per_epoch())]


def test_weight_one_equals_no_weights(tmp_path):
    store = TokenStore.build(tmp_path / "store", PAIRS)
    assert read(store, np.ones(43)) == read(store, None)


def test_batches_hold_the_draws_within_the_budget(tmp_path):
    store = TokenStore.build(tmp_path / "store", PAIRS)
    times = CorpusWeights(np.arange(1, 44), np.array([2.0 if row % 2 else 0.5 for row in range(43)]))
    stream = pair_stream(store, budget=47, seed=3, weights=times)
    batches = [next(stream) for _ in range(stream.batches_per_epoch())]
    assert all(len(batch) * max(batch.source.shape[1], batch.target.shape[1]) <= 47 for batch in batches)
    counts = Counter(row for batch in batches for row in batch.rows.tolist())
    assert {counts[row] for row in range(1, 43, 2)} == {2}
    assert {counts[row] for row in range(0, 43, 2)} == {0, 1}
    for batch in batches:
        for place, row in enumerate(batch.rows.tolist()):
            length = int(batch.source_lengths[place]) - 1
            assert batch.source[place, :length].tolist() == PAIRS[row][0]
    stream.seek({"epoch": 0, "batch": 2})
    assert next(stream).rows.tolist() == batches[2].rows.tolist()


# Whole corpora


def corpus(folder: Path, name: str, texts: list[str]) -> dict[str, str]:
    for side in ("en", "de"):
        lines = "".join(f"{text} {side}\n" if text else "\n" for text in texts)
        (folder / f"{name}.{side}").write_text(lines, encoding="utf-8")
    return {"kind": "files", "source": str(folder / f"{name}.en"), "target": str(folder / f"{name}.de")}


def data(folder: Path, *, times: float = 0.5) -> DataConfig:
    people = [f"what people wrote {n}" for n in range(53)]
    people[7] = ""  # cleaned away, and counted as a line all the same
    made = [f"<bt> what a model made {n}" for n in range(31)]
    tree = {
        "train": corpus(folder, "people", people),
        "extra_corpora": [{"corpus": corpus(folder, "made", made), "weight": times}],
        "valid": corpus(folder, "valid", ["something else entirely", "and more of it"]),
    }
    return parse(DataConfig, tree)


def test_line_numbers_name_their_corpus(tmp_path):
    texts = prepare_data(data(tmp_path), tmp_path / "cache", seed=1)
    assert texts.ends == (53, 84)
    assert len(texts.train) == 52 + 31
    for row in range(len(texts.train)):
        which, line = locate_line(texts.train.line(row), texts.ends)
        source, _ = texts.train.pair(row)
        assert source == (f"what people wrote {line - 1} en" if which == 0 else f"<bt> what a model made {line - 1} en")
    assert len(texts.fingerprints) == 6


def test_new_weights_reuse_the_dataset(tmp_path):
    first = prepare_data(data(tmp_path), tmp_path / "cache", seed=1)
    assert prepare_data(data(tmp_path, times=3.0), tmp_path / "cache", seed=1).train.folder == first.train.folder


def test_a_mixture_needs_validation_files():
    with pytest.raises(ConfigError, match="extra_corpora are texts of several kinds"):
        parse(DataConfig, {"train": CORPUS, "extra_corpora": [{"corpus": CORPUS}]})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"extra_corpora": [{"corpus": CORPUS, "weight": 2}]},
            "temperature = 5 and extra_corpora.0.weight = 2 both set",
        ),
        ({}, "temperature mixes several corpora, and there is one"),
        ({"extra_corpora": [{"corpus": CORPUS}], "temperature": 0.5}, "data|temperature = 0.5"),
    ],
)
def test_weights_and_temperature_exclude_each_other(changed, message):
    with pytest.raises(ConfigError, match=message):
        parse(DataConfig, {"train": CORPUS, "valid": CORPUS, "temperature": 5, **changed})


def test_paths_are_relative_to_the_data_folder():
    tree = resolve_corpus_paths(
        {"data": {"train": CORPUS, "extra_corpora": [{"corpus": CORPUS, "weight": 2}]}}, Path("corpora")
    )
    assert tree["data"]["extra_corpora"] == [
        {"corpus": {"kind": "files", "source": "corpora/back.en", "target": "corpora/back.de"}, "weight": 2}
    ]
