"""PyTorch's Adam and AdamW, without its compiler.

An optimiser of PyTorch loads the compiler when it is told of its parameters and at each step, only in order to have it
keep out: two thousand modules, for over a second of every start and 60 MB. Here the same methods are called without.
"""

import inspect
from collections.abc import Callable
from typing import Final

import torch

_STEP: Final = inspect.unwrap(torch.optim.Adam.step)
"""Of both, as it is written down."""


class Adam(torch.optim.Adam):
    """Kingma and Ba (2015)."""

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        return _STEP(self, closure)


class AdamW(torch.optim.AdamW):
    """Loshchilov and Hutter (2019)."""

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        return _STEP(self, closure)


def keep_the_compiler_out() -> None:
    """Have the other methods of PyTorch's optimisers called as they are written down, also where nothing is compiled.

    They look for what is to be called at a place that they fill by the compiler where it is empty
    (`torch/_compile.py`). A version of PyTorch that does not look there loads it as before.
    """
    own = torch.optim.Optimizer
    for method in (own.add_param_group, own.zero_grad, own.state_dict, own.load_state_dict):
        written = inspect.unwrap(method)
        if written is not method:
            written.__dynamo_disable = written
