"""Stores of pairs: round trip and damage."""

import json
import tracemalloc

import numpy as np
import pytest

from dragoman.data.datasets.parallel import CHUNK, TextStore, TokenStore
from dragoman.data.readers.parallel import Example
from dragoman.errors import DataError

TEXTS = [Example("dog", "Hund", 1), Example("", "日本 \u2028", 3), Example("a cat 👩‍👩‍👧", "", 7)]
IDS = [([5, 7, 11], [4]), ([], [65535, 300]), ([9], [])]


def test_texts_survive_a_store(tmp_path):
    TextStore.build(tmp_path / "texts", TEXTS)
    store = TextStore(tmp_path / "texts")
    assert len(store) == 3
    assert list(store.examples()) == TEXTS
    assert list(store) == [(one.source, one.target) for one in TEXTS]
    assert store.pair(2) == ("a cat 👩‍👩‍👧", "")
    assert store.line(1) == 3


@pytest.mark.parametrize(("vocabulary", "dtype"), [(65536, np.uint16), (65537, np.int32), (None, np.int32)])
def test_ids_use_the_smallest_type(tmp_path, vocabulary, dtype):
    TokenStore.build(tmp_path / "tokens", iter(IDS), vocab_size=vocabulary)
    store = TokenStore(tmp_path / "tokens")
    assert [(source.tolist(), target.tolist()) for source, target in map(store.pair, range(len(store)))] == IDS
    assert store.source.lengths.tolist() == [3, 0, 1]
    assert store.target.lengths.tolist() == [1, 2, 0]
    assert store.pair(0)[0].dtype == dtype


def test_several_chunks_survive_a_store(tmp_path):
    pairs = [([n % 101] * (n % 3), [n % 97] * (n % 5)) for n in range(2 * CHUNK + 11)]
    store = TokenStore.build(tmp_path / "tokens", iter(pairs), vocab_size=101)
    assert len(store) == len(pairs)
    for index in (0, CHUNK - 1, CHUNK, 2 * CHUNK + 10):
        assert tuple(side.tolist() for side in store.pair(index)) == pairs[index]


def test_sample_is_ordered_and_bounded(tmp_path):
    store = TextStore.build(tmp_path / "texts", [Example(f"{n}", f"{2 * n}", n) for n in range(101)])
    assert list(store.sample(101, seed=1)()) == list(store)
    drawn = store.sample(23, seed=1)
    rows = [int(source) for source, _ in drawn()]
    assert rows == sorted(set(rows))
    assert len(rows) == 23
    assert list(drawn()) == [(f"{row}", f"{2 * row}") for row in rows]
    assert [int(source) for source, _ in store.sample(23, seed=2)()] != rows


def test_reading_after_released_pages_is_unchanged(tmp_path, monkeypatch):
    monkeypatch.setattr("dragoman.data.datasets.memory_map._MAX_TAKEN", 7)
    pairs = [([n % 101] * (n % 5), [n % 97] * (n % 7)) for n in range(1000)]
    store = TokenStore.build(tmp_path / "tokens", pairs)
    for rows in (np.arange(0, 1000, 3), np.arange(999, 0, -7)):
        into = np.full((len(rows), 7), -1)
        store.target.fill(rows, into)
        assert into.tolist() == [pairs[row][1] + [-1] * (7 - len(pairs[row][1])) for row in rows.tolist()]


def test_empty_store_can_be_opened(tmp_path):
    assert len(TokenStore.build(tmp_path / "tokens", [])) == 0
    assert list(TextStore.build(tmp_path / "texts", [])) == []


def test_fingerprint_depends_on_the_content(tmp_path):
    def fingerprint(name: str, pairs) -> str:
        return TokenStore.build(tmp_path / name, pairs).fingerprint

    assert fingerprint("a", IDS) == fingerprint("b", IDS)
    others = [IDS[::-1], [([5, 7], [11, 4]), *IDS[1:]], [([5, 7, 11], [6]), *IDS[1:]], IDS[:2]]
    assert len({fingerprint(f"c{n}", pairs) for n, pairs in enumerate([IDS, *others])}) == 5


@pytest.mark.parametrize(
    "name", ["source.values", "source.lengths", "target.values", "target.lengths", "origins.values"]
)
def test_truncated_or_missing_file_is_refused(tmp_path, name):
    folder = tmp_path / "tokens"
    TokenStore.build(folder, IDS)
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:-1])
    with pytest.raises(
        DataError, match=rf"damaged store \({name} has {len(content) - 1} bytes instead of {len(content)}\)"
    ):
        TokenStore(folder)
    (folder / name).unlink()
    with pytest.raises(DataError, match="prepare the corpus again, or copy the whole folder again"):
        TokenStore(folder)


def test_inconsistent_lengths_are_refused(tmp_path):
    folder = tmp_path / "tokens"
    TokenStore.build(folder, IDS)
    (folder / "source.lengths").write_bytes(np.array([3, 1, 1], dtype=np.int32).tobytes())
    with pytest.raises(DataError, match="its files do not fit each other"):
        TokenStore(folder)


def test_header_of_another_format_is_refused(tmp_path):
    folder = tmp_path / "tokens"
    with pytest.raises(DataError, match="cannot be read"):
        TokenStore(folder)
    TokenStore.build(folder, IDS)
    with pytest.raises(DataError, match=r"is not of dragoman\.texts"):
        TextStore(folder)
    header = json.loads((folder / "header.json").read_text())
    (folder / "header.json").write_text(json.dumps(header | {"format_version": 0}))
    with pytest.raises(DataError, match="version 1"):
        TokenStore(folder)
    (folder / "header.json").write_text("{")
    with pytest.raises(DataError, match="not valid JSON"):
        TokenStore(folder)


def test_failed_build_keeps_the_old_store(tmp_path):
    def failing():
        yield IDS[0]
        raise DataError("a.en:2: not UTF-8")

    TokenStore.build(tmp_path / "tokens", IDS)
    with pytest.raises(DataError, match="not UTF-8"):
        TokenStore.build(tmp_path / "tokens", failing())
    assert len(TokenStore(tmp_path / "tokens")) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["tokens"]


def test_memory_does_not_grow_with_the_corpus(tmp_path):
    def peak(size: int) -> int:
        examples = (Example("x" * 200, "y" * 200, n) for n in range(size))
        tracemalloc.start()
        try:
            store = TextStore.build(tmp_path / str(size), examples)
            assert sum(1 for _ in store) == size
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    # Three chunks more are 10 MB of text; each pair may cost the 24 bytes of its places.
    assert peak(5 * CHUNK) < peak(2 * CHUNK) + 3 * CHUNK * 48
