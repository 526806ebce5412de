"""Slow reference implementations of the Transformer's equations."""

import math

import torch
from torch import Tensor, nn

from dragoman.nn.attention import MultiHeadAttention
from dragoman.nn.feed_forward import FeedForward
from dragoman.nn.recurrent.cells import CellState, CellWeights, cell_step, project_input
from dragoman.nn.recurrent.encoder import RecurrentEncoderLayer


def linear(layer: nn.Linear, x: Tensor) -> Tensor:
    """Return $W x + b$."""
    product = torch.einsum("...i,oi->...o", x, layer.weight)
    return product if layer.bias is None else product + layer.bias


def normalized(norm: nn.Module, x: Tensor) -> Tensor:
    """Normalize the last axis to zero mean and unit variance, scale and shift; RMSNorm has no mean and no shift."""
    if isinstance(norm, nn.Identity):
        return x
    if isinstance(norm, nn.RMSNorm):
        return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * norm.weight
    assert isinstance(norm, nn.LayerNorm)
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * norm.weight + norm.bias


def attend_heads(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor) -> Tensor:
    r"""Return $softmax(q k / \sqrt{d_k}) v$ for each row, head and query over its list of allowed keys."""
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
    """Project the inputs, attend with each head, concatenate the heads and project the result."""

    def split(projected: Tensor) -> Tensor:
        return torch.stack(projected.split(layer.head_size, dim=-1), dim=1)

    query, key, value = (
        split(linear(layer.query, x)),
        split(linear(layer.key, seen)),
        split(linear(layer.value, seen)),
    )
    attended = attend_heads(query, key, value, allowed)
    return linear(layer.output, torch.cat(list(attended.unbind(dim=1)), dim=-1))


def activate(x: Tensor, name: str) -> Tensor:
    """Apply ReLU max(0, x), GELU x Phi(x) or SiLU x / (1 + exp(-x))."""
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
    """Return $W_2 f(W_1 x)$, with the gate $W_3 x$ as a factor before the second map if there is one."""
    hidden = activate(linear(layer.inner, x), layer.activation)
    if layer.gate is not None:
        hidden = hidden * linear(layer.gate, x)
    return linear(layer.outer, hidden)


def bidirectional_reference(layer: RecurrentEncoderLayer, x: Tensor, lengths: Tensor) -> tuple[Tensor, CellState]:
    """Compute the output of the layer position by position."""
    forward, last = _run(layer, x, lengths, reverse=False)
    backward, first = _run(layer, x, lengths, reverse=True)
    states = torch.cat([forward, backward], dim=2)
    return states, tuple(torch.cat(both, dim=1) for both in zip(last, first, strict=True))


def _run(layer: RecurrentEncoderLayer, x: Tensor, lengths: Tensor, *, reverse: bool) -> tuple[Tensor, CellState]:
    """Run one direction; padding does not change the state."""
    weights = CellWeights.of(layer.layer, reverse=reverse)
    zeros = x.new_zeros(x.shape[0], weights.hidden.shape[1])
    state: CellState = (zeros, zeros) if layer.cell == "lstm" else (zeros,)
    gate_inputs = project_input(layer.cell, weights, x)
    columns = [zeros] * x.shape[1]
    for position in reversed(range(x.shape[1])) if reverse else range(x.shape[1]):
        real = (position < lengths)[:, None]
        new = cell_step(layer.cell, weights, gate_inputs[:, position], state)
        state = tuple(part.where(real, old) for part, old in zip(new, state, strict=True))
        columns[position] = state[0].where(real, zeros)
    return torch.stack(columns, dim=1), state
