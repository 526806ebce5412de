"""The network as few kernels that fuse its operations: `torch.compile` of what objectives enter it by.

For GPUs. On a CPU what dropout takes follows from each example, by code that a compiler does not see through.

As graphs, what a batch of one shape launches is also recorded once and replayed in one go (CUDA graphs), which spares
the time between kernels where they are short. Each shape has a recording of its own, with memory of its own: this is
for tasks whose batches have few shapes, as those of running text have.
"""

from typing import Final

import torch
from torch import nn

from dragoman.errors import ConfigError
from dragoman.training.config import Compilation

ENTRANCES: Final = ("hidden", "before_unembedding")
"""The methods by which objectives enter a network; one that has none of them is entered by `forward`."""


def require_compilable(device: torch.device, *, asked: Compilation = True) -> None:
    """Raises ConfigError where the device cannot do what is asked for: a CPU nothing, others than CUDA no graphs."""
    said = "graphs" if asked == "graphs" else "true"
    if device.type == "cpu":
        raise ConfigError(f"training.compile = {said} is for GPUs; set it to false on a CPU")
    if asked == "graphs" and device.type != "cuda":
        raise ConfigError(f"training.compile = graphs is for CUDA, and the device is {device.type}; set it to true")


def compile_network(model: nn.Module, *, device: torch.device, asked: Compilation = True) -> None:
    """Have every entrance compiled when it is first entered, once for all shapes. Raises as above.

    As graphs, shapes are compiled one by one until PyTorch sees that they vary.
    """
    require_compilable(device, asked=asked)
    how = {"mode": "reduce-overhead"} if asked == "graphs" else {"dynamic": True}
    for name in [name for name in ENTRANCES if hasattr(model, name)] or ["forward"]:
        setattr(model, name, torch.compile(getattr(model, name), **how))
