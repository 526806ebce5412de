"""Files of ONNX graphs in ONNX Runtime.

A graph is a program that a stranger may have written. One that reads other files, has loops, or calls functions outside
of ONNX is refused before ONNX Runtime sees it.
"""

import io
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.errors import MissingExtraError, RunError
from dragoman.inference.backends.cpu_backend import requested_threads
from dragoman.untrusted_files import MEBIBYTE, FileKind

_TYPES = ("tensor(float)", "tensor(int64)")
GRAPH = FileKind(2048 * MEBIBYTE, error=RunError, remedy="export the model again")


def load_graph(path: Path) -> Any:
    """Return the session of a graph, which holds its weights: no other file is read.

    Raises RunError if the file is no such graph, MissingExtraError without ONNX Runtime.
    """
    try:
        import onnx
        import onnxruntime
        from google.protobuf.message import DecodeError
    except ImportError as error:
        raise MissingExtraError(feature="Running graphs of ONNX", extra="onnx") from error
    content = GRAPH.read_bytes(path)
    try:
        model = onnx.load_model_from_string(content)
    except DecodeError as error:
        raise GRAPH.damaged(path, "it is no file of ONNX") from error
    if (reason := next(_problems(model, len(content)), None)) is not None:
        raise GRAPH.damaged(path, reason)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised, too
    options.intra_op_num_threads = requested_threads() or os.cpu_count() or 1
    try:
        with redirect_stdout(io.StringIO()):  # prints some errors, too
            graph = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # of classes that the library does not export
        raise GRAPH.damaged(path, "ONNX Runtime does not compute it") from error
    if any(one.type not in _TYPES for one in (*graph.get_inputs(), *graph.get_outputs())):
        raise GRAPH.damaged(path, "an input or output has another type than float32 and int64")
    return graph


def run_graph(graph: Any, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Return the outputs of a graph. Raises RunError where it does not compute them."""
    try:
        return list(graph.run(None, dict(inputs)))
    except Exception as error:  # of classes that the library does not export
        raise wrong_sizes_error() from error


def wrong_sizes_error() -> RunError:
    """Return the error for a graph that fails, or returns tensors of other shapes than documented."""
    return RunError("A graph of ONNX failed: it is damaged, or of another model. Export the model again.")


def _problems(model: Any, num_bytes: int) -> Iterator[str]:
    """Yield what the graphs of dragoman do not have; `num_bytes` is the size of the file."""
    if model.functions or model.graph.sparse_initializer:
        yield "it has functions or sparse tensors"
    for node in model.graph.node:
        if node.domain or any(one.HasField("g") or one.graphs for one in node.attribute):
            yield f"the operator {node.op_type} is not of ONNX, or has a graph of its own"
    constants = (one.t for node in model.graph.node for one in node.attribute if one.HasField("t"))
    for tensor in (*model.graph.initializer, *constants):
        if tensor.data_location or tensor.external_data:
            yield f"the tensor {tensor.name} is in another file"
        if min(tensor.dims, default=1) < 0 or math.prod(tensor.dims) > num_bytes:
            yield f"the tensor {tensor.name} is larger than the file"
