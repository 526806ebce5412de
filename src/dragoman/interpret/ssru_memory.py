r"""Memory of an SSRU: the positions that its cells still hold, as weights like those of attention.

A cell is a weighted mean of its inputs: position $s$ has the weight $(1 - f_s) \prod_{r=s+1}^{t} f_r$ in the cell after
position $t$, where $f$ are the forget gates of its feature. The zero before the first position has the rest.
"""

from typing import Final

import torch
from torch import Tensor

from dragoman.array_types import Float
from dragoman.nn.recurrent.ssru import SSRU, Cells

GROUPS: Final = 8
"""Number of groups of features, which take the place of heads."""


def memory_weights(ssru: SSRU, x: Cells) -> Float[Tensor, "rows groups queries positions"]:
    """Return the weight of each position in the cells after each position, averaged over groups of features.

    The features of each row are sorted by their mean forget gate, from the shortest memory to the longest: the gates
    depend on the text more than on their biases. `x` are the inputs of the SSRU, from the first position on.
    """
    forget = ssru.gates(x)
    order = forget.mean(dim=1, keepdim=True).argsort(dim=-1, stable=True)
    forget = forget.gather(2, order.expand_as(forget))
    groups = min(GROUPS, forget.shape[-1])
    held = torch.zeros_like(forget)
    columns = []
    for position in range(x.shape[1]):
        held = held * forget[:, [position]]
        held[:, position] = 1 - forget[:, position]
        columns.append(torch.stack([group.mean(dim=-1) for group in held.tensor_split(groups, dim=-1)], dim=1))
    return torch.stack(columns, dim=2)
