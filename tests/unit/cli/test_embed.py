"""`dragoman embed`: output as JSON lines and as an array, and equal vectors for any batch."""

import io
import json
import sys

import numpy as np
import pytest

import dragoman
from dragoman.cli import main
from tests.small_tasks import config_of, write_texts

TEXTS = ["two dogs play", "", "a dog sleeps in the house and waits", "two dogs"]


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("embed")
    write_texts(folder)
    dragoman.train(config_of("masked_lm", folder), output_dir=folder / "run", overrides={"training.max_steps": 1})
    return folder / "run"


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    return path


@pytest.mark.filterwarnings("ignore::dragoman.InputWarning")
def test_embed_writes_arrays_and_json_lines(run_folder, source, tmp_path):
    array, lines = tmp_path / "vectors.npy", tmp_path / "vectors.jsonl"
    for output in (array, lines):
        assert main.run(["embed", str(run_folder), "--input", str(source), "--output", str(output)], debug=False) == 0
    found = np.load(array, allow_pickle=False)
    embedder = dragoman.load(run_folder, dragoman.Embedder, device="cpu")
    assert found.dtype == np.float32
    assert np.array_equal(found, embedder.embed(TEXTS))
    records = [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]
    assert [one["line"] for one in records] == [1, 2, 3, 4]
    assert np.array_equal(np.array([one["embedding"] for one in records], dtype=np.float32), found)


def test_embed_of_no_lines_writes_an_empty_array(run_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert main.run(["embed", str(run_folder), "--output", str(tmp_path / "vectors.npy")], debug=False) == 0
    assert np.load(tmp_path / "vectors.npy").shape[0] == 0


@pytest.mark.filterwarnings("ignore::dragoman.InputWarning")
def test_vectors_do_not_depend_on_the_batch(run_folder):
    embedder = dragoman.load(run_folder, dragoman.Embedder, device="cpu")
    together = embedder.embed(TEXTS)
    assert together.shape == (4, embedder.size)
    assert np.allclose(together, [embedder.embed(text) for text in TEXTS], atol=1e-6)
    assert np.array_equal(np.stack(list(embedder.embed_stream(TEXTS))), together)
    assert embedder.embed([]).shape == (0, embedder.size)


@pytest.mark.filterwarnings("ignore::dragoman.InputWarning")
@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_normalized_vectors_have_length_one(run_folder, pooling):
    embedder = dragoman.load(run_folder, dragoman.Embedder, device="cpu")
    plain = dragoman.Embedder(embedder.model, embedder.tokenizer, size=embedder.size, max_length=embedder.max_length)
    config = embedder.config.model_copy(update={"normalize": True, "pooling": pooling})
    normalized = dragoman.Embedder(
        embedder.model, embedder.tokenizer, config, size=embedder.size, max_length=embedder.max_length
    )
    assert np.allclose(np.linalg.norm(normalized.embed(TEXTS), axis=-1), 1.0)
    assert np.allclose(plain.embed(TEXTS), embedder.embed(TEXTS))


def test_embedder_warns_of_truncation(run_folder):
    embedder = dragoman.load(run_folder, dragoman.Embedder, device="cpu")
    text = "two dogs play " * embedder.max_length
    with pytest.warns(dragoman.InputWarning, match="the end of the text is ignored"):
        found = embedder.embed([text])
    assert np.isfinite(found).all()
