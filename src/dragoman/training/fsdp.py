"""Sharded training (FSDP2; Rajbhandari et al., 2020, stage 3), and gradient checkpointing.

Each worker holds a shard of weights, gradients and optimizer state; a block gathers its weights only while it computes.
All workers write the optimizer state as PyTorch's distributed checkpoints in safetensors, which any number of workers
can read.

The parts of PyTorch for this take a second to import, so they are imported only when needed.
"""

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.checkpoint import checkpoint

from dragoman.errors import ConfigError, RunError, shorten
from dragoman.nn.blocks import DecoderBlock, EncoderBlock
from dragoman.training.distributed import WorkerGroup
from dragoman.training.optimizers import Optimizer, optimizer_tensors, restore_optimizer
from dragoman.training.step import FORWARD_METHODS


def shard_model(model: nn.Module, workers: WorkerGroup, *, device: torch.device) -> None:
    """Replace every parameter by this worker's shard. Raises ConfigError on a model without Transformer blocks.

    Gradients are summed over the workers, not averaged, because losses are divided by the predictions of all.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    blocks = _blocks(model, setting="training.sharding = full")
    if any(".cross_attention.score." in f".{name}" for name, _ in model.named_parameters()):
        raise ConfigError(
            "training.sharding = full does not support a cross-attention score with weights; "
            "leave it out, or choose model.attention.cross.score = scaled_dot"
        )
    if any(parameter._backward_hooks for parameter in model.parameters()):  # shards have no hooks
        raise ConfigError(
            "training.sharding = full does not support model.start_embedding = zero; leave one of them out"
        )
    # Blocks return views, about which FSDP2 warns; they are not modified in place here.
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module", category=UserWarning)
    mesh = init_device_mesh(device.type, (workers.world_size,))
    # The keys and values of the source are computed before their block runs.
    cross = [block.cross_attention for block in blocks if isinstance(block, DecoderBlock)]
    projections = [part for one in cross if one is not None for part in (one.key, one.value)]
    for module in (*projections, *blocks, model):
        fully_shard(module, mesh=mesh)
        module.set_gradient_divide_factor(1.0)  # type: ignore[operator]
        module.set_force_sum_reduction_for_comms(True)  # type: ignore[operator]  # gloo supports no other reduction
    for name in FORWARD_METHODS:
        if hasattr(model, name):
            register_fsdp_forward_method(model, name)


def enable_gradient_checkpointing(
    model: nn.Module, recomputation: Callable[[], AbstractContextManager[object]] = nullcontext
) -> None:
    """Store only the inputs of every block and recompute the rest in the backward pass.

    `recomputation` builds a context as that of the forward pass: the backward pass leaves modes of PyTorch's functions.
    Raises ConfigError on a model without Transformer blocks.
    """
    for block in _blocks(model, setting="training.gradient_checkpointing = true"):
        block.forward = partial(_checkpointed, block, block.forward, recomputation)  # type: ignore[method-assign]


def write_shards(model: nn.Module, optimizer: Optimizer, workers: WorkerGroup, folder: Path | None) -> None:
    """Write the optimizer state, each worker its own shard; all workers must call this, the main one with a folder."""
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    from torch.distributed.checkpoint.state_dict_saver import save

    writer = HuggingFaceStorageWriter(workers.broadcast(str(folder)), save_distributed=True)
    save(optimizer_tensors(optimizer, model), storage_writer=writer)


def read_shards(folder: Path, model: nn.Module, optimizer: Optimizer) -> None:
    """Read the optimizer state that `write_shards` wrote, with any number of workers, sharded or not.

    Raises RunError if it is damaged, or does not fit model and optimizer.
    """
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.state_dict_loader import load

    reader = HuggingFaceStorageReader(str(folder))
    try:
        metadata = reader.read_metadata().state_dict_metadata
    except (AttributeError, LookupError, TypeError, ValueError) as error:  # of PyTorch, which trusts the headers
        raise _damaged(folder, f"{type(error).__name__} in the headers of the shards") from error
    parameters = dict(model.named_parameters())
    state: dict[str, Any] = {}
    for key, entry in metadata.items():
        parameter, shape = parameters.get(key.rpartition("/")[0]), getattr(entry, "size", None)
        if parameter is None or shape not in (parameter.shape, torch.Size()):
            raise _damaged(folder, f"{shorten(key)} is unknown or has another shape")
        state[key] = torch.zeros_like(parameter) if shape == parameter.shape else torch.zeros(())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # PyTorch warns where there is a single worker
        load(state, storage_reader=reader, no_dist=not dist.is_initialized())
    restore_optimizer(optimizer, model, state)


def _damaged(folder: Path, reason: str) -> RunError:
    return RunError(
        f"{folder}: damaged optimizer state ({reason}). Delete its checkpoint to continue from the one before."
    )


def _blocks(model: nn.Module, *, setting: str) -> list[EncoderBlock | DecoderBlock]:
    """Return the Transformer blocks of a model. Raises ConfigError if it has none."""
    if blocks := [module for module in model.modules() if isinstance(module, EncoderBlock | DecoderBlock)]:
        return blocks
    raise ConfigError(f"{setting} needs a Transformer; leave it out")


def _checkpointed(
    block: nn.Module,
    forward: Callable[..., Any],
    recomputation: Callable[[], AbstractContextManager[object]],
    *args: Any,
    **kwargs: Any,
) -> Any:
    if not (block.training and torch.is_grad_enabled()):
        return forward(*args, **kwargs)
    contexts = partial(_contexts, recomputation)
    return checkpoint(forward, *args, use_reentrant=False, context_fn=contexts, **kwargs)


def _contexts(
    recomputation: Callable[[], AbstractContextManager[object]],
) -> tuple[AbstractContextManager[object], AbstractContextManager[object]]:
    """Return the contexts of the forward pass and of its recomputation."""
    return nullcontext(), recomputation()
