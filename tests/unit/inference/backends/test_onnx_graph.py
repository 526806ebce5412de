"""Checks of ONNX graphs before ONNX Runtime sees them."""

import numpy as np
import pytest

from dragoman.errors import RunError
from dragoman.inference.backends.onnx_graph import load_graph, run_graph

onnx = pytest.importorskip("onnx", reason="the extra onnx reads graphs of ONNX")
pytest.importorskip("onnxruntime", reason="the extra onnx runs graphs of ONNX")
FLOAT = onnx.TensorProto.FLOAT


def graph_of_a_sum(*, kind: int = FLOAT):
    """Return a graph that adds 1, 2 and 3 to its input."""
    inputs, outputs = ([onnx.helper.make_tensor_value_info(name, kind, [3])] for name in ("x", "y"))
    weight = onnx.helper.make_tensor("w", kind, [3], np.arange(1, 4, dtype=np.float32).tobytes(), raw=True)
    graph = onnx.helper.make_graph([onnx.helper.make_node("Add", ["x", "w"], ["y"])], "sum", inputs, outputs, [weight])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)


def load(model, folder):
    path = folder / "decoder.onnx"
    path.write_bytes(model.SerializeToString())
    return load_graph(path)


def test_a_graph_runs(tmp_path):
    [found] = run_graph(load(graph_of_a_sum(), tmp_path), {"x": np.ones(3, dtype=np.float32)})
    assert found.tolist() == [2, 3, 4]


def test_inputs_of_other_shapes_and_names_are_refused(tmp_path):
    graph = load(graph_of_a_sum(), tmp_path)
    for inputs in ({"x": np.ones(4, dtype=np.float32)}, {"z": np.ones(3, dtype=np.float32)}, {}):
        with pytest.raises(RunError, match="A graph of ONNX failed"):
            run_graph(graph, inputs)


@pytest.mark.parametrize("location", ["weights", "../weights", "/etc/passwd"])
def test_weights_in_another_file_are_refused(tmp_path, monkeypatch, location):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights").write_bytes(bytes(12))
    model = graph_of_a_sum()
    weight = model.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value=location)
    with pytest.raises(RunError, match="the tensor w is in another file"):
        load(model, tmp_path)


@pytest.mark.parametrize("dims", [[2**40], [2**31, 2**31], [-3]])
def test_tensors_larger_than_the_file_are_refused(tmp_path, dims):
    model = graph_of_a_sum()
    model.graph.initializer[0].dims[:] = dims
    with pytest.raises(RunError, match="the tensor w is larger than the file"):
        load(model, tmp_path)


def test_loops_and_foreign_operators_are_refused(tmp_path):
    for number, problem in enumerate(("domain", "graph", "function")):
        model = graph_of_a_sum()
        node = model.graph.node[0]
        if problem == "domain":
            node.domain = "com.microsoft"
        elif problem == "graph":
            body = onnx.helper.make_graph([], "body", [], [])
            node.attribute.append(onnx.helper.make_attribute("body", body))
        else:
            model.functions.add(name="function")
        with pytest.raises(RunError, match="it has functions" if number == 2 else "the operator Add is not of ONNX"):
            load(model, tmp_path)


def test_other_types_and_contents_are_refused(tmp_path):
    with pytest.raises(RunError, match="another type than float32 and int64"):
        load(graph_of_a_sum(kind=onnx.TensorProto.INT32), tmp_path)
    (tmp_path / "decoder.onnx").write_bytes(b"PK\3\4 is no graph")
    with pytest.raises(RunError, match="it is no file of ONNX"):
        load_graph(tmp_path / "decoder.onnx")


def test_a_graph_that_is_no_regular_file_is_refused(tmp_path):
    path = tmp_path / "decoder.onnx"
    path.symlink_to("/etc/passwd")
    with pytest.raises(RunError, match="is a symbolic link"):
        load_graph(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(RunError, match="is a folder"):
        load_graph(path)
