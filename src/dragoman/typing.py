"""Annotations of arrays by kind and axes, `Float[Tensor, "batch size"]`, as jaxtyping reads them.

The test suite imports jaxtyping first, which has every call checked. Elsewhere such an annotation is the type of the
array alone: to import jaxtyping, and to build a class for each annotation, takes a tenth of the start of a command.
"""

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or "jaxtyping" in sys.modules:
    from jaxtyping import Bool as Bool
    from jaxtyping import Float as Float
    from jaxtyping import Float32 as Float32
    from jaxtyping import Int as Int
    from jaxtyping import Int8 as Int8
    from jaxtyping import Shaped as Shaped
    from jaxtyping import UInt16 as UInt16
else:

    class Shaped:
        """An array of any kind of numbers."""

        def __class_getitem__(cls, array_and_axes: tuple[Any, str]) -> Any:
            return array_and_axes[0]

    Bool = Float = Float32 = Int = Int8 = UInt16 = Shaped
