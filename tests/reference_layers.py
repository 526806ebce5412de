"""The equations of a Transformer written out one after another: slow twins of the modules that hold its parameters."""

import math

import torch
from torch import Tensor, nn

from dragoman.nn.attention import MultiHeadAttention
from dragoman.nn.feed_forward import FeedForward


def linear(layer: nn.Linear, x: Tensor) -> Tensor:
    """$W x + b$."""
    product = torch.einsum("...i,oi->...o", x, layer.weight)
    return product if layer.bias is None else product + layer.bias


def normalised(norm: nn.Module, x: Tensor) -> Tensor:
    """Zero mean and unit variance along the last axis, then scale and shift; without mean and shift for RMSNorm."""
    if isinstance(norm, nn.Identity):
        return x
    if isinstance(norm, nn.RMSNorm):
        return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * norm.weight
    assert isinstance(norm, nn.LayerNorm)
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * norm.weight + norm.bias


def heads_attended(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor) -> Tensor:
    """$softmax(q k / \\sqrt{d_k}) v$ for one row, head and query after another, over the list of allowed keys."""
    query, key, value = query.detach(), key.detach(), value.detach()
    rows, heads, queries, head_size = query.shape
    groups = heads // key.shape[1]
    allowed = allowed.expand(rows, heads, queries, key.shape[2])
    output = query.new_zeros(rows, heads, queries, value.shape[3])
    for row in range(rows):
        for head in range(heads):
            for place in range(queries):
                seen = allowed[row, head, place].nonzero()[:, 0].tolist()
                scores = [key[row, head // groups, other] @ query[row, head, place] for other in seen]
                exponentials = [math.exp(float(one) / math.sqrt(head_size)) for one in scores]
                for other, exponential in zip(seen, exponentials, strict=True):
                    share = exponential / math.fsum(exponentials)
                    output[row, head, place] += share * value[row, head // groups, other]
    return output


def attention(layer: MultiHeadAttention, x: Tensor, seen: Tensor, allowed: Tensor) -> Tensor:
    """Heads side by side in the width of the projections, attended, concatenated and projected."""

    def split(projected: Tensor) -> Tensor:
        return torch.stack(projected.split(layer.head_size, dim=-1), dim=1)

    query, key, value = (
        split(linear(layer.query, x)),
        split(linear(layer.key, seen)),
        split(linear(layer.value, seen)),
    )
    attended = heads_attended(query, key, value, allowed)
    return linear(layer.output, torch.cat(list(attended.unbind(dim=1)), dim=-1))


def activated(x: Tensor, name: str) -> Tensor:
    """ReLU max(0, x), GELU x Phi(x), SiLU x / (1 + exp(-x))."""
    match name:
        case "relu":
            return x * (x > 0)
        case "gelu":
            return x * (1 + torch.erf(x / math.sqrt(2))) / 2
        case "silu":
            return x / (1 + torch.exp(-x))
        case _:
            raise AssertionError(name)


def feed_forward(layer: FeedForward, x: Tensor) -> Tensor:
    """$W_2 f(W_1 x)$, times the gate $W_3 x$ before the second map where there is one."""
    hidden = activated(linear(layer.inner, x), layer.activation)
    if layer.gate is not None:
        hidden = hidden * linear(layer.gate, x)
    return linear(layer.outer, hidden)
