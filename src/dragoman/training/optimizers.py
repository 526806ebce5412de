r"""Optimizers: Adam (Kingma and Ba, 2015), AdamW (Loshchilov and Hutter, 2019) and Muon (Jordan et al., 2024).

Muon is momentum whose matrix is orthogonalized before each step. The momentum $M$ of a matrix is replaced by the
nearest semi-orthogonal matrix, $U V^\top$ of $M = U S V^\top$, so that all directions are learned equally fast, rare
ones too. The Newton-Schulz iteration approximates it by matrix products alone. AdamW trains the other parameters:
vectors, embeddings and the output layer. An orthogonal step is scaled by $0.2 \sqrt{\max(n, m)}$ (Liu et al., 2025,
equation 4), which makes its elements about as large as AdamW's, so that one learning rate serves both.

PyTorch's optimizers import its compiler when they are built and at every step, only to disable it. That import takes
over a second and 60 MB, so the methods are called unwrapped here.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal, assert_never, final

import torch
from pydantic import Field
from torch import Tensor, nn

from dragoman.array_types import Float
from dragoman.config import Config
from dragoman.errors import RunError, shorten
from dragoman.models.task_heads import Head
from dragoman.models.weight_storage import place_like
from dragoman.nn.embedding import Unembedding, lookup_parameters
from dragoman.training.distributed import SINGLE_WORKER, WorkerGroup, full_tensor, is_shard, shard_like

LearningRate = Annotated[float, Field(gt=0.0, description="peak learning rate")]
Beta = Annotated[float, Field(ge=0.0, lt=1.0)]
Betas = Annotated[
    tuple[Beta, Beta], Field(description="decay rates of the moving averages of gradient and squared gradient")
]
Epsilon = Annotated[float, Field(gt=0.0, description="added to the root of the squared gradient")]


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
    weight_decay: float = Field(default=0.01, ge=0.0, description="weight decay of matrices, times the learning rate")


class MuonConfig(Config):
    """Muon for matrices between hidden states; AdamW without decay for embeddings, output layer and vectors."""

    kind: Literal["muon"] = "muon"
    learning_rate: LearningRate = 0.001
    momentum: float = Field(default=0.95, ge=0.0, lt=1.0, description="decay rate of the momentum")
    weight_decay: float = Field(default=0.01, ge=0.0, description="weight decay of matrices, times the learning rate")
    betas: Betas = (0.9, 0.98)
    epsilon: Epsilon = 1e-9


OptimizerConfig = Annotated[AdamConfig | AdamWConfig | MuonConfig, Field(discriminator="kind")]
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


COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Coefficients of the iteration: singular values converge to about 1, and small ones grow by 3.4445 each time."""
_ADAM_PARTS = {"step", "exp_avg", "exp_avg_sq"}
_MUON_PARTS = {"momentum"}
_ITERATIONS = 5
ADAMW_RMS = 0.2
"""Typical root mean square of an AdamW step, in learning rates."""

Matrices = Float[Tensor, "*count rows columns"]


def orthogonalize(
    matrices: Matrices, *, steps: int = _ITERATIONS, matmul_dtype: torch.dtype = torch.float32
) -> Matrices:
    r"""Approximate $U V^\top$: from $X = M / \|M\|_F$, repeat $X \leftarrow a X + b (XX^\top) X + c (XX^\top)^2 X$.

    Singular values end between 0.7 and 1.2, except those close to 0; a matrix of zeros stays zero. `matmul_dtype` is
    the number format of the iteration, for which bfloat16 is precise enough.
    """
    a, b, c = COEFFICIENTS
    wide = matrices.shape[-2] <= matrices.shape[-1]
    x = matrices if wide else matrices.mT
    x = (x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)).to(matmul_dtype).view(-1, *x.shape[-2:])
    for _ in range(steps):
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)  # sums within products
    x = x.view_as(matrices if wide else matrices.mT).to(matrices.dtype)
    return x if wide else x.mT


def hidden_matrices(model: nn.Module) -> list[nn.Parameter]:
    """Return the matrices between hidden states, in order: all but embedding tables and the output layers of heads.

    The stacked matrices of an attention score count as matrices.
    """
    others = lookup_parameters(model)
    for module in model.modules():
        if isinstance(module, Unembedding):
            others.add(id(module.weight))
        elif isinstance(module, Head):
            others.add(id(module.output.weight))
    return [parameter for parameter in model.parameters() if parameter.ndim >= 2 and id(parameter) not in others]


