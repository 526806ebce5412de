"""Weights, gradients and the optimiser's memory in shards, one a worker (FSDP2; Rajbhandari et al., 2020, stage 3).

A block's weights are whole only while it computes. The optimiser's memory is written by all workers, as PyTorch's
distributed checkpoints of safetensors, and read by any number of them.

What of PyTorch this needs takes a second to import, so whoever may do without imports this module late.
"""

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method
from torch.utils.checkpoint import checkpoint

from dragoman.errors import ConfigError
from dragoman.nn.blocks import CausalBlock, DecoderBlock, EncoderBlock
from dragoman.training.compilation import ENTRANCES
from dragoman.training.distributed import Team
from dragoman.training.optimizers import Optimiser, optimiser_tensors, restore_optimiser

BLOCKS = (EncoderBlock, CausalBlock, DecoderBlock)


def shard(model: nn.Module, team: Team, *, device: torch.device) -> None:
    """Leave of every parameter the worker's shard. Raises ConfigError on a network that has no blocks to be sharded by.

    Sums over the workers are sums, because losses are divided by the predictions of all.
    """
    blocks = [module for module in model.modules() if isinstance(module, BLOCKS)]
    if not blocks:
        raise ConfigError("training.sharding = full is for Transformers; leave it out")
    if any(".cross_attention.score." in f".{name}" for name, _ in model.named_parameters()):
        raise ConfigError(
            "training.sharding = full does not go with a score that has weights between decoder and encoder; "
            "leave it out, or choose model.attention.cross.score = scaled_dot"
        )
    # What blocks return is a view, as it warns of, and nothing here changes such in place.
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module", category=UserWarning)
    mesh = init_device_mesh(device.type, (team.size,))
    for block in blocks:
        # The keys and values of the source are computed before the block they are for begins.
        across = block.cross_attention if isinstance(block, DecoderBlock) else None
        before = [] if across is None else [across.key, across.value]
        for module in (*before, block):
            _shard(module, mesh)
    _shard(model, mesh)
    for name in ENTRANCES:
        if hasattr(model, name):
            register_fsdp_forward_method(model, name)


def compute_again(model: nn.Module) -> None:
    """Keep of every block only what goes into it, and compute the rest once more in the backward pass.

    Raises ConfigError on a network that has no blocks.
    """
    blocks = [module for module in model.modules() if isinstance(module, BLOCKS)]
    if not blocks:
        raise ConfigError("training.recompute = true is for Transformers; leave it out")
    for block in blocks:
        block.forward = partial(_again, block, block.forward)  # type: ignore[method-assign]


def write_shards(folder: Path, model: nn.Module, optimiser: Optimiser) -> None:
    """The optimiser's memory, each worker its own; all have to call this."""
    writer = HuggingFaceStorageWriter(str(folder), save_distributed=True)
    save(optimiser_tensors(optimiser, model), storage_writer=writer)


def read_shards(folder: Path, model: nn.Module, optimiser: Optimiser) -> None:
    """The inverse of `write_shards`, for any number of workers, whether they hold shards or everything."""
    reader = HuggingFaceStorageReader(str(folder))
    known = reader.read_metadata().state_dict_metadata
    parameters = dict(model.named_parameters())
    state: dict[str, Any] = {}
    for key, facts in known.items():
        like = parameters[key.rpartition("/")[0]]
        shape = facts.size  # type: ignore[union-attr]
        state[key] = torch.zeros_like(like) if shape == like.shape else torch.zeros(shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # one that there is no other worker
        load(state, storage_reader=reader, no_dist=not dist.is_initialized())
    restore_optimiser(optimiser, model, state)


def _shard(module: nn.Module, mesh: Any) -> None:
    fully_shard(module, mesh=mesh)
    module.set_gradient_divide_factor(1.0)  # type: ignore[operator]
    module.set_force_sum_reduction_for_comms(True)  # type: ignore[operator]  # gloo knows no other


def _again(block: nn.Module, forward: Callable[..., Any], *given: Any, **named: Any) -> Any:
    if not (block.training and torch.is_grad_enabled()):
        return forward(*given, **named)
    return checkpoint(forward, *given, use_reentrant=False, **named)
