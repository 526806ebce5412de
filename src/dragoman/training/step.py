"""One training step: forward and backward pass over one or more batches, then an optimizer step.

Step `n` of a run draws random numbers from `(seed, n)`, so that resuming needs no stored random state.
"""

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.array_types import Float, Int, Lengths, SourceIds, TargetIds
from dragoman.data.batching.batch_streams import RowBatch
from dragoman.data.batching.token_budget_batches import Batch
from dragoman.errors import ConfigError
from dragoman.models.protocols import needs_source_features, source_arguments
from dragoman.nn.dropout import dropout_keys
from dragoman.nn.recurrent.ssru import SSRU
from dragoman.training.chunked_loss import Loss, OutputProjection
from dragoman.training.distributed import SINGLE_WORKER, WorkerGroup, full_tensor
from dragoman.training.optimizers import Optimizer
from dragoman.training.precision import Precision, autocast, bfloat16_linear_layers

CompileMode = Literal["cuda_graphs"] | bool
"""Whether `torch.compile` compiles the model, and whether CUDA graphs replay its kernels."""

FORWARD_METHODS: Final = ("hidden", "mlm_hidden")
"""Methods by which losses call a model; a model with neither is called by `forward`."""

_INDEX_BITS: Final = 40
"""Bits of a dropout key that hold the index of an example in its dataset."""


B = TypeVar("B", bound=RowBatch)
_N = TypeVar("_N")
LossFunction = Callable[[_N, B], Loss]
"""Loss of a model on a batch, summed over its predictions."""


@runtime_checkable
class TrainableSeq2Seq(Protocol):
    """Encoder-decoder model trained by teacher forcing."""

    unembedding: OutputProjection

    def hidden(
        self, source: SourceIds, source_lengths: Lengths, target: TargetIds
    ) -> Float[Tensor, "batch target size"]: ...


def target_states(model: TrainableSeq2Seq, batch: Batch) -> tuple[Float[Tensor, "tokens size"], Int[Tensor, " tokens"]]:
    """Return the hidden states of all target positions, without padding, and their labels."""
    # A teacher may not need the source features that its student needs.
    features = batch.source_features if needs_source_features(model) else None
    hidden = model.hidden(batch.source, batch.source_lengths, batch.target, **source_arguments(model, features))
    positions = torch.arange(batch.target.shape[1], device=hidden.device)
    is_token = positions < batch.target_lengths[:, None]
    return hidden[is_token], batch.labels[is_token]


def compute_gradients(
    model: nn.Module,
    batches: Sequence[B],
    loss_function: LossFunction[Any, B],
    *,
    seeds: tuple[int, ...],
    precision: Precision,
    workers: WorkerGroup = SINGLE_WORKER,
) -> tuple[float, float, int]:
    """Compute gradients of the mean loss over all predictions of the step, however batches and workers split them.

    Every worker passes the same batches. Return the sums of the loss and of the negative log-likelihood, and the number
    of predictions.
    """
    count = sum(batch.target_count for batch in batches)
    device = model_device(model)
    # On a CPU, dropout masks follow from the example; elsewhere every part of a step needs random numbers of its own.
    rank = () if device.type == "cpu" else (workers.rank,)
    sums = torch.zeros(2, dtype=torch.float64)
    for number, (batch, keys) in enumerate(zip(batches, _dropout_keys(batches), strict=True)):
        part, rows, weight = workers.own_part(batch)
        own_seed = rank and (*rank, number)
        with (
            seeded_rng(*seeds, *own_seed, device=device),
            dropout_keys(keys[rows]),
            bfloat16_linear_layers(precision, device),
        ):
            with autocast(precision, device):
                loss = loss_function(model, part.to(device))
            (loss.value * (weight / count)).backward()
        if weight:
            sums += torch.stack([loss.value.detach(), loss.negative_log_likelihood]).cpu().double()
    workers.all_reduce_gradients(model)
    loss_sum, nll_sum = workers.all_reduce(sums).tolist()
    return loss_sum, nll_sum, count


def apply_gradients(model: nn.Module, optimizer: Optimizer, *, max_grad_norm: float | None) -> float:
    """Clip gradients and step, unless a gradient is not finite. Return the gradient norm before clipping."""
    parameters = [parameter for parameter in model.parameters() if parameter.grad is not None]
    clipped = nn.utils.clip_grad_norm_(parameters, math.inf if max_grad_norm is None else max_grad_norm)
    norm = float(full_tensor(clipped))
    if math.isfinite(norm):
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return norm


def model_device(model: nn.Module) -> torch.device:
    """Return the device of the parameters."""
    return next(model.parameters()).device


def check_compilable(device: torch.device, *, mode: CompileMode = True) -> None:
    """Raise ConfigError if the device does not support the mode: CPUs none, devices other than CUDA no CUDA graphs."""
    value = "cuda_graphs" if mode == "cuda_graphs" else "true"
    if device.type == "cpu":
        raise ConfigError(f"training.compile = {value} needs a GPU; set it to false on a CPU")
    if mode == "cuda_graphs" and device.type != "cuda":
        raise ConfigError(f"training.compile = cuda_graphs needs CUDA, and the device is {device.type}; set it to true")


def compile_model(model: nn.Module, *, device: torch.device, mode: CompileMode = True) -> None:
    """Compile the model's forward methods with `torch.compile`, at their first call and once for all shapes.

    CUDA graphs are recorded per batch shape, so they suit tasks with few shapes, such as language modeling. Compilation
    is for GPUs only: on a CPU, dropout depends on each example in code that the compiler cannot trace.
    """
    check_compilable(device, mode=mode)
    if any(isinstance(module, SSRU) for module in model.modules()):
        raise ConfigError("training.compile does not support model.decoder_layer = ssru; leave one of them out")
    options = {"mode": "reduce-overhead"} if mode == "cuda_graphs" else {"dynamic": True}
    for name in [name for name in FORWARD_METHODS if hasattr(model, name)] or ["forward"]:
        setattr(model, name, torch.compile(getattr(model, name), **options))


def derive_seed(*numbers: int) -> int:
    """Hash numbers to a 63-bit seed that is the same on every machine."""
    digest = hashlib.blake2b(repr(numbers).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


@contextmanager
def seeded_rng(*numbers: int, device: torch.device) -> Iterator[None]:
    """Seed PyTorch with `derive_seed(*numbers)` inside the context and restore its generators afterwards."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(derive_seed(*numbers))
        yield


def _dropout_keys(batches: Sequence[RowBatch]) -> list[Int[Tensor, " rows"]]:
    """Combine the index of each example with its number of earlier occurrences in the step.

    An example that occurs twice then gets different dropout masks.
    """
    counts = [len(batch.rows) for batch in batches]
    rows = torch.as_tensor(np.concatenate([batch.rows for batch in batches]))
    order = rows.argsort(stable=True)
    first = torch.searchsorted(rows[order], rows[order])
    before = torch.empty_like(rows)
    before[order] = torch.arange(len(rows)) - first
    return list((rows + (before << _INDEX_BITS)).split(counts))
