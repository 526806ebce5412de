"""What a compiler of networks makes of ours: one piece for all shapes, with the same values and gradients."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from dragoman.errors import ConfigError
from dragoman.training.step import compile_model
from tests.torch_compile_models import NETWORKS

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_networks_are_compiled_whole_and_once_for_all_shapes():
    """By PyTorch's tracer, without its code generator, which needs a compiler of C++."""
    answer = subprocess.run(
        [sys.executable, "-m", "tests.torch_compile_models"], cwd=ROOT, capture_output=True, text=True, timeout=250
    )
    assert answer.returncode == 0, answer.stderr
    apart = json.loads(answer.stdout)
    assert apart.keys() == NETWORKS.keys()
    assert max(apart.values()) < 1e-5


class Entered(nn.Module):
    """A network that is entered by `hidden`, or by `forward` alone."""

    def forward(self, x):
        return x + 1


def test_what_is_entered_is_what_is_compiled(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, **_: ("compiled", function.__name__))
    classifier, reader = Entered(), Entered()
    reader.hidden = reader.forward
    for network in (classifier, reader):
        compile_model(network, device=torch.device("cuda"))
    assert classifier.forward == reader.hidden == ("compiled", "forward")
    assert reader(1) == 2


def test_as_graphs_launches_are_recorded(monkeypatch):
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
def test_what_a_device_cannot_do_is_refused(asked, device, message):
    with pytest.raises(ConfigError, match=message):
        compile_model(Entered(), device=torch.device(device), mode=asked)