@final
class MuonWithAdamW(torch.optim.Optimizer):
    """Muon for `matrices`; `adamw` (Loshchilov and Hutter, 2019) for the other parameters, with one learning rate."""

    def __init__(
        self,
        matrices: list[nn.Parameter],
        adamw: torch.optim.Optimizer,
        config: MuonConfig,
        *,
        matmul_dtype: torch.dtype = torch.float32,
        workers: WorkerGroup = SINGLE_WORKER,
    ) -> None:
        """`matmul_dtype` is the number format of the iteration, whose matrices are distributed over `workers`."""
        self.adamw, self.config, self.matmul_dtype, self.workers = adamw, config, matmul_dtype, workers
        super().__init__([{"params": matrices}, *adamw.param_groups], {"lr": config.learning_rate})
        self.state = adamw.state

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update all parameters that have a gradient."""
        assert closure is None, "the loss is computed before the step"
        self._muon_step(self.param_groups[0])
        self.adamw.step()

    def _muon_step(self, group: dict[str, Any]) -> None:
        """Orthogonalize the Nesterov momentum of all matrices of the same shape at once, and step.

        A sharded matrix is gathered by every worker, one at a time. No parameter changes before all workers have
        finished, so that a lost worker leaves the whole step undone.
        """
        by_shape: dict[object, list[nn.Parameter]] = {}
        for parameter in (one for one in group["params"] if one.grad is not None):
            by_shape.setdefault(parameter if is_shard(parameter) else parameter.shape, []).append(parameter)
        decay, steps = self.config.momentum, list[tuple[nn.Parameter, Tensor]]()
        for same_shape in by_shape.values():
            nesterov = [full_tensor(_accumulate(one.grad, self._momentum(one, decay), decay)) for one in same_shape]
            orthogonal = self._orthogonalize(torch.stack(nesterov))
            steps += [(one, shard_like(step, one)) for one, step in zip(same_shape, orthogonal, strict=True)]
        for parameter, step in steps:
            self.state[parameter]["momentum"] = self._momentum(parameter, decay)
            parameter.mul_(1 - group["lr"] * self.config.weight_decay)
            parameter.add_(step, alpha=-group["lr"] * ADAMW_RMS * math.sqrt(max(parameter.shape[-2:])))

    def _orthogonalize(self, matrices: Matrices) -> Matrices:
        """Distribute the matrices over the workers if there are enough. Raises WorkerLostError."""
        if self.workers.world_size == 1 or len(matrices) < self.workers.world_size:
            return orthogonalize(matrices, matmul_dtype=self.matmul_dtype)
        own, steps = slice(self.workers.rank, None, self.workers.world_size), torch.zeros_like(matrices)
        steps[own] = orthogonalize(matrices[own], matmul_dtype=self.matmul_dtype)
        return self.workers.all_reduce(steps)

    def _momentum(self, parameter: nn.Parameter, decay: float) -> Tensor:
        """Return the momentum including the current gradient."""
        before = self.state.get(parameter, {}).get("momentum")
        return _accumulate(parameter.grad, torch.zeros_like(parameter) if before is None else before, decay)


def _accumulate(gradient: Tensor | None, momentum: Tensor, decay: float) -> Tensor:
    """Return the gradient plus the decayed momentum."""
    assert gradient is not None, "parameters without a gradient are left out"
    return torch.add(gradient, momentum, alpha=decay)


Optimizer = _Adam | _AdamW | MuonWithAdamW


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
            tables = lookup_parameters(model)
            decayed = [one for one in model.parameters() if one.ndim >= 2 and id(one) not in tables]
            groups = [
                {"params": decayed, "weight_decay": config.weight_decay},
                {"params": _others(model, decayed), "weight_decay": 0.0},
            ]
            return _AdamW(groups, lr=lr, betas=betas, eps=eps, fused=True)
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


def check_optimizer_tensors(
    optimizer: Optimizer, model: nn.Module, tensors: Mapping[str, Tensor], *, where: str = "this checkpoint"
) -> None:
    """Raise RunError if the state of a parameter is incomplete, or of another shape or type than the parameter."""
    parameters = dict(model.named_parameters())
    groups = [{id(one) for one in group["params"]} for group in optimizer.param_groups]
    found: dict[str, set[str]] = {}
    for key, tensor in tensors.items():
        name, _, part = key.rpartition("/")
        if name not in parameters:
            raise RunError(f"{where}: the optimizer state has an unknown {shorten(key)}")
        like = torch.zeros(()) if part == "step" else parameters[name]
        if tensor.shape != like.shape or tensor.dtype != like.dtype:
            raise RunError(f"{where}: the optimizer state has another shape or type of {key}")
        found.setdefault(name, set()).add(part)
    for name, parts in found.items():
        is_muon = isinstance(optimizer, MuonWithAdamW) and id(parameters[name]) in groups[0]
        expected = _MUON_PARTS if is_muon else _ADAM_PARTS
        if parts != expected:
            raise RunError(
                f"{where}: the optimizer state of {name} is {', '.join(sorted(parts))} instead of "
                f"{', '.join(sorted(expected))}; use the settings and the version that it was trained with"
            )


def restore_optimizer(optimizer: Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Restore the state that `optimizer_tensors` returned. Raises RunError as `check_optimizer_tensors` does."""
    check_optimizer_tensors(optimizer, model, tensors)
    optimizer.state.clear()
    for name, parameter in model.named_parameters():
        prefix = f"{name}/"
        parts = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
        if parts:
            optimizer.state[parameter] = {
                part: value.to(parameter.device, copy=True) if part == "step" else place_like(value, parameter).clone()
                for part, value in parts.items()
            }


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


def _others(model: nn.Module, parameters: list[nn.Parameter]) -> list[nn.Parameter]:
    ids = {id(parameter) for parameter in parameters}
    return [parameter for parameter in model.parameters() if id(parameter) not in ids]
