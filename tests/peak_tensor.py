"""Measure the largest tensor memory of a computation."""

from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


class PeakTensor(TorchDispatchMode):
    """Context whose `bytes` is the largest storage that any operation returns, backward included.

    A view counts as the storage it refers to.
    """

    bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for one in made if isinstance(made, tuple | list) else [made]:
            if isinstance(one, Tensor):
                self.bytes = max(self.bytes, one.untyped_storage().nbytes())
        return made
