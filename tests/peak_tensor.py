"""The largest memory that a tensor of a computation takes."""

from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


class Largest(TorchDispatchMode):
    """Inside, `bytes` is the largest storage of what any operation returned, those of backward included.

    A view counts as what it looks at.
    """

    bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for one in made if isinstance(made, tuple | list) else [made]:
            if isinstance(one, Tensor):
                self.bytes = max(self.bytes, one.untyped_storage().nbytes())
        return made
