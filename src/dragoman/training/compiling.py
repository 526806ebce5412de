"""The network as few kernels that fuse its operations: `torch.compile` of what objectives enter it by.

For GPUs. On a CPU what dropout takes follows from each example, by code that a compiler does not see through.
"""

from typing import Final

import torch
from torch import nn

from dragoman.errors import ConfigError

ENTRANCES: Final = ("hidden", "before_unembedding")
"""The methods by which objectives enter a network; one that has none of them is entered by `forward`."""


def require_compilable(device: torch.device) -> None:
    """Raises ConfigError on a CPU."""
    if device.type == "cpu":
        raise ConfigError("training.compile = true is for GPUs; set it to false on a CPU")


def compile_network(model: nn.Module, *, device: torch.device) -> None:
    """Have every entrance compiled when it is first entered, once for all shapes. Raises as above."""
    require_compilable(device)
    for name in [name for name in ENTRANCES if hasattr(model, name)] or ["forward"]:
        setattr(model, name, torch.compile(getattr(model, name), dynamic=True))
