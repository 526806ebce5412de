"""One update: forward, backward and a step of the optimiser over one or more batches."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.data.batching import Batch
from dragoman.shapes import Lengths, SourceIds, TargetIds
from dragoman.training.objectives import Loss, unembedding_loss
from dragoman.training.optimisers import Optimiser
from dragoman.training.precision import PrecisionName, autocast, large_products
from dragoman.training.randomness import seeded


@runtime_checkable
class Learner(Protocol):
    """What a network must offer to be trained by teacher forcing."""

    unembedding: "Projection"

    def hidden(
        self, source: SourceIds, source_lengths: Lengths, target: TargetIds
    ) -> Float[Tensor, "batch target size"]: ...


@runtime_checkable
class Projection(Protocol):
    """The last linear map, whose product with a batch is never held at once."""

    weight: Tensor
    bias: Tensor | None


Objective = Callable[[Learner, Batch], Loss]


@dataclass(frozen=True)
class Step:
    """Sums over the tokens of one update."""

    loss: float
    negative_log_likelihood: float
    tokens: int
    gradient_norm: float

    @property
    def finite(self) -> bool:
        return math.isfinite(self.loss) and math.isfinite(self.gradient_norm)


def teacher_forced(smoothing: float, *, precision: PrecisionName = "float32") -> Objective:
    """Every target position predicts the next symbol, from the begin symbol to the end symbol."""

    def objective(model: Learner, batch: Batch) -> Loss:
        hidden = model.hidden(batch.source, batch.source_lengths, batch.target)
        places = torch.arange(batch.target.shape[1], device=hidden.device)
        real = places < batch.target_lengths[:, None]
        projection = model.unembedding
        return unembedding_loss(
            hidden[real],
            projection.weight,
            projection.bias,
            batch.expected[real],
            smoothing=smoothing,
            products=large_products(precision, hidden.device),
        )

    return objective


def compute_gradients(
    model: Learner, batches: Sequence[Batch], objective: Objective, *, seeds: tuple[int, ...], precision: PrecisionName
) -> tuple[float, float, int]:
    """Gradients of the mean loss over all target tokens of the update, however they are split into batches.

    Returns the sums of the objective and of the negative log-likelihood, and the number of tokens.
    """
    tokens = sum(int(batch.target_lengths.sum()) for batch in batches)
    objective_sum = nll_sum = 0.0
    for number, batch in enumerate(batches):
        device = batch.source.device
        with seeded(*seeds, number, device=device):
            with autocast(precision, device):
                loss = objective(model, batch)
            (loss.objective / tokens).backward()
        objective_sum += float(loss.objective.detach())
        nll_sum += float(loss.negative_log_likelihood)
    return objective_sum, nll_sum, tokens


def apply_gradients(model: nn.Module, optimiser: Optimiser, *, clip: float | None) -> float:
    """Clip and step, unless the gradient is not finite; returns its norm before clipping."""
    parameters = [parameter for parameter in model.parameters() if parameter.grad is not None]
    norm = float(nn.utils.clip_grad_norm_(parameters, math.inf if clip is None else clip))
    if math.isfinite(norm):
        optimiser.step()
    optimiser.zero_grad(set_to_none=True)
    return norm
