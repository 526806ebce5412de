"""How long a training takes at most, from what a token costs and what the device can do."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from dragoman.profiling.model_cost import count_flops
from dragoman.runs.folder import RunFolder
from dragoman.tasks.base import TaskData
from dragoman.tasks.config import Experiment
from dragoman.tasks.factory import build_task
from dragoman.training.config import TrainingConfig
from dragoman.training.r_drop import RDropConfig

EFFICIENCY = 0.35
"""Share of the measured speed of large products that a training reaches here."""


DRAWING: Final = frozenset((nn.init.normal_, nn.init.uniform_, Tensor.normal_, Tensor.uniform_))


class _NothingDrawn(TorchFunctionMode):
    """Inside, tensors that are to be filled by drawing are left as they are.

    Where a tensor has no numbers, PyTorch would load its symbolic half, 800 modules, in order to fill it with none.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if func in DRAWING:
            return args[0] if args else given["tensor"]
        return func(*args, **given)


def estimate(experiment: Experiment, folder: RunFolder, materials: TaskData, *, device: torch.device) -> float:
    """The seconds of a whole training on these materials."""
    model = blueprint(experiment, folder)
    return passes_of(experiment) * estimate_seconds(
        experiment.training, model, tokens=materials.tokens_per_epoch, device=device
    )


def passes_of(experiment: Experiment) -> int:
    """How often every example goes through the network in an update."""
    return 2 if isinstance(getattr(experiment.training, "loss", None), RDropConfig) else 1


def blueprint(experiment: Experiment, folder: RunFolder) -> nn.Module:
    """The network without numbers, for who looks at its shapes only."""
    with torch.device("meta"), _NothingDrawn():
        return build_task(experiment).build_model(folder, device=torch.device("meta"))


def estimate_seconds(config: TrainingConfig, model: nn.Module, *, tokens: int, device: torch.device) -> float:
    """The same of a network, which may be without numbers; `tokens` are those of an epoch."""
    return config.total_tokens(tokens) * training_flops(model) / _speed(device)


def training_flops(model: nn.Module) -> float:
    """Floating-point operations of training for each token: those of the forward pass, and twice as many backward."""
    return 3.0 * sum(count_flops(model).values())


def _speed(device: torch.device, *, seconds: float = 0.2) -> float:
    """Operations a second in training, measured on a product of a size that trainings have."""
    a, b = torch.randn(2048, 512, device=device), torch.randn(512, 2048, device=device)
    torch.mm(a, b)
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        float(torch.mm(a, b)[0, 0])
        count += 1
    return EFFICIENCY * count * 2 * 2048 * 512 * 2048 / (time.perf_counter() - began)
