r"""Scaled dot-product attention, $\mathrm{softmax}(QK^\top / \sqrt{d_k})\,V$ (Vaswani et al., 2017, eq. 1).

`attend` is the equation as it is written. `attend_fused` is the fast road: PyTorch's fused kernels, which never hold
the weights. The two agree by law.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from dragoman.nn.dropout import dropout

Queries = Float[Tensor, "rows heads queries head_size"]
Keys = Float[Tensor, "rows key_value_heads keys head_size"]
Values = Float[Tensor, "rows key_value_heads keys value_size"]
Logits = Float[Tensor, "rows heads queries keys"]
Allowed = Bool[Tensor, "#rows #heads #queries keys"]
Attended = Float[Tensor, "rows heads queries value_size"]


def score(query: Queries, key: Float[Tensor, "rows heads keys head_size"]) -> Logits:
    r"""$q^\top k / \sqrt{d_k}$ for every query and key."""
    return query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])


def weigh(logits: Logits, allowed: Allowed | None) -> Logits:
    """Softmax over the allowed keys, exactly zero elsewhere; a query that may see nothing receives zeros."""
    if allowed is None:
        return logits.softmax(dim=-1)
    lowest = torch.finfo(logits.dtype).min
    weights = logits.masked_fill(~allowed, lowest).softmax(dim=-1)
    return weights * allowed.any(dim=-1, keepdim=True)


def attend(query: Queries, key: Keys, value: Values, *, allowed: Allowed | None = None, drop: float = 0.0) -> Attended:
    """The reference road; `drop` is the dropout on the weights (0 outside training)."""
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
    return dropout(weigh(score(query, key), allowed), drop) @ value


def attend_fused(query: Queries, key: Keys, value: Values, *, allowed: Allowed | None = None) -> Attended:
    """The fast road: the same values without ever holding the weights."""
    grouped = query.shape[1] != key.shape[1]
    return F.scaled_dot_product_attention(query, key, value, attn_mask=allowed, enable_gqa=grouped)
