"""The CPU library in low precision equals PyTorch with inputs rounded in the same way."""

from pathlib import Path
from typing import Any

import pytest
import torch

import dragoman
from dragoman.interpret.attention_recorder import record_pairs
from dragoman.interpret.simulated_quantization import round_activations, round_to
from dragoman.models.config import EncoderDecoderConfig
from dragoman.models.weight_storage import get_weights, save_tensors
from dragoman.runs.export import export
from dragoman.runs.inspect import InspectionRequest, inspect_run
from dragoman.runs.load import load_torch_model
from tests.cpu_models import initialized_model  # skips where the CPU library is not installed
from tests.untrained_runs import PAIRS, finished_run

SIZES = {"d_model": 48, "num_heads": 6, "d_ff": 67, "encoder_layers": 2, "decoder_layers": 3}
MODELS: dict[str, dict[str, Any]] = {
    "as in the paper": {"norm_position": "post"},
    "as nowadays": {"norm": "rms", "gated": True, "activation": "silu", "positions": {"kind": "rotary"}, "bias": False},
    "groups of heads": {"num_kv_heads": 2, "positions": {"kind": "alibi"}},
}
SOURCE, OUTPUT = [5, 9, 6, 7, 11, 8], [7, 5, 10, 6, 4]


def exported(place: Path, model: dict[str, Any], compute: Any) -> Path:
    """Export a model at the scale of trained ones in low precision."""
    run = finished_run(place / "run", {"model": SIZES | model})
    network = load_torch_model(run.path, device="cpu").model
    generator = torch.Generator().manual_seed(7)
    for parameter in network.parameters():
        parameter.data += 0.02 * torch.randn(parameter.shape, generator=generator)
    save_tensors(run.weights, get_weights(network))
    export(run.path, place / compute, compute_type=compute)
    return place / compute


@pytest.mark.parametrize("compute", ["int8", "bfloat16"])
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_rounded_inputs_equal_the_cpu_library(tmp_path, model, compute):
    """Results agree until a number rounds to the other side, which moves all later numbers by a step."""
    path = exported(tmp_path, model, compute)
    translator, on_cpu = load_torch_model(path, device="cpu"), dragoman.load(path, device="cpu").model
    expected = torch.from_numpy(on_cpu.log_probs(SOURCE, OUTPUT))

    def error() -> float:
        (passed,) = record_pairs(translator.model, [SOURCE], [OUTPUT])
        return float((passed.log_probs - expected).abs().median())

    as_stored = error()
    with round_activations(translator.model, compute):
        rounded = error()
    assert error() == as_stored  # nothing is left behind
    assert rounded < as_stored / 20


@pytest.mark.filterwarnings(
    "ignore::dragoman.inference.translation_result.TranslationWarning"
)  # an untrained model has no end
@pytest.mark.parametrize("compute", ["int8", "int8_int16", "bfloat16"])
def test_explanations_of_exports_match_the_cpu_library(tmp_path, compute):
    path, (text, target) = exported(tmp_path, {}, compute), PAIRS[0]
    on_cpu = dragoman.load(path, device="cpu")
    found = inspect_run(path, InspectionRequest([text]), device="cpu")
    assert ("translation, beam and probabilities", f"computed by the CPU backend in {compute}") in found.facts
    [seen], [[best]] = [one.search for one in found.explanations], on_cpu.translate([text])
    assert seen.best.tokens == best.hypothesis.tokens
    totals = [seen.tree.steps[step][at].total for step, at in enumerate(seen.best_path)]
    assert totals[-1] == pytest.approx(best.hypothesis.log_prob, abs=1e-4)
    (one,) = inspect_run(path, InspectionRequest([text], targets=[target]), device="cpu").explanations
    [scored] = on_cpu.score([text], [target])
    assert [step.log_prob for step in one.predictions] == pytest.approx(scored.token_log_probs, abs=1e-4)
    for weights_of_kind in one.forward_pass.weights.values():
        assert weights_of_kind.sum(dim=-1).sub(1).abs().max() < 1e-5


def test_rounding_examples():
    x = torch.tensor([[12.7, -6.35, 0.04, 0.06], [0.0, 0.0, 0.0, 0.0]])
    torch.testing.assert_close(round_to(x, "int8"), torch.tensor([[12.7, -6.4, 0.0, 0.1], [0.0] * 4]))
    whole = torch.tensor([[32767.0, -0.4, 0.6, 12345.4]])
    torch.testing.assert_close(round_to(whole, "int8_int16"), torch.tensor([[32767.0, 0.0, 1.0, 12345.0]]))
    assert round_to(torch.tensor([1.00390625]), "bfloat16").tolist() == [1.0]  # half a step: to the even one
    assert round_to(x, "float32") is x


def test_gradients_pass_through_rounding():
    network = initialized_model(EncoderDecoderConfig(**SIZES))
    source = torch.tensor([[5, 9, 3]])
    with round_activations(network, "int8"):
        loss = network(source, torch.tensor([3]), torch.tensor([[2, 7]])).square().sum()
        loss.backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in network.parameters())
