"""Weights that someone else may have written: the same validation for both backends and for exports."""

import json
import re
import struct

import numpy as np
import pytest
import yaml
from safetensors.numpy import load_file, save_file

from dragoman.checksums import seal
from dragoman.errors import RunError
from dragoman.models.weight_quantization import load_arrays, quantize_weights, save_arrays, to_bfloat16
from dragoman.models.weight_validation import check_values
from dragoman.runs.export import export
from dragoman.runs.load import load, load_torch_model
from dragoman.runs.model_card import summarize_model
from dragoman.yaml_files import to_yaml
from tests.untrained_runs import finished_run

NAME = "encoder.0.feed_forward.inner.weight"
USES = {
    "load": lambda run: load(run.path, device="cpu"),
    "torch": lambda run: load_torch_model(run.path, device="cpu"),
    "export": lambda run: export(run.path, run.path.with_name("export"), compute_type="float32"),
    "int8": lambda run: export(run.path, run.path.with_name("export"), compute_type="int8"),
}


@pytest.fixture
def run(tmp_path):
    return finished_run(tmp_path / "run")


def set_value(array, value):
    array.flat[3] = value
    return array


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda array: set_value(array, np.nan), "not finite"),
        (lambda array: set_value(array, -np.inf), "not finite"),
        (lambda array: array.astype(np.int64), "has the number format I64"),
        (lambda array: array.astype(np.float64), "has the number format F64"),
        (lambda array: array.astype(np.float16), "has the number format F16"),
        (lambda array: array > 0, "has the number format BOOL"),
        (lambda array: array.astype(np.int8), "int8 without a float32 scale"),
        (lambda array: array[:-1], "the weights belong to another configuration"),
        (lambda array: array[None], "the weights belong to another configuration"),
    ],
)
def test_unusable_weights_are_refused(run, change, problem, use):
    arrays = load_file(run.weights)
    save_file(arrays | {NAME: np.ascontiguousarray(change(arrays[NAME]))}, run.weights)
    with pytest.raises(RunError, match=problem) as caught:
        USES[use](run)
    assert NAME in str(caught.value)
    assert str(caught.value).startswith(str(run.weights))
    assert not run.path.with_name("export").exists()


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(
    "scales",
    [None, lambda scale: scale[:-1], lambda scale: scale[:, None], lambda scale: scale.astype(np.float64)],
)
def test_int8_needs_scales(run, scales, use):
    arrays = quantize_weights(load_file(run.weights), "int8")
    scale = arrays.pop(NAME + "_scale")
    save_file(arrays if scales is None else arrays | {NAME + "_scale": scales(scale)}, run.weights)
    with pytest.raises(RunError, match=r"int8 without a float32 scale|number format F64"):
        USES[use](run)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("suffix", ["_scale", "_center"])
@pytest.mark.parametrize("change", [lambda one: one[:-1], lambda one: one[:, :0], lambda one: one.astype(np.float64)])
def test_blocks_need_scales_and_centers(run, suffix, change, use):
    arrays = quantize_weights(load_file(run.weights), "int8_int16")
    save_file(arrays | {NAME + suffix: change(arrays[NAME + suffix])}, run.weights)
    with pytest.raises(RunError, match=r"int8 without a float32 scale and a center|number format F64"):
        USES[use](run)


@pytest.mark.parametrize("scale", [np.nan, np.inf, -1.0])
def test_scales_are_finite_and_positive(run, scale):
    arrays = quantize_weights(load_file(run.weights), "int8")
    save_file(arrays | {NAME + "_scale": set_value(arrays[NAME + "_scale"], scale)}, run.weights)
    for use in USES.values():
        with pytest.raises(RunError, match=r"not finite|a negative scale"):
            use(run)


@pytest.mark.parametrize("use", ["torch", "int8"])
@pytest.mark.parametrize(
    "sizes",
    [{"d_model": 999_999_998, "d_ff": 999_999_999}, {"encoder_layers": 30, "d_ff": 10**9}, {"num_heads": 12}],
    ids=str,
)
def test_sizes_are_compared_before_memory_is_allocated(run, sizes, use):
    """A configuration of a few bytes asks for more memory than any machine has."""
    text = run.config.read_text(encoding="utf-8")
    for key, value in sizes.items():
        text = re.sub(rf"(?m)^  {key}: .*", f"  {key}: {value}", text)
    run.config.write_text(text, encoding="utf-8")
    if sizes == {"num_heads": 12}:
        load_torch_model(run.path, device="cpu")  # has the same weights
        return
    with pytest.raises(RunError, match=r"has another shape of|lacks encoder"):
        USES[use](run)
    assert summarize_model(run).parameters > 10**9


def test_a_huge_sum_of_finite_values_is_finite():
    greatest = np.finfo(np.float32).max
    check_values({"a": np.full(10, greatest, dtype=np.float32)}, where="weights")
    check_values({"a": to_bfloat16(np.array([3e38, -3e38], dtype=np.float32))}, where="weights")
    check_values({"a": np.zeros((0, 3), dtype=np.uint16), "b": np.zeros(0, dtype=np.float32)}, where="weights")
    for value in (np.nan, np.inf, -np.inf):
        for array in (np.array([1, value], dtype=np.float32), to_bfloat16(np.array([1, value], dtype=np.float32))):
            with pytest.raises(RunError, match="not finite"):
                check_values({"a": array}, where="weights")


def test_names_and_shapes_are_checked_in_the_header(tmp_path):
    path = tmp_path / "model.safetensors"
    save_arrays(path, {"a": np.zeros((2, 3), dtype=np.float32)})
    assert load_arrays(path, {"a": (2, 3)}).keys() == {"a"}
    header = json.dumps({"a": {"dtype": "F32", "shape": [2, 4], "data_offsets": [0, 32]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(32))
    with pytest.raises(RunError, match="has another shape of a"):
        load_arrays(path, {"a": (2, 3)})


@pytest.mark.parametrize("key", ["positions", "attention", "attention.encoder.score", "attention.decoder.pattern"])
def test_a_forged_seal_on_an_incomplete_configuration_is_harmless(run, key):
    """The defaults complete it, as without a seal."""
    tree = yaml.safe_load(run.config.read_text(encoding="utf-8"))
    set_to = tree["model"]
    *groups, last = key.split(".")
    for group in groups:
        set_to = set_to[group]
    set_to[last] = {}
    run.config.write_text(seal(to_yaml(tree)), encoding="utf-8")
    assert load(run.path, device="cpu").score(["two dogs"], ["zwei Hunde"])
