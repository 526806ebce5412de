"""Search, sampling and scoring of model outputs: ids to ids, without text or files.

Search decides in numpy and does not import PyTorch; sampling and scoring do, when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dragoman.decoding.beam_search import BeamSearch, SearchObserver, SearchStep
from dragoman.decoding.config import DecodingConfig, LengthPenalty, SamplingConfig
from dragoman.decoding.greedy import GreedySearch
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.search import build_search, search
from dragoman.decoding.search_protocol import Search, run_search

if TYPE_CHECKING:
    from dragoman.decoding.sampling import SampledToken, SamplingStart, sample, sample_tokens
    from dragoman.decoding.scoring import score_outputs, score_stepwise, score_targets, score_tokens, scoring_windows
    from dragoman.decoding.sliding_context import SlidingContext
    from dragoman.decoding.torch_stepper import TorchStepper

_LAZY = {
    "sampling": ("SampledToken", "SamplingStart", "sample", "sample_tokens"),
    "scoring": ("score_outputs", "score_stepwise", "score_targets", "score_tokens", "scoring_windows"),
    "sliding_context": ("SlidingContext",),
    "torch_stepper": ("TorchStepper",),
}
"""Names that need PyTorch, by module."""

__all__ = [
    "BeamSearch",
    "DecodingConfig",
    "GreedySearch",
    "Hypothesis",
    "LengthPenalty",
    "SampledToken",
    "SamplingConfig",
    "SamplingStart",
    "Search",
    "SearchObserver",
    "SearchStep",
    "SlidingContext",
    "TorchStepper",
    "build_search",
    "run_search",
    "sample",
    "sample_tokens",
    "score_outputs",
    "score_stepwise",
    "score_targets",
    "score_tokens",
    "scoring_windows",
    "search",
]


def __getattr__(name: str) -> Any:
    for module, names in _LAZY.items():
        if name in names:
            return getattr(import_module(f"dragoman.decoding.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
