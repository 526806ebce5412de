"""Models in GGUF files, imported: the same logits as the original, the same numbers as the package of llama.cpp."""

import contextlib
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import ConfigError, DataError
from dragoman.interop.gguf.gguf_file import read_header, read_tensors
from dragoman.interop.gguf.partner import read, recognizes
from dragoman.interop.imported_model import ImportOptions
from dragoman.interop.self_check import forward, loaded_network

gguf = pytest.importorskip("gguf", reason="the package of llama.cpp writes the files")
pytest.importorskip("transformers", reason="transformers is the judge")
gguf_models = pytest.importorskip("tests.gguf_models")


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_logits_equal_the_original(family: str, tmp_path: Path) -> None:
    original, path = gguf_models.random_model(family), tmp_path / "model.gguf"
    gguf_models.write_gguf(path, original)
    assert recognizes(path)
    model = read(path, ImportOptions())
    again = type(original)(original.config)  # with the base of the positions that was written
    again.load_state_dict(original.state_dict())
    order = model.origin.orders["target"]
    ids = [2, 7, 99, 41, 180, 41]
    theirs = again.eval()(torch.from_numpy(order.foreign_ids[ids])[None]).logits[0].detach().numpy()
    ours = forward(loaded_network(model), model.network, [], ids)
    np.testing.assert_allclose(ours[:, 4:], theirs[:, order.foreign_ids[4:]], atol=1e-4)


@pytest.mark.parametrize("name", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "F16", "BF16"])
def test_quantized_tensors_equal_llama_cpp(name: str, tmp_path: Path) -> None:
    path, kind = tmp_path / "model.gguf", gguf.GGMLQuantizationType[name]
    expected = gguf_models.write_gguf(path, gguf_models.random_model("llama"), kind)
    found = read_tensors(read_header(path))
    assert found.keys() == expected.keys()
    for key, array in expected.items():
        np.testing.assert_array_equal(found[key], array.astype(np.float32))


def test_tokens_round_trip(tmp_path: Path) -> None:
    gguf_models.write_gguf(tmp_path / "model.gguf", gguf_models.random_model("llama"))
    side = read(tmp_path / "model.gguf", ImportOptions()).tokenizer.source
    for text in ("Hello, world 123", "Ünknown 語 😀", "a\n\n b"):
        assert side.decode(side.encode(text)) == text
    assert side.control_tokens == set(gguf_models.SYMBOLS)


_content: list[bytes] = []


@given(data=st.data())
def test_damaged_file_is_refused_or_read(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    if not _content:
        path = tmp_path_factory.mktemp("gguf") / "model.gguf"
        gguf_models.write_gguf(path, gguf_models.random_model("llama"))
        _content.append(path.read_bytes())
    content = bytearray(_content[0])
    header = 12_000
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, header))
        content[place : place + 8] = data.draw(st.sampled_from([b"\xff" * 8, b"\0" * 8, b"\x7f" + b"\0" * 7, b""]))
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content)))]
    path = tmp_path_factory.getbasetemp() / "damaged.gguf"
    path.write_bytes(content)
    with contextlib.suppress(DataError, ConfigError):
        read(path, ImportOptions())
