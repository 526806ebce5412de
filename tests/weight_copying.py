"""Copy the weights of peer models into ours, and give peers random weights everywhere, norms and biases included."""

from typing import Any, TypeVar

import torch
from torch import Tensor, nn

M = TypeVar("M", bound=nn.Module)


def randomized(make: type[M], config: Any, *, seed: int = 7) -> M:
    """Return a peer's model in evaluation mode whose weights are all random."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = make(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.2 * torch.randn_like(parameter))
    return model


@torch.no_grad()
def copy_same(theirs: nn.Module, own: nn.Module) -> None:
    """Copy parameters of the same names."""
    own.load_state_dict(theirs.state_dict())


@torch.no_grad()
def copy_linear(weight: Tensor, bias: Tensor | None, own: nn.Linear) -> None:
    """Copy a linear map whose rows are its outputs."""
    own.weight.copy_(weight)
    assert (own.bias is None) == (bias is None)
    if bias is not None:
        own.bias.copy_(bias)
