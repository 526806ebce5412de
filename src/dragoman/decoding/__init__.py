"""Search, sampling and scoring of model outputs: ids to ids, without text or files.

Search and sampling work in NumPy and do not import PyTorch; scoring does, when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dragoman.decoding.beam_search import BeamSearch, SearchObserver, SearchStep
from dragoman.decoding.choose_search import Search, build_search, run_search, search
from dragoman.decoding.config import DecodingConfig, LengthPenalty, SamplingConfig
from dragoman.decoding.greedy_search import greedy_search, sampling_search
from dragoman.decoding.hypothesis import Hypothesis, OutputStart

if TYPE_CHECKING:
    from dragoman.decoding.forced_decoding import score_outputs, score_targets, score_tokens

_NEED_TORCH = ("score_outputs", "score_targets", "score_tokens")

__all__ = [
    "BeamSearch",
    "DecodingConfig",
    "Hypothesis",
    "LengthPenalty",
    "OutputStart",
    "SamplingConfig",
    "Search",
    "SearchObserver",
    "SearchStep",
    "build_search",
    "greedy_search",
    "run_search",
    "sampling_search",
    "score_outputs",
    "score_targets",
    "score_tokens",
    "search",
]


def __getattr__(name: str) -> Any:
    if name in _NEED_TORCH:
        return getattr(import_module("dragoman.decoding.forced_decoding"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
