"""Searches over PyTorch models with tensors as arguments."""

from typing import Any

from torch import Tensor

from dragoman.decoding import (
    BeamSearch,
    GreedySearch,
    Hypothesis,
    LengthPenalty,
    TorchStepper,
    build_search,
    run_search,
)
from dragoman.models.protocols import Decoder


def _on_tensors(build: Any) -> Any:
    def run(
        model: Decoder, memory: Any, *, limits: Tensor, start_tokens: Tensor | None = None, **options: Any
    ) -> list[list[Hypothesis]]:
        wrapped = TorchStepper.wrap_memory(memory)
        starts = None if start_tokens is None else start_tokens.numpy()
        return run_search(build(TorchStepper(model), **options), wrapped, limits=limits.numpy(), start_tokens=starts)

    return run


search, beam_search, greedy = (_on_tensors(build) for build in (build_search, BeamSearch, GreedySearch))


def penalty_options(penalty: LengthPenalty) -> dict[str, Any]:
    """Return the options of a `DecodingConfig` for a length penalty."""
    alpha = None if penalty.kind == "none" else penalty.alpha
    return {"length_penalty_kind": penalty.kind, "length_penalty": alpha}
