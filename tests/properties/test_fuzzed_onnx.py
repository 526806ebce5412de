"""Damaged graphs of ONNX give outputs or an error of dragoman."""

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dragoman.decoding.config import DecodingConfig
from dragoman.errors import DragomanError, RunError
from dragoman.inference.backends.onnx_backend import OnnxBackend
from dragoman.inference.scheduler import Request, search_requests
from tests.onnx_models import VOCABULARY
from tests.properties.test_fuzzed_files import EDITS, edit_bytes
from tests.property_settings import damaged_files

pytest.importorskip("onnxscript", reason="the extra onnx writes graphs of ONNX")
pytest.importorskip("onnxruntime", reason="the extra onnx runs graphs of ONNX")
onnx = pytest.importorskip("onnx", reason="the extra onnx writes graphs of ONNX")
pytestmark = pytest.mark.slow
FUZZING = settings(damaged_files(200), suppress_health_check=list(HealthCheck), phases=(Phase.generate,), deadline=None)
KIND = "encoder_decoder default"


def make_external(model: Any, number: int) -> None:
    tensor = model.graph.initializer[number % len(model.graph.initializer)]
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=("/etc/passwd", "../tokenizer.json", "weights")[number % 3])


def enlarge_tensor(model: Any, number: int) -> None:
    tensor = model.graph.initializer[number % len(model.graph.initializer)]
    tensor.dims[:] = [(2**40, 2**31, -1)[number % 3]] * (1 + number % 2)


def add_loop(model: Any, number: int) -> None:
    body = onnx.helper.make_graph([], "body", [], [])
    model.graph.node[number % len(model.graph.node)].attribute.append(onnx.helper.make_attribute("body", body))


def change_domain(model: Any, number: int) -> None:
    model.graph.node[number % len(model.graph.node)].domain = "com.microsoft"


def rename_state(model: Any, number: int) -> None:
    names = [one for one in (*model.graph.input, *model.graph.output) if "." in one.name or one.name == "logits"]
    names[number % len(names)].name = "other"


def enlarge_state(model: Any, number: int) -> None:
    states = [one for one in model.graph.input if one.name.startswith("past.")]
    dims = states[number % len(states)].type.tensor_type.shape.dim
    dims[1 + number % (len(dims) - 1)].dim_value = 2**40


def change_type(model: Any, number: int) -> None:
    values = (*model.graph.input, *model.graph.output)
    values[number % len(values)].type.tensor_type.elem_type = onnx.TensorProto.STRING


HOSTILE: tuple[Callable[[Any, int], None], ...] = (
    make_external,
    enlarge_tensor,
    add_loop,
    change_domain,
    rename_state,
    enlarge_state,
    change_type,
)


def drop_node(model: Any, number: int) -> None:
    del model.graph.node[number % len(model.graph.node)]


def swap_inputs(model: Any, number: int) -> None:
    one, other = (model.graph.node[(number * factor) % len(model.graph.node)] for factor in (1, 7))
    one.input[0], other.input[0] = other.input[0], one.input[0]


def change_integer(model: Any, number: int) -> None:
    """Change a constant integer, such as a size."""
    integers = [one for one in model.graph.initializer if one.data_type == onnx.TensorProto.INT64 and one.raw_data]
    tensor = integers[number % len(integers)]
    tensor.raw_data = (2**40, 3, -2, 2**62)[number % 4].to_bytes(8, "little", signed=True) + tensor.raw_data[8:]


def change_attribute(model: Any, number: int) -> None:
    attributes = [one for node in model.graph.node for one in node.attribute]
    attribute = attributes[number % len(attributes)]
    attribute.i, attribute.ints[:] = number - 5000, [number] * len(attribute.ints)


DAMAGES = (drop_node, swap_inputs, change_integer, change_attribute)


@pytest.fixture(scope="module")
def contents(tmp_path_factory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("graphs")
    subprocess.run([sys.executable, "-m", "tests.onnx_models", str(folder), KIND], check=True, capture_output=True)
    return {path.name: path.read_bytes() for path in (folder / KIND).iterdir()}


def use(folder: Path, files: dict[str, bytes]) -> list[int]:
    """Write the graphs and return the tokens of a search with them."""
    for name, content in files.items():
        (folder / name).write_bytes(content)
    backend = OnnxBackend(folder, vocabulary=VOCABULARY)
    found = search_requests(backend, [Request(ids, DecodingConfig(beam_size=2), limit=3) for ids in ([5, 6, 7], [8])])
    return [token for one in found for hypothesis in one for token in hypothesis.tokens]


@FUZZING
@given(name=st.sampled_from(["encoder.onnx", "decoder.onnx"]), edits=EDITS)
def test_damaged_bytes(contents, tmp_path_factory, name, edits):
    with suppress(DragomanError):
        tokens = use(tmp_path_factory.mktemp("damaged"), {**contents, name: edit_bytes(contents[name], edits)})
        assert all(0 <= token < VOCABULARY for token in tokens)


@FUZZING
@given(edit=st.sampled_from(HOSTILE), number=st.integers(0, 10_000), other=st.booleans())
def test_hostile_graphs_are_refused(contents, tmp_path_factory, edit, number, other):
    name = "encoder.onnx" if other and edit is not enlarge_state else "decoder.onnx"
    model = onnx.load_model_from_string(contents[name])
    edit(model, number)
    with pytest.raises(RunError):
        use(tmp_path_factory.mktemp("hostile"), {**contents, name: model.SerializeToString()})


@FUZZING
@given(
    name=st.sampled_from(["encoder.onnx", "decoder.onnx"]),
    edits=st.lists(st.tuples(st.sampled_from(DAMAGES), st.integers(0, 10_000)), min_size=1, max_size=3),
)
def test_damaged_graphs(contents, tmp_path_factory, name, edits):
    model = onnx.load_model_from_string(contents[name])
    for edit, number in edits:
        edit(model, number)
    with suppress(DragomanError):
        tokens = use(tmp_path_factory.mktemp("damaged"), {**contents, name: model.SerializeToString()})
        assert all(0 <= token < VOCABULARY for token in tokens)


@pytest.mark.parametrize("name", ["encoder.onnx", "decoder.onnx"])
def test_a_graph_in_the_place_of_another_is_refused(contents, tmp_path, name):
    with pytest.raises(RunError, match="do not belong to each other"):
        use(tmp_path, dict.fromkeys(contents, contents[name]))


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), lambda path: path.symlink_to("/etc/passwd")])
def test_a_graph_that_is_no_file_is_refused(contents, tmp_path, make):
    make(tmp_path / "decoder.onnx")
    (tmp_path / "encoder.onnx").write_bytes(contents["encoder.onnx"])
    with pytest.raises(RunError, match=r"decoder\.onnx: is "):
        OnnxBackend(tmp_path, vocabulary=VOCABULARY)
