r"""Multi-head attention (Vaswani et al., 2017, section 3.2.2).

$\mathrm{head}_i = \mathrm{Attention}(QW_i^Q, KW_i^K, VW_i^V)$,
$\mathrm{MultiHead} = \mathrm{Concat}(\mathrm{head}_1, \dots, \mathrm{head}_h) W^O$. With fewer key-value heads than
query heads, each serves a group of query heads (Ainslie et al., 2023).
"""

from typing import final

from jaxtyping import Float
from torch import Tensor, nn

from dragoman.nn.attend import Allowed, attend, attend_fused
from dragoman.nn.cache import KeysValues


@final
class MultiHeadAttention(nn.Module):
    """Queries from one sequence, keys and values from another or the same one.

    Projecting keys and values is a call of its own, so that those of a source sentence or of past positions are
    computed once.
    """

    def __init__(self, *, size: int, heads: int, key_value_heads: int, bias: bool, dropout: float) -> None:
        super().__init__()
        self.head_size = size // heads
        self.dropout = dropout
        self.query = nn.Linear(size, size, bias=bias)
        self.key = nn.Linear(size, key_value_heads * self.head_size, bias=bias)
        self.value = nn.Linear(size, key_value_heads * self.head_size, bias=bias)
        self.output = nn.Linear(size, size, bias=bias)

    def keys_values(self, x: Float[Tensor, "rows positions size"]) -> KeysValues:
        """What others may look at and take."""
        return KeysValues(self._split(self.key(x)), self._split(self.value(x)))

    def forward(
        self, x: Float[Tensor, "rows queries size"], seen: KeysValues, allowed: Allowed | None
    ) -> Float[Tensor, "rows queries size"]:
        query = self._split(self.query(x))
        if self.training and self.dropout:
            attended = attend(query, seen.keys, seen.values, allowed=allowed, drop=self.dropout)
        else:
            attended = attend_fused(query, seen.keys, seen.values, allowed=allowed)
        return self.output(attended.transpose(1, 2).flatten(2))

    def _split(self, x: Float[Tensor, "rows positions width"]) -> Float[Tensor, "rows heads positions head_size"]:
        return x.unflatten(2, (-1, self.head_size)).transpose(1, 2)
