r"""Low-rank adaptation (LoRA; Hu et al., 2021): only a low-rank change of some matrices is trained.

$W' = W + \frac{\alpha}{r} B A$, where $A$ has $r$ rows and $B$ has $r$ columns (eq. 3). $B$ starts at zero, so the
model is unchanged before the first update. After training the change is merged into the matrix.
"""

import math
from collections.abc import Mapping
from typing import Literal, final

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.nn.utils import parametrize

from dragoman.array_types import Float
from dragoman.config import Config
from dragoman.errors import ConfigError

LoraTarget = Literal["query", "key", "value", "output", "inner", "gate", "outer", "input", "forget_gate"]
"""Linear maps by their names in attention and feed-forward layers, and in SSRUs (`input` and `forget_gate`)."""


class LoraConfig(Config):
    """Train low-rank changes of some matrices and freeze everything else (LoRA; Hu et al., 2021)."""

    kind: Literal["lora"] = "lora"
    rank: PositiveInt = Field(default=8, description="rank of the change of each matrix")
    alpha: float = Field(default=16.0, gt=0.0, description="the change is multiplied by alpha / rank")
    targets: tuple[LoraTarget, ...] = Field(
        default=("query", "value"),
        min_length=1,
        description="adapted linear maps of attention and feed-forward layers, and of SSRUs (input, forget_gate)",
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
    """Compute the equation above."""
    return weight + scale * (up @ down)


def apply_lora(model: nn.Module, config: LoraConfig) -> None:
    """Freeze the weights of `model` and add a trainable change to each linear map named in `targets`.

    Draws from the ambient generator. Raises ConfigError if the model has no such map.
    """
    model.requires_grad_(False)
    chosen = [
        module
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and name.rpartition(".")[2] in config.targets
    ]
    if not chosen:
        raise ConfigError(
            f"training.lora.targets = {', '.join(config.targets)}: the model has no such linear map; choose others, or "
            "leave training.lora out to train all weights"
        )
    for linear in chosen:
        change = LowRankUpdate(
            outputs=linear.out_features, inputs=linear.in_features, rank=config.rank, alpha=config.alpha
        ).to(linear.weight.device)
        parametrize.register_parametrization(linear, "weight", change)


def merge_lora(tensors: Mapping[str, Tensor], config: LoraConfig) -> dict[str, Tensor]:
    """Return the weights of an adapted model with every change added to its matrix."""
    merged = {}
    for name, tensor in tensors.items():
        prefix, found, part = name.partition(".parametrizations.weight.")
        if not found:
            merged[name] = tensor
        elif part == "original":
            up, down = tensors[f"{prefix}{found}0.up"], tensors[f"{prefix}{found}0.down"]
            merged[f"{prefix}.weight"] = add_low_rank(tensor, up, down, scale=config.alpha / config.rank)
    return merged
