r"""What each head is worth: heads left out one by one, or all asked at once by a gradient (Michel et al., 2019).

A gate $\xi_h$ stands before the output projection of an attention, $\sum_h \xi_h\,\mathrm{head}_h W^O_h$: 1 leaves a
head as it is, 0 leaves it out. Gates are hooks for the time of a block; the network itself knows nothing of them.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from dragoman.errors import DataError
from dragoman.interpret.recorder import Kind, attentions_of
from dragoman.nn.attention import MultiHeadAttention
from dragoman.typing import Float

Gates = dict[Kind, Float[Tensor, "layers heads"]]
"""A number for each head of each layer, by the kind of attention."""


def multi_headed(model: nn.Module) -> Iterator[tuple[Kind, int, MultiHeadAttention]]:
    """The attentions with heads: their kinds, layers and themselves. Recurrent networks have none."""
    for kind, layer, attention in attentions_of(model):
        if isinstance(attention, MultiHeadAttention):
            yield kind, layer, attention


def heads_of(attention: MultiHeadAttention) -> int:
    return attention.output.weight.shape[1] // attention.head_size


def heads_by_kind(model: nn.Module) -> dict[Kind, list[int]]:
    """How many heads each layer has."""
    counts: dict[Kind, list[int]] = {}
    for kind, _, attention in multi_headed(model):
        counts.setdefault(kind, []).append(heads_of(attention))
    return counts


def alike_in_heads(model: nn.Module) -> bool:
    """Whether there are heads, and as many in every layer of a kind: what gates are for."""
    counts = heads_by_kind(model)
    return bool(counts) and all(len(set(heads)) == 1 for heads in counts.values())


def open_gates(model: nn.Module) -> Gates:
    """Gates that change nothing. Raises DataError where the network has no heads, or not as many in every layer."""
    counts = heads_by_kind(model)
    if not counts:
        raise DataError("this network has no attention heads that could be left out; give a Transformer")
    if not alike_in_heads(model):
        raise DataError(f"some layers have fewer heads than others, as after pruning ({counts}); ask the whole network")
    device = next(model.parameters()).device
    return {kind: torch.ones(len(heads), heads[0], device=device) for kind, heads in counts.items()}


@contextmanager
def gated(model: nn.Module, gates: Mapping[Kind, Float[Tensor, "layers heads"]]) -> Iterator[None]:
    """Inside the block every head is multiplied by its gate; kinds without gates are left alone."""
    with ExitStack() as hooks:
        for kind, layer, attention in multi_headed(model):
            if kind in gates:
                gate = gates[kind][layer].repeat_interleave(attention.head_size)
                hooks.callback(attention.output.register_forward_pre_hook(partial(_multiplied, gate)).remove)
        yield


@contextmanager
def without_head(model: nn.Module, kind: Kind, layer: int, head: int) -> Iterator[None]:
    """Inside the block one head, counted from 0, gives nothing."""
    gates = open_gates(model)
    gates[kind][layer, head] = 0.0
    with gated(model, gates):
        yield


def ablation(model: nn.Module, judge: Callable[[], float]) -> Gates:
    """How much what `judge` returns changes when each head is left out: below zero where the head was of use.

    `judge` uses the network as it is, for example to translate a test set and return its BLEU.
    """
    changes = open_gates(model)
    whole = judge()
    for kind, table in changes.items():
        for layer, head in torch.cartesian_prod(*map(torch.arange, table.shape)).tolist():
            with without_head(model, kind, layer, head):
                table[layer, head] = judge() - whole
    return changes


def sensitivity(model: nn.Module, losses: Iterator[Float[Tensor, " rows"]]) -> Gates:
    r"""$\mathbb{E}\,\lvert \partial \mathcal{L} / \partial \xi_h \rvert$ at $\xi = 1$ (Michel et al., 2019, eq. 2).

    What the loss of one row would change for a small change of the gate: each row of a batch has gates of its own,
    since the slopes of different rows cancel one another where training has ended. The `losses` are those of all rows
    of a batch, each by one parallel pass, and are computed one by one while the gates stand. As in the paper, the
    numbers of a layer are divided by their Euclidean norm, since layers differ in scale.
    """
    totals = {kind: torch.zeros_like(gate) for kind, gate in open_gates(model).items()}
    gates: dict[tuple[Kind, int], Float[Tensor, "rows heads"]] = {}
    with torch.enable_grad(), ExitStack() as hooks:
        for kind, layer, attention in multi_headed(model):
            opened = partial(_gated_by_row, gates, (kind, layer), attention.head_size)
            hooks.callback(attention.output.register_forward_pre_hook(opened).remove)
        for loss in losses:
            slopes = torch.autograd.grad(loss.sum(), list(gates.values()))
            for (kind, layer), slope in zip(gates, slopes, strict=True):
                totals[kind][layer] += slope.abs().sum(dim=0)
            gates.clear()
    return {kind: total / total.norm(dim=1, keepdim=True).clamp(min=1e-12) for kind, total in totals.items()}


def _gated_by_row(
    gates: dict[tuple[Kind, int], Float[Tensor, "rows heads"]],
    place: tuple[Kind, int],
    head_size: int,
    projection: nn.Module,
    arguments: tuple[Any, ...],
) -> tuple[Any, ...]:
    """A forward pre-hook that leaves open gates, one for each row and head, where they are asked for slopes."""
    rows, _, width = arguments[0].shape
    gates[place] = arguments[0].new_ones(rows, width // head_size).requires_grad_()
    return _multiplied(gates[place].repeat_interleave(head_size, dim=1)[:, None], projection, arguments)


def _multiplied(
    gate: Float[Tensor, "*#rows size"],
    projection: nn.Module,  # noqa: ARG001
    arguments: tuple[Any, ...],
) -> tuple[Any, ...]:
    """A forward pre-hook: what the output projection is given."""
    return (arguments[0] * gate, *arguments[1:])
