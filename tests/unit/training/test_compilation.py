"""Compiled models: one graph for all shapes, with the same values and gradients."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from dragoman.errors import ConfigError
from dragoman.nn.recurrent.ssru import SSRU
from dragoman.training.step import compile_model
from tests.torch_compile_models import NETWORKS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


def test_models_compile_whole_and_once_for_all_shapes():
    """PyTorch's tracer runs without its code generator, which needs a C++ compiler."""
    answer = subprocess.run(
        [sys.executable, "-m", "tests.torch_compile_models"], cwd=ROOT, capture_output=True, text=True, timeout=250
    )
    assert answer.returncode == 0, answer.stderr
    apart = json.loads(answer.stdout)
    assert apart.keys() == NETWORKS.keys()
    assert max(apart.values()) < 1e-5


class Entered(nn.Module):
    """Model called by `hidden`, or by `forward`."""

    def forward(self, x):
        return x + 1


def test_forward_methods_are_compiled(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, **_: ("compiled", function.__name__))
    classifier, reader = Entered(), Entered()
    reader.hidden = reader.forward
    for network in (classifier, reader):
        compile_model(network, device=torch.device("cuda"))
    assert classifier.forward == reader.hidden == ("compiled", "forward")
    assert reader(1) == 2


def test_ssru_is_refused():
    with pytest.raises(ConfigError, match=r"does not support model\.decoder_layer = ssru; leave one of them out"):
        compile_model(SSRU(size=3), device=torch.device("cuda"))


def test_cuda_graphs_use_reduce_overhead(monkeypatch):
    asked = []
    monkeypatch.setattr(torch, "compile", lambda _, **how: asked.append(how))
    compile_model(Entered(), device=torch.device("cuda"))
    compile_model(Entered(), device=torch.device("cuda"), mode="cuda_graphs")
    assert asked == [{"dynamic": True}, {"mode": "reduce-overhead"}]


@pytest.mark.parametrize(
    ("asked", "device", "message"),
    [
        (True, "cpu", "compile = true needs a GPU"),
        ("cuda_graphs", "cpu", "compile = cuda_graphs needs a GPU"),
        ("cuda_graphs", "mps", "compile = cuda_graphs needs CUDA, and the device is mps"),
    ],
)
def test_unsupported_device_is_an_error(asked, device, message):
    with pytest.raises(ConfigError, match=message):
        compile_model(Entered(), device=torch.device(device), mode=asked)
