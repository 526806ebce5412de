"""A network as its users have it: without gradients and without dropout."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def in_use(model: object) -> Iterator[None]:
    """Inside, no gradients and no dropout; a network in training goes on training afterwards."""
    module = model if isinstance(model, nn.Module) and model.training else None
    with torch.inference_mode():
        if module is not None:
            module.eval()
        try:
            yield
        finally:
            if module is not None:
                module.train()
