r"""Muon (Jordan et al., 2024): momentum whose matrix is made orthogonal before it is a step.

The momentum $M$ of a matrix is replaced by the nearest semi-orthogonal matrix, $U V^\top$ of $M = U S V^\top$, so that
all directions are learnt alike, the rare ones too. Newton and Schulz's iteration finds it nearly, by products alone.
What is no matrix between hidden states, vectors, embeddings and the unembedding, is learnt by AdamW beside it.

An orthogonal step is scaled by $0.2 \sqrt{\max(n, m)}$ (Liu et al., 2025, equation 4), which makes its elements as
large as AdamW's mostly are, so that one learning rate serves both.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from dragoman.models.task_heads import Head
from dragoman.nn.embedding import Unembedding
from dragoman.nn.embedding_tables import tables
from dragoman.training.distributed import ALONE, Team, is_shard, joined, sharded_like
from dragoman.typing import Float

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the iteration: its fixed points lie around 1, and small singular values grow by 3.4445 each time."""
STEPS = 5
LIKE_ADAMW = 0.2

Matrices = Float[Tensor, "*count rows columns"]


def orthogonalised(matrices: Matrices, *, steps: int = STEPS, products: torch.dtype = torch.float32) -> Matrices:
    r"""Nearly $U V^\top$: from $X = M / \|M\|_F$ on, so often $X \leftarrow a X + b (XX^\top) X + c (XX^\top)^2 X$.

    Singular values come to lie between 0.7 and 1.2, but for those that were almost 0; a matrix of zeros stays one.
    `products` is the number format of the iteration, which bears that of bfloat16.
    """
    a, b, c = COEFFICIENTS
    wide = matrices.shape[-2] <= matrices.shape[-1]
    x = matrices if wide else matrices.mT
    x = (x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)).to(products).view(-1, *x.shape[-2:])
    for _ in range(steps):
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)  # sums within products
    x = x.view_as(matrices if wide else matrices.mT).to(matrices.dtype)
    return x if wide else x.mT


def hidden_matrices(model: nn.Module) -> list[nn.Parameter]:
    """The matrices between hidden states, in order, those of the heads of a score together: all but tables and what
    maps to words, labels or places of an answer.
    """
    others = tables(model)
    for module in model.modules():
        if isinstance(module, Unembedding):
            others.add(id(module.weight))
        elif isinstance(module, Head):
            others.add(id(module.output.weight))
    return [parameter for parameter in model.parameters() if parameter.ndim >= 2 and id(parameter) not in others]


@final
class MuonWithAdamW(torch.optim.Optimizer):
    """Muon for `matrices`; for the `rest` AdamW (Loshchilov and Hutter, 2019) without decay; one learning rate."""

    def __init__(
        self,
        matrices: Iterable[nn.Parameter],
        rest: Iterable[nn.Parameter],
        *,
        lr: float,
        momentum: float,
        weight_decay: float,
        betas: tuple[float, float],
        eps: float,
        products: torch.dtype = torch.float32,
        team: Team = ALONE,
    ) -> None:
        """`products` is the number format that matrices are made orthogonal in; of these each worker does its share."""
        self.products, self.team = products, team
        groups = [{"params": list(params), "muon": muon} for params, muon in ((matrices, True), (rest, False))]
        common = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "betas": betas, "eps": eps}
        super().__init__([group for group in groups if group["params"]], common)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update of all parameters that have a gradient."""
        assert closure is None, "the loss is computed before"
        for group in self.param_groups:
            learnt = [parameter for parameter in group["params"] if parameter.grad is not None]
            if group["muon"]:
                self._orthogonal(learnt, group)
            else:
                self._adaptive(learnt, group)

    def _orthogonal(self, parameters: list[nn.Parameter], group: dict[str, Any]) -> None:
        """Nesterov's look ahead along the momentum, made orthogonal, for all matrices of a shape at once.

        A step follows from the whole matrix: where workers hold shards, each joins them, one matrix at a time. Nothing
        moves before all workers have done their part, so that one that is lost leaves an update undone.
        """
        alike: dict[object, list[nn.Parameter]] = {}
        for parameter in parameters:
            alike.setdefault(parameter if is_shard(parameter) else parameter.shape, []).append(parameter)
        decay, steps = group["momentum"], list[tuple[nn.Parameter, Tensor]]()
        for some in alike.values():
            ahead = [joined(_added(one.grad, self._momentum(one, decay), decay)) for one in some]
            made = self._made_orthogonal(torch.stack(ahead))
            steps += [(one, sharded_like(step, one)) for one, step in zip(some, made, strict=True)]
        for parameter, step in steps:
            self.state[parameter]["momentum"] = self._momentum(parameter, decay)
            parameter.mul_(1 - group["lr"] * group["weight_decay"])
            parameter.add_(step, alpha=-group["lr"] * LIKE_ADAMW * math.sqrt(max(parameter.shape[-2:])))

    def _made_orthogonal(self, matrices: Matrices) -> Matrices:
        """By each worker some of them, where they are as many as workers. Raises WorkerLostError."""
        if self.team.size == 1 or len(matrices) < self.team.size:
            return orthogonalised(matrices, products=self.products)
        mine, steps = slice(self.team.rank, None, self.team.size), torch.zeros_like(matrices)
        steps[mine] = orthogonalised(matrices[mine], products=self.products)
        return self.team.total(steps)

    def _momentum(self, parameter: nn.Parameter, decay: float) -> Tensor:
        """With the newest gradient."""
        before = self.state.get(parameter, {}).get("momentum")
        return _added(parameter.grad, torch.zeros_like(parameter) if before is None else before, decay)

    def _adaptive(self, parameters: list[nn.Parameter], group: dict[str, Any]) -> None:
        """Algorithm 2 of Loshchilov and Hutter, where nothing decays, in one pass over each parameter."""
        states = [self._moments(parameter) for parameter in parameters]
        beta, gamma = group["betas"]
        adamw(
            [*parameters],
            [parameter.grad for parameter in parameters if parameter.grad is not None],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [state["step"] for state in states],
            fused=True,
            amsgrad=False,
            maximize=False,
            beta1=beta,
            beta2=gamma,
            lr=group["lr"],
            weight_decay=0.0,
            eps=group["eps"],
        )

    def _moments(self, parameter: nn.Parameter) -> dict[str, Any]:
        state: dict[str, Any] = self.state[parameter]
        if not state:
            state["step"] = torch.tensor(0.0, device=parameter.device)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        return state


def _added(gradient: Tensor | None, momentum: Tensor, decay: float) -> Tensor:
    """The gradient, and of the momentum what is left."""
    assert gradient is not None, "what has none is not learnt"
    return torch.add(gradient, momentum, alpha=decay)
