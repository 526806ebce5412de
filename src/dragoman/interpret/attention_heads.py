r"""Attention heads: statistics, importance, and pruning.

A gate $\xi_h$ multiplies each head before the output projection, $\sum_h \xi_h\,\mathrm{head}_h W^O_h$
(Michel et al., 2019): 1 keeps a head, 0 removes it. Gates are forward hooks that exist for the time of a block.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from dragoman.array_types import Bool, Float
from dragoman.config import parse
from dragoman.config_trees import merge
from dragoman.errors import ConfigError, DataError
from dragoman.interpret.attention_recorder import AttentionKind, AttentionMaps, attention_modules
from dragoman.models.config import DecoderOnlyConfig, EncoderDecoderConfig, EncoderOnlyConfig, KeptHeads
from dragoman.models.weight_storage import get_weights
from dragoman.nn.attention import MultiHeadAttention

_C = TypeVar("_C", EncoderDecoderConfig, DecoderOnlyConfig, EncoderOnlyConfig)
PerHead = Float[Tensor, "layers heads"]
HeadValues = dict[AttentionKind, PerHead]
"""A number per head, by kind of attention."""
RemainingHeads = Mapping[AttentionKind, KeptHeads]
CONFIG_ROLES: Mapping[AttentionKind, str] = {"encoder": "encoder", "masked": "decoder", "cross": "cross"}
"""Keys of `model.attention` in the configuration of an encoder-decoder model."""


@dataclass(frozen=True, slots=True)
class HeadStatistics:
    """Statistics of one head for one sentence: means over the queries that attend to anything."""

    kind: AttentionKind
    layer: int
    head: int
    entropy: float
    """In nats: 0 for one key, $\\ln n$ for $n$ equal weights."""
    distance: float | None
    """Mean distance to the keys in positions; None for cross-attention."""
    on_punctuation: float
    """Weight on punctuation."""
    on_eos: float
    """Weight on the end symbol."""


def head_statistics(
    kind: AttentionKind, weights: AttentionMaps, *, punctuation: Bool[Tensor, " keys"], eos: Bool[Tensor, " keys"]
) -> list[HeadStatistics]:
    """Compute the statistics of all heads; `punctuation` and `eos` mark keys."""
    columns = [entropy(weights), distance(weights), weight_on(weights, punctuation), weight_on(weights, eos)]
    return [
        HeadStatistics(kind, layer, head, spread, None if kind == "cross" else far, on_punctuation, on_eos)
        for layer, rows in enumerate(zip(*(column.tolist() for column in columns), strict=True))
        for head, (spread, far, on_punctuation, on_eos) in enumerate(zip(*rows, strict=True))
    ]


def entropy(weights: AttentionMaps) -> PerHead:
    r"""Return $-\sum_j a_{ij} \ln a_{ij}$ in nats, averaged over queries."""
    return _mean_over_queries(torch.special.entr(weights).sum(dim=-1), weights)


def distance(weights: AttentionMaps) -> PerHead:
    r"""Return $\sum_j a_{ij} \lvert i - j \rvert$ in positions, averaged over queries."""
    queries, keys = weights.shape[2:]
    distances = (torch.arange(keys) - torch.arange(queries)[:, None]).abs()
    return _mean_over_queries((weights * distances).sum(dim=-1), weights)


def weight_on(weights: AttentionMaps, keys: Bool[Tensor, " keys"]) -> PerHead:
    """Return the total weight on some keys, averaged over queries."""
    return _mean_over_queries((weights * keys).sum(dim=-1), weights)


def rollout(weights: AttentionMaps) -> Float[Tensor, "layers queries keys"]:
    r"""Compute attention rollout (Abnar and Zuidema, 2020, section 3) of self-attention.

    $\tilde A_l = \tfrac12 (\bar A_l + I)\,\tilde A_{l-1}$ with the mean over heads $\bar A_l$: one half of a layer's
    output comes from attention, the other half from the residual connection.
    """
    identity = torch.eye(weights.shape[3])
    mixed, layers = identity, []
    for layer in mean_over_heads(weights):
        mixed = (layer + identity) / 2 @ mixed
        layers.append(mixed)
    return torch.stack(layers)


def mean_over_heads(weights: AttentionMaps) -> Float[Tensor, "layers queries keys"]:
    """Average over the heads of each layer, without pruned heads, whose weights are zero."""
    present = (weights.sum(dim=(2, 3)) > 0).sum(dim=1).clamp(min=1)
    return weights.sum(dim=1) / present[:, None, None]


def is_punctuation(tokens: Sequence[str]) -> Bool[Tensor, " tokens"]:
    """Mark tokens without letters and digits, except special symbols such as `<eos>`."""
    special = [len(token) > 2 and token[0] == "<" and token[-1] == ">" for token in tokens]
    return torch.tensor([not (one or any(map(str.isalnum, token))) for one, token in zip(special, tokens, strict=True)])


def _mean_over_queries(values: Float[Tensor, "layers heads queries"], weights: AttentionMaps) -> PerHead:
    attending = weights.sum(dim=-1) > 0
    return (values * attending).sum(dim=-1) / attending.sum(dim=-1).clamp(min=1)


def multi_head_attentions(model: nn.Module) -> Iterator[tuple[AttentionKind, int, MultiHeadAttention]]:
    """Yield kind, layer and module of each multi-head attention; recurrent models have none."""
    for kind, layer, attention in attention_modules(model):
        if isinstance(attention, MultiHeadAttention):
            yield kind, layer, attention


def count_heads(model: nn.Module) -> dict[AttentionKind, list[int]]:
    """Return the number of heads of each layer."""
    counts: dict[AttentionKind, list[int]] = {}
    for kind, _, attention in multi_head_attentions(model):
        counts.setdefault(kind, []).append(attention.output.weight.shape[1] // attention.head_size)
    return counts


def has_uniform_heads(model: nn.Module) -> bool:
    """Return whether the model has heads, the same number in every layer of a kind, as gates require."""
    counts = count_heads(model)
    return bool(counts) and all(len(set(heads)) == 1 for heads in counts.values())


def open_gates(model: nn.Module) -> HeadValues:
    """Return gates that keep all heads. Raises DataError if there are no heads, or layers differ in their number."""
    counts = count_heads(model)
    if not counts:
        raise DataError("The model has no attention heads. Give a Transformer.")
    if not has_uniform_heads(model):
        raise DataError(f"Layers have different numbers of heads ({counts}), as after pruning. Give an unpruned model.")
    device = next(model.parameters()).device
    return {kind: torch.ones(len(heads), heads[0], device=device) for kind, heads in counts.items()}


@contextmanager
def apply_gates(model: nn.Module, gates: Mapping[AttentionKind, PerHead]) -> Iterator[None]:
    """Multiply every head by its gate inside the block; kinds without gates stay unchanged."""
    with ExitStack() as hooks:
        for kind, layer, attention in multi_head_attentions(model):
            if kind in gates:
                gate = gates[kind][layer].repeat_interleave(attention.head_size)
                hooks.enter_context(attention.output.register_forward_pre_hook(partial(_multiply_input, gate)))
        yield


@contextmanager
def without_head(model: nn.Module, kind: AttentionKind, layer: int, head: int) -> Iterator[None]:
    """Remove one head, numbered from 0, inside the block."""
    gates = open_gates(model)
    gates[kind][layer, head] = 0.0
    with apply_gates(model, gates):
        yield


def head_ablation(model: nn.Module, metric: Callable[[], float]) -> HeadValues:
    """Return the change of a metric without each head: negative if the head helps.

    `metric` uses the model as it is, for example to translate a test set and compute BLEU.
    """
    changes = open_gates(model)
    baseline = metric()
    for kind, table in changes.items():
        for layer, head in torch.cartesian_prod(*map(torch.arange, table.shape)).tolist():
            with without_head(model, kind, layer, head):
                table[layer, head] = metric() - baseline
    return changes


def head_importance(model: nn.Module, losses: Iterator[Float[Tensor, " rows"]]) -> HeadValues:
    r"""Compute $\mathbb{E}\,\lvert \partial \mathcal{L} / \partial \xi_h \rvert$ at $\xi = 1$.

    This is equation 2 of Michel et al. (2019). Each row of a batch has its own gates, because gradients of different
    rows cancel at the end of training. `losses` yields the losses of the rows of one batch after the other, each
    computed by one parallel pass while it is iterated. As in the paper, the values of a layer are divided by their
    Euclidean norm.
    """
    totals = {kind: torch.zeros_like(gate) for kind, gate in open_gates(model).items()}
    gates: dict[tuple[AttentionKind, int], Float[Tensor, "rows heads"]] = {}

    def open_row_gates(
        key: tuple[AttentionKind, int], head_size: int, projection: nn.Module, arguments: tuple[Any, ...]
    ) -> Any:
        rows, _positions, width = arguments[0].shape
        gates[key] = arguments[0].new_ones(rows, width // head_size).requires_grad_()
        return _multiply_input(gates[key].repeat_interleave(head_size, dim=1)[:, None], projection, arguments)

    with torch.enable_grad(), ExitStack() as hooks:
        for kind, layer, attention in multi_head_attentions(model):
            hook = partial(open_row_gates, (kind, layer), attention.head_size)
            hooks.enter_context(attention.output.register_forward_pre_hook(hook))
        for loss in losses:
            gradients = torch.autograd.grad(loss.sum(), list(gates.values()))
            for (kind, layer), gradient in zip(gates, gradients, strict=True):
                totals[kind][layer] += gradient.abs().sum(dim=0)
            gates.clear()
    return {kind: total / total.norm(dim=1, keepdim=True).clamp(min=1e-12) for kind, total in totals.items()}


def _multiply_input(
    gate: Float[Tensor, "*#rows size"],
    projection: nn.Module,  # noqa: ARG001
    arguments: tuple[Any, ...],
) -> tuple[Any, ...]:
    """Forward pre-hook of the output projection."""
    return (arguments[0] * gate, *arguments[1:])


def select_heads(importance: HeadValues, *, share: float, group: int = 1) -> RemainingHeads:
    """Return the heads that remain without the `share` of least importance; every attention keeps its best head.

    The `group` heads that share keys and values stay or go together, by the sum of their importance. Raises ConfigError
    if the share is invalid or removes nothing.
    """
    if not 0 < share < 1:
        raise ConfigError(f"heads = {share} is not a valid share. Choose a number between 0 and 1.")
    grouped = {kind: table.unflatten(1, (-1, group)).sum(dim=2) for kind, table in importance.items()}
    ranked = sorted(
        (value, kind, layer, head)
        for kind, table in grouped.items()
        for layer, row in enumerate(table.tolist())
        for head, value in enumerate(row)
    )
    best = {(kind, layer, int(row.argmax())) for kind, table in grouped.items() for layer, row in enumerate(table)}
    if len(best) == len(ranked):
        unit = "head" if group == 1 else f"group of {group} heads that share keys and values"
        raise ConfigError(f"Every attention has one {unit}, which it keeps. There is nothing to prune.")
    removable = [key for _, *key in ranked if tuple(key) not in best]
    removed = {tuple(key) for key in removable[: round(share * len(ranked))]}
    if not removed:
        units = "heads" if group == 1 else f"groups of {group} heads"
        raise ConfigError(f"heads = {share} removes none of {len(ranked)} {units}. Choose a larger share.")
    return {
        kind: tuple(
            tuple(head for head in range(group * table.shape[1]) if (kind, layer, head // group) not in removed)
            for layer in range(table.shape[0])
        )
        for kind, table in grouped.items()
    }


def pruned_config(config: _C, remaining: RemainingHeads) -> _C:
    """Return the model configuration with the remaining heads. Raises ConfigError if groups would be split."""
    lists = {kind: {"kept_heads": list(map(list, heads))} for kind, heads in remaining.items()}
    if isinstance(config, EncoderDecoderConfig):
        changed: dict[str, Any] = {CONFIG_ROLES[kind]: heads for kind, heads in lists.items()}
    else:
        (changed,) = lists.values()
    return parse(type(config), merge(config.model_dump(mode="json"), {"attention": changed}), where="prune")


def pruned_weights(model: nn.Module, remaining: RemainingHeads) -> dict[str, Tensor]:
    """Return the weights of the pruned model, which computes what the model computes without the other heads."""
    tensors = get_weights(model)
    names = {module: name for name, module in model.named_modules()}
    for kind, layer, attention in multi_head_attentions(model):
        heads = torch.tensor(remaining[kind][layer])
        tensors |= {f"{names[attention]}.{name}": tensor for name, tensor in _prune(attention, heads).items()}
    return tensors


def _prune(attention: MultiHeadAttention, heads: Tensor) -> dict[str, Tensor]:
    """Return the parameters of an attention module that depend on its heads, for the remaining heads."""
    own: dict[str, Any] = {name: parameter.detach().cpu() for name, parameter in attention.named_parameters()}
    count, kv_count = (own[f"{name}.weight"].shape[0] // attention.head_size for name in ("query", "key"))
    kv_heads = (heads // (count // kv_count)).unique()
    pruned = {"output.weight": own["output.weight"][:, _features(heads, attention.head_size)]}
    for name, kept in (("query", heads), ("key", kv_heads), ("value", kv_heads)):
        for part in (f"{name}.weight", f"{name}.bias"):
            if part in own:
                pruned[part] = own[part][_features(kept, attention.head_size)]
    for name, tensor in own.items():
        if name.startswith("score."):
            assert tensor.shape[0] in (count, kv_count), "scores have one row per query head or key head"
            pruned[name] = tensor[heads if tensor.shape[0] == count else kv_heads]
    return pruned


def _features(heads: Tensor, head_size: int) -> Tensor:
    """Return the indexes of the features of some heads."""
    return (heads[:, None] * head_size + torch.arange(head_size)).flatten()
