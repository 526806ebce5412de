"""Attributes of a model of CTranslate2: tensors without dimensions, and texts as tensors of int8."""

from collections.abc import Collection, Mapping
from typing import final

import torch
from torch import Tensor

from dragoman.errors import DataError, shorten
from dragoman.interop.ctranslate2.model_keys import attribute_table
from dragoman.interop.ctranslate2.quantization import SCALE
from dragoman.interop.key_table import Computed, check_keys

_MAX_TEXT = 1000
"""Bytes of a text: the name of a token."""


@final
class Attributes:
    """Attributes by name, which remember what was read, so that none is overlooked."""

    def __init__(self, tensors: Mapping[str, Tensor], *, where: str, allow_unused: Collection[str] = ()) -> None:
        """Collect the attributes. Raises ConfigError if one is unknown or has a value that is refused."""
        scales = {name + SCALE for name in tensors}
        self._tensors = {name: tensor for name, tensor in tensors.items() if tensor.dim() == 0 and name not in scales}
        self.names = frozenset(self._tensors)
        self._table = attribute_table(self.names)
        self._where = where
        values = {name: tensor.item() for name, tensor in self._tensors.items()}
        check_keys(values, self._table, where=f"{where}: ", allow_unused=allow_unused)
        self._tensors = {name: tensor for name, tensor in self._tensors.items() if name not in allow_unused}

    def number(self, name: str, default: float) -> float:
        """Return a number and forget it. Raises DataError if it is not finite."""
        tensor = self._tensors.pop(name, None)
        value = default if tensor is None else float(tensor)
        if value != value or abs(value) == float("inf"):
            raise DataError(f"{self._where}: {shorten(name)} is not a number")
        return value

    def integer(self, name: str, default: int) -> int:
        """Return an integer and forget it. Raises DataError if it has a fraction."""
        value = self.number(name, float(default))
        if value != int(value):
            raise DataError(f"{self._where}: {shorten(name)} = {value:g} is no integer")
        return int(value)

    def flag(self, name: str, *, default: bool) -> bool:
        """Return a truth value and forget it."""
        return bool(self.integer(name, int(default)))

    def scale(self, name: str, size: int, *, default: bool) -> bool:
        r"""Return whether a factor is $\sqrt{size}$, and forget it: a truth value, or the factor itself.

        Raises DataError if it is neither that nor 1.
        """
        tensor = self._tensors.get(name)
        if tensor is None or tensor.dtype == torch.int8:
            return self.flag(name, default=default)
        value = self.number(name, 1.0)
        if abs(value - size**0.5) < 1e-4 * size**0.5:
            return True
        if value != 1:
            raise DataError(f"{self._where}: {shorten(name)} = {value:g}, and 1 or the root of {size} are supported")
        return False

    def check_all_read(self) -> None:
        """Raise DataError if an attribute was not read: it belongs to a part that the model does not have."""
        if left := [name for name in self._tensors if isinstance(self._table.get(name), Computed)]:
            name = min(left)
            raise DataError(
                f"{self._where}: {shorten(name)} = {float(self._tensors[name]):g} belongs to a part that the model "
                "does not have, so the model would compute something else. Convert the model again."
            )


def read_text(tensors: Mapping[str, Tensor], name: str) -> str | None:
    """Return an attribute that is a text; None without it. Raises ValueError if it is not UTF-8 or too long."""
    tensor = tensors.get(name)
    if tensor is None:
        return None
    if tensor.dtype != torch.int8 or tensor.dim() > 1 or tensor.numel() > _MAX_TEXT:
        raise ValueError(f"{name} is no text")
    return bytes(tensor.view(torch.uint8).reshape(-1).tolist()).decode()
