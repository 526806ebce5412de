"""One update: forward, backward and a step of the optimiser over one or more batches."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dragoman.data.batching.token_batches import Batch
from dragoman.models.protocols import ReadsTrees
from dragoman.models.source_trees import with_trees
from dragoman.nn.dropout import rows_known_by
from dragoman.shapes import Lengths, SourceIds, TargetIds
from dragoman.training.distributed import ALONE, Team, whole
from dragoman.training.losses import Loss, unembedding_loss
from dragoman.training.optimizers import Optimiser
from dragoman.training.precision import PrecisionName, autocast, large_products, linear_maps
from dragoman.training.seeding import seeded
from dragoman.typing import Float, Int


@runtime_checkable
class Examples(Protocol):
    """What an update must know of a batch, whatever it is that is learnt from it."""

    @property
    def rows(self) -> NDArray[np.int64]:
        """The index of each example in its store."""
        ...

    @property
    def target_count(self) -> int:
        """How many predictions the loss of the batch is the sum over: tokens, or examples."""
        ...

    def to(self, device: torch.device) -> Self:
        """The batch with its tensors on a device."""
        ...


_INDEX_BITS: Final = 40
"""Of the index of an example in its store."""
B = TypeVar("B", bound=Examples)
N = TypeVar("N")
Objective = Callable[[N, B], Loss]
"""The loss of a batch, summed over its predictions, from a network that offers what this objective needs."""


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


@dataclass(frozen=True)
class Step:
    """Sums over the predictions of one update."""

    loss: float
    negative_log_likelihood: float
    tokens: int
    gradient_norm: float

    @property
    def finite(self) -> bool:
        return math.isfinite(self.loss) and math.isfinite(self.gradient_norm)


def teacher_forced(smoothing: float, *, precision: PrecisionName = "float32") -> Objective[Learner, Batch]:
    """Every target position predicts the next symbol, from the begin symbol to the end symbol."""

    def objective(model: Learner, batch: Batch) -> Loss:
        hidden, expected = predicting(model, batch)
        projection = model.unembedding
        return unembedding_loss(
            hidden,
            projection.weight,
            projection.bias,
            expected,
            smoothing=smoothing,
            products=large_products(precision, hidden.device),
        )

    return objective


def predicting(model: Learner, batch: Batch) -> tuple[Float[Tensor, "tokens size"], Int[Tensor, " tokens"]]:
    """The hidden states of all target positions, padding left out, and the symbol that each is to predict."""
    told = batch.structure if isinstance(model, ReadsTrees) and model.structural else None  # a teacher may need none
    reader = model if told is None else with_trees(model, told)
    hidden = reader.hidden(batch.source, batch.source_lengths, batch.target)
    places = torch.arange(batch.target.shape[1], device=hidden.device)
    real = places < batch.target_lengths[:, None]
    return hidden[real], batch.expected[real]


def compute_gradients(
    model: nn.Module,
    batches: Sequence[B],
    objective: Objective[Any, B],
    *,
    seeds: tuple[int, ...],
    precision: PrecisionName,
    team: Team = ALONE,
) -> tuple[float, float, int]:
    """Gradients of the mean loss over all predictions of the update, however they are split into batches and workers.

    Every worker of the team is handed the same batches. Returns the sums of the objective and of the negative
    log-likelihood, and the number of predictions.
    """
    count = sum(batch.target_count for batch in batches)
    device = device_of(model)
    # On a CPU what dropout takes follows from the example; elsewhere every part of an update needs chance of its own.
    own = () if device.type == "cpu" else (team.rank,)
    sums = torch.zeros(2, dtype=torch.float64)
    for number, (batch, keys) in enumerate(zip(batches, _keys(batches), strict=True)):
        part, counts = team.part(batch)
        mine, _ = team.share(len(keys))
        apart = own and (*own, number)
        with seeded(*seeds, *apart, device=device), rows_known_by(keys[mine]), linear_maps(precision, device):
            with autocast(precision, device):
                loss = objective(model, part.to(device))
            (loss.objective * (counts / count)).backward()
        if counts:
            sums += torch.stack([loss.objective.detach(), loss.negative_log_likelihood]).cpu().double()
    team.add_up_gradients(model)
    objective_sum, nll_sum = team.total(sums).tolist()
    return objective_sum, nll_sum, count


def _keys(batches: Sequence[Examples]) -> list[Int[Tensor, " rows"]]:
    """What dropout knows each example of an update by: its index, and how often that has stood in the update before.

    An example that is learnt from twice is to lose something else each time.
    """
    counts = [len(batch.rows) for batch in batches]
    rows = torch.as_tensor(np.concatenate([batch.rows for batch in batches]))
    order = rows.argsort(stable=True)
    first = torch.searchsorted(rows[order], rows[order])
    before = torch.empty_like(rows)
    before[order] = torch.arange(len(rows)) - first
    return list((rows + (before << _INDEX_BITS)).split(counts))


def device_of(model: nn.Module) -> torch.device:
    """Where the network lives."""
    return next(model.parameters()).device


def apply_gradients(model: nn.Module, optimiser: Optimiser, *, clip: float | None) -> float:
    """Clip and step, unless the gradient is not finite; returns its norm before clipping."""
    parameters = [parameter for parameter in model.parameters() if parameter.grad is not None]
    clipped = nn.utils.clip_grad_norm_(parameters, math.inf if clip is None else clip)
    norm = float(whole({"norm": clipped})["norm"])
    if math.isfinite(norm):
        optimiser.step()
    optimiser.zero_grad(set_to_none=True)
    return norm
