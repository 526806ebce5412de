"""Graphs of ONNX in ONNX Runtime: the outputs and scores of PyTorch, for every kind of layer."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.decoding.config import DecodingConfig, LengthPenalty
from dragoman.errors import RunError
from dragoman.inference.backends.onnx_backend import OnnxBackend
from dragoman.inference.backends.torch_backend import TorchBackend
from dragoman.inference.scheduler import Request, search_requests
from tests.onnx_models import OF_ENCODER_DECODERS, VARIANTS, VOCABULARY, decoder_only, encoder_decoder

pytest.importorskip("onnxscript", reason="the extra onnx writes graphs of ONNX")
onnx = pytest.importorskip("onnx", reason="the extra onnx writes graphs of ONNX")
pytest.importorskip("onnxruntime", reason="the extra onnx runs graphs of ONNX")

SOURCES = [[5, 9, 6, 30, 4, 8, 8, 21, 17], [4], [7, 8], []]
PROMPTS = [[2, 9, 6, 30, 4, 8, 8, 21, 17], [2], [2, 8], [2, 7, 7, 7, 11]]
FAST = ["encoder_decoder default", "decoder_only default"]
SLOW = [
    *(f"encoder_decoder {name}" for name in (VARIANTS | OF_ENCODER_DECODERS) if name != "default"),
    *(f"decoder_only {name}" for name in VARIANTS if name != "default"),
]


def write(folder: Path, names: list[str]) -> Path:
    subprocess.run([sys.executable, "-m", "tests.onnx_models", str(folder), *names], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def fast_graphs(tmp_path_factory) -> Path:
    return write(tmp_path_factory.mktemp("graphs"), FAST)


@pytest.fixture(scope="module")
def slow_graphs(tmp_path_factory) -> Path:
    return write(tmp_path_factory.mktemp("graphs"), SLOW)


def searched(backend, sources: list[list[int]], beam_size: int) -> list[list[tuple[tuple[int, ...], float]]]:
    """Return the n-best lists of sources, with their log-probabilities."""
    config = DecodingConfig(beam_size=beam_size, n_best=beam_size)
    with backend.inference_mode():
        found = search_requests(backend, [Request(ids, config, limit=12) for ids in sources])
    return [[(one.tokens, one.log_prob) for one in hypotheses] for hypotheses in found]


def check_outputs(found, expected, sources: list[list[int]]) -> None:
    for beam_size in (1, 4):
        ours, theirs = (searched(one, sources, beam_size) for one in (found, expected))
        assert [[tokens for tokens, _ in one] for one in ours] == [[tokens for tokens, _ in one] for one in theirs]
        log_probs = ([number for one in lists for _, number in one] for lists in (ours, theirs))
        np.testing.assert_allclose(*log_probs, atol=1e-4)


def check_graphs(folder: Path, name: str) -> None:
    kind, _, variant = name.partition(" ")
    for path in (folder / name).iterdir():
        onnx.checker.check_model(path, full_check=True)
    found = OnnxBackend(folder / name, vocabulary=VOCABULARY)
    if kind == "decoder_only":
        expected = TorchBackend(decoder_only(variant), decoder_only=True)
        check_outputs(found, expected, PROMPTS)
        check_outputs(found, expected, [[2], [2]])
        return
    expected = TorchBackend(encoder_decoder(variant))
    assert found.max_length == expected.max_length
    check_outputs(found, expected, SOURCES)
    targets = [[6, 9, 3], [3], [5, 3], [30, 30, 3]]
    scored = [one.score(SOURCES, targets, penalty=LengthPenalty()) for one in (found, expected)]
    np.testing.assert_allclose(*([one.log_prob for one in some] for some in scored), atol=1e-4)


@pytest.mark.parametrize("name", FAST)
def test_outputs_are_those_of_pytorch(fast_graphs, name):
    check_graphs(fast_graphs, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_outputs_of_every_kind_of_layer_are_those_of_pytorch(slow_graphs, name):
    check_graphs(slow_graphs, name)


def test_a_graph_has_documented_names_and_no_other_files(fast_graphs):
    graph = onnx.load(fast_graphs / "decoder_only default" / "decoder.onnx")
    assert {one.domain: one.version for one in graph.opset_import}[""] == 18
    assert [one.name for one in graph.graph.input][:4] == ["tokens", "lengths", "past.0.keys", "past.0.values"]
    assert [one.name for one in graph.graph.output][:3] == ["logits", "present.0.keys", "present.0.values"]
    assert not any(one.data_location for one in graph.graph.initializer)


def test_the_greedy_search_of_the_documentation_finds_the_outputs_of_pytorch(fast_graphs, tmp_path, monkeypatch):
    page = Path(__file__).parents[2] / "docs" / "how-to" / "onnx.md"
    code = page.read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "en-de-onnx").symlink_to(fast_graphs / "encoder_decoder default")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(code, names)
    expected = searched(TorchBackend(encoder_decoder("default")), SOURCES, 1)
    for ids, [(tokens, _)] in zip(SOURCES, expected, strict=True):
        assert names["translate"](ids, limit=12) == list(tokens) + [3] * (len(tokens) < 12)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    edits=st.lists(st.tuples(st.integers(0, 2**31), st.binary(max_size=9)), min_size=1, max_size=4), cut=st.booleans()
)
def test_a_damaged_graph_is_refused_or_computed(fast_graphs, tmp_path, edits, cut):
    original = fast_graphs / "encoder_decoder default"
    content = bytearray((original / "decoder.onnx").read_bytes())
    for place, new in edits:
        content[place % len(content) :] = new if cut else new + content[place % len(content) + len(new) :]
    (tmp_path / "decoder.onnx").write_bytes(content)
    (tmp_path / "encoder.onnx").write_bytes((original / "encoder.onnx").read_bytes())
    with suppress(RunError):
        [found] = searched(OnnxBackend(tmp_path, vocabulary=VOCABULARY), [[5, 6]], 2)
        assert all(0 <= token < VOCABULARY for tokens, _ in found for token in tokens)


@pytest.mark.parametrize("other", ["encoder_decoder default/encoder.onnx", "decoder_only default/decoder.onnx"])
def test_a_graph_of_another_model_is_refused(fast_graphs, tmp_path, other):
    for name in ("encoder.onnx", "decoder.onnx"):
        (tmp_path / name).write_bytes((fast_graphs / "encoder_decoder default" / name).read_bytes())
    (tmp_path / "decoder.onnx").write_bytes((fast_graphs / other).read_bytes())
    with pytest.raises(RunError):
        searched(OnnxBackend(tmp_path, vocabulary=VOCABULARY), [[5, 6]], 2)


def test_weights_outside_of_a_graph_are_not_read(fast_graphs, tmp_path):
    model = onnx.load(fast_graphs / "encoder_decoder default" / "decoder.onnx")
    onnx.save(model, tmp_path / "decoder.onnx", save_as_external_data=True, size_threshold=0, location="weights")
    (tmp_path / "encoder.onnx").write_bytes((fast_graphs / "encoder_decoder default" / "encoder.onnx").read_bytes())
    with pytest.raises(RunError, match="is not a graph that ONNX Runtime computes"):
        OnnxBackend(tmp_path, vocabulary=VOCABULARY)
