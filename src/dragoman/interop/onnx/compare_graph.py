"""Comparison of the numbers of a graph in ONNX Runtime with those of PyTorch, at the end of an export."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from dragoman.errors import DataError
from dragoman.interop.onnx.graph_modules import EncoderGraph, PromptGraph, StepGraph

TOLERANCE = 1e-3
"""Greatest difference that rounding explains, relative to the greatest number of an output."""
_KNOWN_IDS = 5
"""Ids that every vocabulary has: special symbols and a token."""


def compare_graph(module: EncoderGraph | PromptGraph | StepGraph, content: bytes, *, name: str) -> float | None:
    """Return the greatest relative difference of an output, for random inputs; None without ONNX Runtime.

    The inputs have other sizes than the examples of the export. Raises DataError above the tolerance.
    """
    if find_spec("onnxruntime") is None:
        return None
    import onnxruntime

    arguments = tree_map(_randomized(), module.example(more=3))
    with torch.inference_mode():
        expected = [one.numpy() for one in module.eval()(*arguments)]
    inputs = dict(zip(module.inputs(), (one.numpy() for one in tree_leaves(arguments)), strict=True))
    try:
        session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
        found = session.run(module.outputs(), inputs)
    except Exception as error:  # of classes that the library does not export
        raise DataError(
            f"{name}: ONNX Runtime does not compute it. Nothing was written. Report the model, with its configuration."
        ) from error
    greatest = max(map(_difference, found, expected))
    if not greatest <= TOLERANCE:
        raise DataError(
            f"{name} does not compute what PyTorch computes: an output differs by {greatest:.2g} of its greatest "
            "number. Nothing was written. Report the model, with its configuration."
        )
    return greatest


def describe_differences(differences: Sequence[float | None]) -> str | None:
    """Return the result of the comparison of all graphs in words; None without ONNX Runtime."""
    known = [one for one in differences if one is not None]
    if not known:
        return None
    return f"outputs in ONNX Runtime differ from those of PyTorch by at most {max(known):.2g} of the greatest number"


def _randomized() -> Any:
    """Return a function of a tensor to random ids or numbers of its shape; lengths remain."""
    generator = torch.Generator().manual_seed(0)

    def random(tensor: Tensor) -> Tensor:
        if tensor.is_floating_point():
            return torch.randn(tensor.shape, generator=generator)
        return torch.randint(_KNOWN_IDS, tensor.shape, generator=generator) if tensor.ndim == 2 else tensor

    return random


def _difference(found: np.ndarray, expected: np.ndarray) -> float:
    assert found.shape == expected.shape, "sizes follow from those of the inputs"
    return float(np.abs(found - expected).max() / max(1.0, float(np.abs(expected).max())))
