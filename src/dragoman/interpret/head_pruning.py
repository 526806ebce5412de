"""Heads taken out for good: which of them, the smaller configuration, and the weights that are left."""

from collections.abc import Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from dragoman.config import merge, parse
from dragoman.errors import ConfigError
from dragoman.interpret.attention_heads import Gates, multi_headed
from dragoman.interpret.recorder import Kind
from dragoman.models.config import DecoderOnlyConfig, EncoderDecoderConfig, EncoderOnlyConfig, KeptHeads
from dragoman.models.weights import get_weights
from dragoman.nn.attention import MultiHeadAttention

C = TypeVar("C", EncoderDecoderConfig, DecoderOnlyConfig, EncoderOnlyConfig)
Left = Mapping[Kind, KeptHeads]
"""The heads that are left, by the kind of attention."""
ROLES: Mapping[Kind, str] = {"encoder": "encoder", "masked": "decoder", "cross": "cross"}
"""What the kinds are called in the configuration of an encoder-decoder Transformer."""


def best_heads(worth: Gates, *, share: float, group: int = 1) -> Left:
    """The heads that are left when the `share` worth least is taken away; every attention keeps its best one.

    Of `group` heads that share their keys and values, all stay or none; a group is worth what its heads are together.
    Raises ConfigError where the share leaves nothing to do, or nothing.
    """
    if not 0 < share < 1:
        raise ConfigError(f"heads = {share} is no share that can be taken away; choose more than 0 and less than 1")
    worth = {kind: table.unflatten(1, (-1, group)).sum(dim=2) for kind, table in worth.items()}
    ranked = sorted(
        (float(value), kind, layer, head)
        for kind, table in worth.items()
        for (layer, head), value in zip(_places(table), table.flatten().tolist(), strict=True)
    )
    best = {(kind, layer, int(row.argmax())) for kind, table in worth.items() for layer, row in enumerate(table)}
    if len(best) == len(ranked):
        what = "head" if group == 1 else f"group of {group} heads that share keys and values"
        raise ConfigError(f"every attention has one {what}, which it keeps; there is nothing to take away")
    less = [place for _, *place in ranked if tuple(place) not in best][: round(share * len(ranked))]
    if not less:
        what = "heads" if group == 1 else f"groups of {group} heads"
        raise ConfigError(f"heads = {share} takes none of {len(ranked)} {what} away; choose a greater share")
    gone = {tuple(place) for place in less}
    return {
        kind: tuple(
            tuple(head for head in range(group * table.shape[1]) if (kind, layer, head // group) not in gone)
            for layer in range(table.shape[0])
        )
        for kind, table in worth.items()
    }


def pruned_config(config: C, left: Left) -> C:
    """The configuration with these heads alone. Raises ConfigError where they cannot be taken apart."""
    if isinstance(config, EncoderDecoderConfig):
        changed = {"attention": {ROLES[kind]: {"kept_heads": list(map(list, kept))} for kind, kept in left.items()}}
    else:
        (kept,) = left.values()
        changed = {"attention": {"kept_heads": list(map(list, kept))}}
    tree = merge(config.model_dump(mode="json"), changed)
    return parse(type(config), tree, where="prune")


def pruned_weights(model: nn.Module, left: Left) -> dict[str, Tensor]:
    """The weights of a network without the heads that are not left, by the names of the smaller network.

    It computes what the whole network does with those heads left out.
    """
    tensors = get_weights(model)
    names = {module: name for name, module in model.named_modules()}
    for kind, layer, attention in multi_headed(model):
        heads = torch.tensor(left[kind][layer])
        for name, tensor in _sliced(attention, heads).items():
            tensors[f"{names[attention]}.{name}"] = tensor
    return tensors


def _sliced(attention: MultiHeadAttention, heads: Tensor) -> dict[str, Tensor]:
    """The parameters of an attention that has these of its heads."""
    own: dict[str, Any] = {name: parameter.detach().cpu() for name, parameter in attention.named_parameters()}
    count, key_count = (own[f"{name}.weight"].shape[0] // attention.head_size for name in ("query", "key"))
    of_keys = (heads // (count // key_count)).unique()
    sliced = {"output.weight": own["output.weight"][:, _numbers_of(heads, attention.head_size)]}
    for name, some in (("query", heads), ("key", of_keys), ("value", of_keys)):
        for part in (f"{name}.weight", f"{name}.bias"):
            if part in own:
                sliced[part] = own[part][_numbers_of(some, attention.head_size)]
    for name, tensor in own.items():
        if name.startswith("score."):
            assert tensor.shape[0] in (count, key_count), "scores have a row a head, of queries or of keys"
            sliced[name] = tensor[heads if tensor.shape[0] == count else of_keys]
    return sliced


def _numbers_of(heads: Tensor, head_size: int) -> Tensor:
    """The places of what these heads hold, side by side."""
    return (heads[:, None] * head_size + torch.arange(head_size)).flatten()


def _places(table: Tensor) -> list[tuple[int, int]]:
    return [(layer, head) for layer in range(table.shape[0]) for head in range(table.shape[1])]
