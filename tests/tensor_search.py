"""Searches over PyTorch models with tensors as arguments."""

from typing import Any

import torch
from torch import Tensor

from dragoman.decoding import (
    BeamSearch,
    Hypothesis,
    LengthPenalty,
    OutputStart,
    build_search,
    greedy_search,
    run_search,
)
from dragoman.inference.backends.torch_backend import OnDevice, TorchBackend
from dragoman.models.protocols import Decoder


def device_memory(memory: Any) -> OnDevice:
    """Return the memory of a model as that of a `TorchBackend`."""
    return OnDevice(memory, torch.device("cpu"))


def _on_tensors(build: Any) -> Any:
    def run(
        model: Decoder,
        memory: Any,
        *,
        limits: Tensor,
        start_tokens: Tensor | None = None,
        starts: list[OutputStart] | None = None,
        **options: Any,
    ) -> list[list[Hypothesis]]:
        if start_tokens is not None:
            starts = [OutputStart(token) for token in start_tokens.tolist()]
        search = build(TorchBackend(model), **options)
        return run_search(search, device_memory(memory), limits=limits.numpy(), starts=starts)

    return run


search, beam_search, greedy = (_on_tensors(build) for build in (build_search, BeamSearch, greedy_search))


def penalty_options(penalty: LengthPenalty) -> dict[str, Any]:
    """Return the options of a `DecodingConfig` for a length penalty."""
    alpha = None if penalty.kind == "none" else penalty.alpha
    return {"length_penalty_kind": penalty.kind, "length_penalty": alpha}
