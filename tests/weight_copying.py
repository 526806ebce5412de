"""Weights of partners into our networks, and partners with random weights everywhere, norms and biases too."""

from typing import Any, TypeVar

import torch
from torch import Tensor, nn

M = TypeVar("M", bound=nn.Module)


def stirred(make: type[M], config: Any, *, seed: int = 7) -> M:
    """A partner's network in evaluation mode whose weights are all random."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = make(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.2 * torch.randn_like(parameter))
    return model


@torch.no_grad()
def copy_same(theirs: nn.Module, own: nn.Module) -> None:
    """Parameters of the same names."""
    own.load_state_dict(theirs.state_dict())


@torch.no_grad()
def copy_linear(weight: Tensor, bias: Tensor | None, own: nn.Linear) -> None:
    """A map whose rows are its outputs."""
    own.weight.copy_(weight)
    assert (own.bias is None) == (bias is None)
    if bias is not None:
        own.bias.copy_(bias)
