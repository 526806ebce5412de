"""Store of tokenized documents: round trip and damage."""

import tracemalloc

import numpy as np
import pytest

from dragoman.data.datasets.text import DocumentStore
from dragoman.errors import DataError
from tests.in_memory_text import tokenized

CHUNKS = [
    [
        tokenized([5, 7], 1, is_first=True),
        tokenized([11], 2, is_first=False),
        tokenized([13], 5, is_first=True),
    ],
    [tokenized([17, 19, 65535], 6, is_first=False)],
    [],
    [tokenized([], 8, is_first=True), tokenized([23], 9, is_first=True)],
]
DOCUMENTS = [[5, 7, 11], [13, 17, 19, 65535], [], [23]]


def rows(store: DocumentStore) -> list[list[int]]:
    return [store.texts.row(index).tolist() for index in range(len(store))]


@pytest.mark.parametrize(("vocabulary", "dtype"), [(65536, np.uint16), (65537, np.int32), (None, np.int32)])
def test_documents_use_the_smallest_type(tmp_path, vocabulary, dtype):
    DocumentStore.build(tmp_path / "documents", iter(CHUNKS), vocab_size=vocabulary, facts={"corpus": "a"})
    store = DocumentStore(tmp_path / "documents")
    assert rows(store) == DOCUMENTS
    assert store.origins.tolist() == [1, 5, 8, 9]
    assert store.tokens == 8
    assert store.texts.row(0).dtype == dtype
    assert store.header["corpus"] == "a"


def test_empty_store_can_be_opened(tmp_path):
    assert len(DocumentStore.build(tmp_path / "documents", [])) == 0


def test_passages_do_not_change_the_store(tmp_path):
    whole = [[tokenized(ids, line, is_first=True) for ids, line in zip(DOCUMENTS, (1, 5, 8, 9), strict=True)]]
    first, second = (
        DocumentStore.build(tmp_path / str(number), chunks) for number, chunks in enumerate([CHUNKS, whole])
    )
    assert first.fingerprint == second.fingerprint
    other = DocumentStore.build(tmp_path / "other", [*CHUNKS, [tokenized([29], 9, is_first=False)]])
    assert other.fingerprint != first.fingerprint


@pytest.mark.parametrize("name", ["texts.values", "texts.lengths", "origins.values"])
def test_truncated_file_is_refused(tmp_path, name):
    folder = tmp_path / "documents"
    DocumentStore.build(folder, CHUNKS)
    (folder / name).write_bytes((folder / name).read_bytes()[:-1])
    with pytest.raises(DataError, match=rf"damaged store \({name} has .* prepare the corpus again"):
        DocumentStore(folder)


def test_inconsistent_lengths_are_refused(tmp_path):
    folder = tmp_path / "documents"
    DocumentStore.build(folder, CHUNKS)
    (folder / "texts.lengths").write_bytes(np.array([3, 4, 0, 2]).tobytes())
    with pytest.raises(DataError, match="its files do not fit each other"):
        DocumentStore(folder)


def test_memory_does_not_grow_with_the_document(tmp_path):
    def peak(size: int) -> int:
        ids = list(range(1000))
        chunks = ([tokenized(ids, 1, is_first=n == 0)] for n in range(size))
        tracemalloc.start()
        try:
            assert len(DocumentStore.build(tmp_path / str(size), chunks, vocab_size=1000)) == 1
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(2000) < peak(200) + 100_000  # 3.6 MB more on the disk
