"""Adam without the import of the compiler, with the same numbers as PyTorch."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from dragoman.training.optimizers import _Adam, _AdamW

ALONE = """
import sys, torch
from torch import nn
from dragoman.training.optimizers import (
    AdamConfig, AdamWConfig, MuonConfig, build_optimizer, optimizer_tensors, restore_optimizer
)
model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
for config in (AdamConfig(), AdamWConfig(), MuonConfig()):
    optimizer = build_optimizer(config, model)
    optimizer.zero_grad(set_to_none=True)
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    restore_optimizer(optimizer, model, optimizer_tensors(optimizer, model))
sys.exit(" ".join(name for name in ("torch._dynamo", "torch._inductor", "sympy") if name in sys.modules) or 0)
"""


@pytest.mark.parametrize(("ours", "theirs"), [(_Adam, torch.optim.Adam), (_AdamW, torch.optim.AdamW)])
def test_adam_steps_equal_those_of_pytorch(ours, theirs):
    networks = []
    for optimizer in (ours, theirs):
        torch.manual_seed(3)
        network = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 2))
        rule = optimizer(network.parameters(), lr=0.01, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.1, fused=True)
        for _ in range(20):
            rule.zero_grad()
            network(torch.randn(11, 5)).square().sum().backward()
            rule.step()
        networks.append(network)
    for one, other in zip(*(network.parameters() for network in networks), strict=True):
        assert torch.equal(one, other)


def test_no_optimizer_imports_the_compiler():
    answer = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
