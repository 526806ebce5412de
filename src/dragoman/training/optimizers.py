"""Optimizers: Adam (Kingma and Ba, 2015), AdamW (Loshchilov and Hutter, 2019) and Muon (Jordan, 2024).

PyTorch's optimizers import its compiler when they are built and at every step, only to disable it. That import takes
over a second and 60 MB, so the methods are called unwrapped here.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Final, Literal, assert_never

import torch
from pydantic import Field
from torch import Tensor, nn

from dragoman.config import Config
from dragoman.errors import RunError
from dragoman.models.weights import place_like
from dragoman.nn.embedding import lookup_parameters
from dragoman.training.distributed import SINGLE_WORKER, WorkerGroup
from dragoman.training.muon import Betas, Epsilon, LearningRate, MuonConfig, MuonWithAdamW, hidden_matrices


class AdamConfig(Config):
    """Adam, with the second decay rate of the Transformer, 0.98."""

    kind: Literal["adam"] = "adam"
    learning_rate: LearningRate = 0.001
    betas: Betas = (0.9, 0.98)
    epsilon: Epsilon = 1e-9


class AdamWConfig(Config):
    """Adam with decoupled weight decay of matrices; biases, norms, embeddings and other tables do not decay."""

    kind: Literal["adamw"] = "adamw"
    learning_rate: LearningRate = 0.001
    betas: Betas = (0.9, 0.98)
    epsilon: Epsilon = 1e-9
    weight_decay: float = Field(0.01, ge=0.0, description="weight decay of matrices, times the learning rate")


OptimizerConfig = Annotated[AdamConfig | AdamWConfig | MuonConfig, Field(discriminator="kind")]
Optimizer = torch.optim.Adam | torch.optim.AdamW | MuonWithAdamW

_ADAM_STEP: Final = inspect.unwrap(torch.optim.Adam.step)
"""Step of Adam and of AdamW, without the wrapper that imports the compiler."""


class _Adam(torch.optim.Adam):
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        return _ADAM_STEP(self, closure)


class _AdamW(torch.optim.AdamW):
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        return _ADAM_STEP(self, closure)


def build_optimizer(
    config: OptimizerConfig,
    model: nn.Module,
    *,
    matmul_dtype: torch.dtype = torch.float32,
    workers: WorkerGroup = SINGLE_WORKER,
) -> Optimizer:
    """Build the optimizer of all parameters of a model, fused where the device supports it.

    `matmul_dtype` is the number format of Muon's iteration, whose matrices are distributed over the workers.
    """
    bypass_compiler()
    lr, betas, eps = config.learning_rate, config.betas, config.epsilon
    match config:
        case AdamConfig():
            return _Adam(model.parameters(), lr=lr, betas=betas, eps=eps, fused=True)
        case AdamWConfig():
            return _AdamW(_decay_groups(model, config.weight_decay), lr=lr, betas=betas, eps=eps, fused=True)
        case MuonConfig():
            matrices = hidden_matrices(model)
            rest = [{"params": _others(model, matrices)}]
            adamw = _AdamW(rest, lr=lr, betas=betas, eps=eps, weight_decay=0.0, fused=True)
            return MuonWithAdamW(matrices, adamw, config, matmul_dtype=matmul_dtype, workers=workers)
        case _:
            assert_never(config)


def set_learning_rate(optimizer: Optimizer, learning_rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = learning_rate


def optimizer_tensors(optimizer: Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """Return the state of every parameter by name; empty before the first step."""
    return {
        f"{name}/{part}": value
        for name, parameter in model.named_parameters()
        for part, value in optimizer.state.get(parameter, {}).items()
    }


def restore_optimizer(optimizer: Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Restore the state that `optimizer_tensors` returned. Raises RunError if Muon trained other parameters then."""
    optimizer.state.clear()
    for name, parameter in model.named_parameters():
        prefix = f"{name}/"
        parts = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
        if parts:
            optimizer.state[parameter] = {
                part: value.to(parameter.device, copy=True) if part == "step" else place_like(value, parameter).clone()
                for part, value in parts.items()
            }
    if not isinstance(optimizer, MuonWithAdamW):
        return
    for group, needed in zip(optimizer.param_groups, ("momentum", "step"), strict=True):
        if any(needed not in optimizer.state.get(parameter, {needed: None}) for parameter in group["params"]):
            raise RunError(
                "the checkpoint is from a version that trained other parameters with Muon; train again with this one"
            )


def bypass_compiler() -> None:
    """Make the methods of PyTorch's optimizers skip the import of the compiler.

    Their wrappers read the attribute set here before they import it (`torch/_compile.py`). A version of PyTorch that
    does not read it imports the compiler as before.
    """
    methods = torch.optim.Optimizer
    for method in (methods.add_param_group, methods.zero_grad, methods.state_dict, methods.load_state_dict):
        unwrapped = inspect.unwrap(method)
        if unwrapped is not method:
            unwrapped.__dynamo_disable = unwrapped


def _decay_groups(model: nn.Module, decay: float) -> list[dict[str, object]]:
    table_ids = lookup_parameters(model)
    decayed = [parameter for parameter in model.parameters() if parameter.ndim >= 2 and id(parameter) not in table_ids]
    return [{"params": decayed, "weight_decay": decay}, {"params": _others(model, decayed), "weight_decay": 0.0}]


def _others(model: nn.Module, parameters: list[nn.Parameter]) -> list[nn.Parameter]:
    ids = {id(parameter) for parameter in parameters}
    return [parameter for parameter in model.parameters() if id(parameter) not in ids]
