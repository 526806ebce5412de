r"""Low-rank adapters (LoRA; Hu et al., 2021): of a trained matrix only a small change is learnt.

$W' = W + \frac{\alpha}{r} B A$ with $A$ of $r$ rows and $B$ of $r$ columns (equation 3). $B$ begins with zeros, so that
nothing has changed before the first update, and in the end the change is added to the matrix, so that using the network
costs what it did.
"""

import math
from collections.abc import Mapping
from typing import Literal, final

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.nn.utils import parametrize

from dragoman.config import Config
from dragoman.errors import ConfigError
from dragoman.typing import Float

LoraTarget = Literal["query", "key", "value", "output", "inner", "gate", "outer"]
"""Linear maps by their names in attention and feed-forward layers."""


class LoraConfig(Config):
    """Small changes to some matrices, of low rank, are all that is learnt (LoRA, Hu et al., 2021)."""

    kind: Literal["lora"] = "lora"
    rank: PositiveInt = Field(8, description="rank of the change of a matrix")
    alpha: float = Field(16.0, gt=0.0, description="the change is multiplied by alpha / rank")
    targets: tuple[LoraTarget, ...] = Field(
        ("query", "value"), min_length=1, description="which maps of attention and feed-forward layers change"
    )


@final
class LowRankUpdate(nn.Module):
    r"""$W + \frac{\alpha}{r} B A$."""

    def __init__(self, *, outputs: int, inputs: int, rank: int, alpha: float) -> None:
        super().__init__()
        self.scale = alpha / rank
        self.down = nn.Parameter(torch.randn(rank, inputs) / math.sqrt(rank))
        self.up = nn.Parameter(torch.zeros(outputs, rank))

    def forward(self, weight: Float[Tensor, "outputs inputs"]) -> Float[Tensor, "outputs inputs"]:
        return add_low_rank(weight, self.up, self.down, scale=self.scale)


def add_low_rank(
    weight: Float[Tensor, "outputs inputs"],
    up: Float[Tensor, "outputs rank"],
    down: Float[Tensor, "rank inputs"],
    *,
    scale: float,
) -> Float[Tensor, "outputs inputs"]:
    """The equation above."""
    return weight + scale * (up @ down)


def apply_lora(model: nn.Module, config: LoraConfig) -> None:
    """Freeze the weights of `model`, and give each map that is named in `targets` a change to learn.

    The changes are drawn from the ambient generator. Raises ConfigError where the network has no such map.
    """
    model.requires_grad_(False)
    chosen = [
        module
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and name.rpartition(".")[2] in config.targets
    ]
    if not chosen:
        raise ConfigError(
            f"training.lora.targets = {', '.join(config.targets)}: the network has no such map; name others, or "
            "leave training.lora out to learn all weights"
        )
    for linear in chosen:
        change = LowRankUpdate(
            outputs=linear.out_features, inputs=linear.in_features, rank=config.rank, alpha=config.alpha
        ).to(linear.weight.device)
        parametrize.register_parametrization(linear, "weight", change)


def merge_lora(tensors: Mapping[str, Tensor], config: LoraConfig) -> dict[str, Tensor]:
    """The weights of an adapted network as those of a plain one, every change added to its matrix."""
    whole = {}
    for name, tensor in tensors.items():
        place, found, part = name.partition(".parametrizations.weight.")
        if not found:
            whole[name] = tensor
        elif part == "original":
            beside = f"{place}{found}0."
            up, down = tensors[f"{beside}up"], tensors[f"{beside}down"]
            whole[f"{place}.weight"] = add_low_rank(tensor, up, down, scale=config.alpha / config.rank)
    return whole
