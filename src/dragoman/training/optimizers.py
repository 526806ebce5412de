"""The rule of an update: Adam (Kingma and Ba, 2015), AdamW (Loshchilov and Hutter, 2019) or Muon (Jordan, 2024)."""

from collections.abc import Mapping
from typing import Annotated, Literal, assert_never

import torch
from pydantic import Field
from torch import Tensor, nn

from dragoman.config import Config
from dragoman.errors import RunError
from dragoman.models.weights import placed_like
from dragoman.nn.embedding_tables import tables
from dragoman.training import adam
from dragoman.training.distributed import ALONE, Team
from dragoman.training.muon import MuonWithAdamW, hidden_matrices

Rate = Annotated[float, Field(gt=0.0, description="peak of the learning rate")]
Beta = Annotated[float, Field(ge=0.0, lt=1.0)]
Betas = Annotated[tuple[Beta, Beta], Field(description="decay of the averages of gradient and squared gradient")]
Epsilon = Annotated[float, Field(gt=0.0, description="added to the root of the squared gradient")]


class Adam(Config):
    """Adam; the second moment's decay of 0.98 is the Transformer's."""

    kind: Literal["adam"] = "adam"
    learning_rate: Rate = 0.001
    betas: Betas = (0.9, 0.98)
    epsilon: Epsilon = 1e-9


class AdamW(Config):
    """Adam with decoupled weight decay on matrices; biases, norms, embeddings and other tables do not decay."""

    kind: Literal["adamw"] = "adamw"
    learning_rate: Rate = 0.001
    betas: Betas = (0.9, 0.98)
    epsilon: Epsilon = 1e-9
    weight_decay: float = Field(0.01, ge=0.0, description="decay of matrices, times the learning rate")


class Muon(Config):
    """Muon for the matrices between hidden states; for embeddings, unembedding and vectors AdamW without decay."""

    kind: Literal["muon"] = "muon"
    learning_rate: Rate = 0.001
    momentum: float = Field(0.95, ge=0.0, lt=1.0, description="decay of the sum of gradients that is made orthogonal")
    weight_decay: float = Field(0.01, ge=0.0, description="decay of matrices, times the learning rate")
    betas: Betas = (0.9, 0.98)
    epsilon: Epsilon = 1e-9


OptimiserConfig = Annotated[Adam | AdamW | Muon, Field(discriminator="kind")]
Optimiser = torch.optim.Adam | torch.optim.AdamW | MuonWithAdamW


def build_optimiser(
    config: OptimiserConfig, model: nn.Module, *, products: torch.dtype = torch.float32, team: Team = ALONE
) -> Optimiser:
    """The optimiser of all parameters of `model`, fused where the device can.

    `products` is the number format of Muon's iteration, whose matrices are shared out among the team.
    """
    adam.keep_the_compiler_out()
    match config:
        case Adam():
            return adam.Adam(
                model.parameters(), lr=config.learning_rate, betas=config.betas, eps=config.epsilon, fused=True
            )
        case AdamW():
            return adam.AdamW(
                _decay_groups(model, config.weight_decay),
                lr=config.learning_rate,
                betas=config.betas,
                eps=config.epsilon,
                fused=True,
            )
        case Muon():
            matrices = hidden_matrices(model)
            chosen = {id(matrix) for matrix in matrices}
            return MuonWithAdamW(
                matrices,
                [parameter for parameter in model.parameters() if id(parameter) not in chosen],
                lr=config.learning_rate,
                momentum=config.momentum,
                weight_decay=config.weight_decay,
                betas=config.betas,
                eps=config.epsilon,
                products=products,
                team=team,
            )
        case _:
            assert_never(config)


def set_learning_rate(optimiser: Optimiser, rate: float) -> None:
    for group in optimiser.param_groups:
        group["lr"] = rate


def optimiser_tensors(optimiser: Optimiser, model: nn.Module) -> dict[str, Tensor]:
    """The optimiser's memory of every parameter by name, empty before the first update."""
    return {
        f"{name}/{part}": value
        for name, parameter in model.named_parameters()
        for part, value in optimiser.state.get(parameter, {}).items()
    }


def restore_optimiser(optimiser: Optimiser, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """The inverse of `optimiser_tensors`. Raises RunError where the memory is not of what is learnt by Muon now."""
    optimiser.state.clear()
    for name, parameter in model.named_parameters():
        prefix = f"{name}/"
        parts = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
        if parts:
            optimiser.state[parameter] = {
                part: value.to(parameter.device, copy=True) if part == "step" else placed_like(value, parameter).clone()
                for part, value in parts.items()
            }
    for group in optimiser.param_groups if isinstance(optimiser, MuonWithAdamW) else ():
        needed = "momentum" if group["muon"] else "step"
        if any(needed not in optimiser.state.get(parameter, {needed: None}) for parameter in group["params"]):
            raise RunError(
                "the checkpoint was written by a version that learnt other parameters by Muon; train anew with this one"
            )


def _decay_groups(model: nn.Module, decay: float) -> list[dict[str, object]]:
    looked_up = tables(model)
    decayed = [p for p in model.parameters() if p.ndim >= 2 and id(p) not in looked_up]
    chosen = {id(p) for p in decayed}
    rest = [p for p in model.parameters() if id(p) not in chosen]
    return [{"params": decayed, "weight_decay": decay}, {"params": rest, "weight_decay": 0.0}]
