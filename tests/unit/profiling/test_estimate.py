"""How long a training takes, from what a token costs."""

import subprocess
import sys

import pytest
import torch

from dragoman.models.factory import build_encoder_decoder
from dragoman.profiling import estimate
from dragoman.profiling.estimate import estimate_seconds, training_flops
from dragoman.runs.config import parse_experiment
from dragoman.training.config import TrainingConfig

CPU = torch.device("cpu")


@pytest.fixture
def network():
    data = {"train": {"kind": "tsv", "path": "x.tsv"}}
    config = parse_experiment({"preset": "tiny", "data": data}).model
    with torch.device("meta"):
        return build_encoder_decoder(config, source_vocabulary=1009, target_vocabulary=1009)


def test_the_cost_of_a_token_is_six_operations_a_weight(network):
    """Of every matrix a token goes through; embeddings are looked up, not multiplied, but one of them unembeds."""
    matrices = [value.numel() for value in network.parameters() if value.ndim == 2]
    assert training_flops(network) == 6 * sum(matrices)


def test_the_estimate_grows_with_the_training(network, monkeypatch):
    monkeypatch.setattr(estimate, "_speed", lambda device: 1e9)

    def seconds(length, accumulate=1) -> float:
        config = TrainingConfig(**length, batch_tokens=100, grad_accumulation=accumulate)
        return estimate_seconds(config, network, tokens=1000, device=CPU)

    flops = training_flops(network)
    assert seconds({"max_epochs": 3}) == pytest.approx(3 * 1000 * flops / 1e9)
    assert seconds({"max_steps": 3}) == pytest.approx(3 * 100 * flops / 1e9)
    assert seconds({"max_steps": 3}, accumulate=7) == pytest.approx(7 * 3 * 100 * flops / 1e9)


def test_the_speed_of_the_device_is_measured():
    assert 1e7 < estimate._speed(CPU, seconds=0.01) < 1e15


BLUEPRINT = """
import sys, torch
from dragoman.runs.config import to_experiment
from dragoman.profiling.estimate import _NothingDrawn
from dragoman.models.factory import build_seq2seq
config = to_experiment({"preset": "tiny", "data": {"train": {"kind": "tsv", "path": "x.tsv"}}}).model
with torch.device("meta"), _NothingDrawn():
    network = build_seq2seq(config, source_vocabulary=1009, target_vocabulary=1009)
assert all(parameter.is_meta for parameter in network.parameters())
sys.exit("it is there" if "sympy" in sys.modules else 0)
"""


def test_a_blueprint_is_drawn_without_pytorch_s_symbolic_half():
    answer = subprocess.run([sys.executable, "-c", BLUEPRINT], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
