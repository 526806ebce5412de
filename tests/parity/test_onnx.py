"""Graphs of ONNX in ONNX Runtime: the outputs and scores of PyTorch, for every kind of layer."""

import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dragoman.decoding.config import DecodingConfig, LengthPenalty
from dragoman.errors import DataError
from dragoman.inference.backends.onnx_backend import OnnxBackend
from dragoman.inference.backends.torch_backend import TorchBackend
from dragoman.inference.scheduler import Request, search_requests
from dragoman.interop.onnx.compare_graph import compare_graph
from dragoman.interop.onnx.graph_modules import EncoderGraph
from tests.onnx_models import OF_ENCODER_DECODERS, VOCABULARY, decoder_only, encoder_decoder

pytest.importorskip("onnxscript", reason="the extra onnx writes graphs of ONNX")
onnx = pytest.importorskip("onnx", reason="the extra onnx writes graphs of ONNX")
pytest.importorskip("onnxruntime", reason="the extra onnx runs graphs of ONNX")
pytestmark = pytest.mark.slow

SOURCES = [[5, 9, 6, 30, 4, 8, 8, 21, 17], [4], [7, 8], []]
PROMPTS = [[2, 9, 6, 30, 4, 8, 8, 21, 17], [2], [2, 8], [2, 7, 7, 7, 11]]
DEFAULT, DECODER_ONLY = "encoder_decoder default", "decoder_only default"
NAMES = [
    DEFAULT,
    *(f"encoder_decoder {name}" for name in ("learned", "rotary", "shaw", "t5_bias", *OF_ENCODER_DECODERS)),
    DECODER_ONLY,
    *(f"decoder_only {name}" for name in ("learned", "scaled rotary", "alibi")),
]


@pytest.fixture(scope="module")
def graphs(tmp_path_factory) -> Callable[[str], Path]:
    """Function that returns the folder of the graphs of a model, and writes them when it is called first."""
    folder = tmp_path_factory.mktemp("graphs")

    @cache
    def write(name: str) -> Path:
        subprocess.run([sys.executable, "-m", "tests.onnx_models", str(folder), name], check=True, capture_output=True)
        return folder / name

    return write


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
    for path in folder.iterdir():
        onnx.checker.check_model(path, full_check=True)
    found = OnnxBackend(folder, vocabulary=VOCABULARY)
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


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_those_of_pytorch(graphs, name):
    check_graphs(graphs(name), name)


def test_a_graph_has_documented_names_and_no_other_files(graphs):
    graph = onnx.load(graphs(DECODER_ONLY) / "decoder.onnx")
    assert {one.domain: one.version for one in graph.opset_import}[""] == 18
    assert [one.name for one in graph.graph.input][:4] == ["tokens", "lengths", "past.0.keys", "past.0.values"]
    assert [one.name for one in graph.graph.output][:3] == ["logits", "present.0.keys", "present.0.values"]
    assert not any(one.data_location for one in graph.graph.initializer)


def test_the_greedy_search_of_the_documentation_finds_the_outputs_of_pytorch(graphs, tmp_path, monkeypatch):
    page = Path(__file__).parents[2] / "docs" / "how-to" / "onnx.md"
    code = page.read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "en-de-onnx").symlink_to(graphs(DEFAULT))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(code, names)
    expected = searched(TorchBackend(encoder_decoder("default")), SOURCES, 1)
    for ids, [(tokens, _)] in zip(SOURCES, expected, strict=True):
        assert names["translate"](ids, limit=12) == list(tokens) + [3] * (len(tokens) < 12)


def test_the_comparison_finds_other_weights(graphs):
    name = "encoder.onnx"
    content, module = (graphs(DEFAULT) / name).read_bytes(), EncoderGraph(encoder_decoder("default"))
    difference = compare_graph(module, content, name=name)
    assert difference is not None
    assert difference < 1e-5
    with torch.no_grad():
        next(module.parameters()).mul_(-1)
    with pytest.raises(DataError, match="does not compute what PyTorch computes"):
        compare_graph(module, content, name=name)


def test_a_graph_names_no_lines_and_folders_of_this_program(graphs):
    for path in (*graphs(DEFAULT).iterdir(), *graphs(DECODER_ONLY).iterdir()):
        content = path.read_bytes()
        assert b".py" not in content
        assert b"File " not in content
