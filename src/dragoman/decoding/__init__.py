"""Searching a network's outputs, drawing them, and scoring given ones: ids to ids, without text or files.

A search decides in numpy and asks nothing of PyTorch; what draws and scores does, and is imported when asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dragoman.decoding.beam_search import BeamSearch, beam_search
from dragoman.decoding.config import (
    Average,
    Choice,
    Gnmt,
    LengthLimit,
    Likeliest,
    MinimumBayesRisk,
    Normalisation,
    Raw,
    SearchSettings,
)
from dragoman.decoding.greedy import GreedySearch, greedy
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.observer import SearchObserver, SearchStep
from dragoman.decoding.scoring_windows import Window, windows
from dragoman.decoding.search import search, search_of
from dragoman.decoding.search_protocol import Search

if TYPE_CHECKING:
    from dragoman.decoding.sampling import Beginnings, Drawn, SamplingSettings, draw, sample
    from dragoman.decoding.scoring import score_by_steps, score_hypotheses, score_targets, score_tokens
    from dragoman.decoding.sliding_cache import Sliding
    from dragoman.decoding.torch_stepper import Stepping

_ON_TENSORS = {
    "sampling": ("Beginnings", "Drawn", "SamplingSettings", "draw", "sample"),
    "scoring": ("score_by_steps", "score_hypotheses", "score_targets", "score_tokens"),
    "sliding_cache": ("Sliding",),
    "torch_stepper": ("Stepping",),
}
"""What needs PyTorch, by the file it stands in."""

__all__ = [
    "Average",
    "BeamSearch",
    "Beginnings",
    "Choice",
    "Drawn",
    "Gnmt",
    "GreedySearch",
    "Hypothesis",
    "LengthLimit",
    "Likeliest",
    "MinimumBayesRisk",
    "Normalisation",
    "Raw",
    "SamplingSettings",
    "Search",
    "SearchObserver",
    "SearchSettings",
    "SearchStep",
    "Sliding",
    "Stepping",
    "Window",
    "beam_search",
    "draw",
    "greedy",
    "sample",
    "score_by_steps",
    "score_hypotheses",
    "score_targets",
    "score_tokens",
    "search",
    "search_of",
    "windows",
]


def __getattr__(name: str) -> Any:
    for file, names in _ON_TENSORS.items():
        if name in names:
            return getattr(import_module(f"dragoman.decoding.{file}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
