"""Searching a network's outputs, drawing them, and scoring given ones: ids to ids, without text or files.

A search decides in numpy and asks nothing of PyTorch; what draws and scores does, and is imported when asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dragoman.decoding.beam import BeamSearch, beam_search
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
from dragoman.decoding.observing import SearchObserver, SearchStep
from dragoman.decoding.progress import Search
from dragoman.decoding.search import search, search_of
from dragoman.decoding.windows import Window, windows

if TYPE_CHECKING:
    from dragoman.decoding.sampling import Beginnings, Drawn, SamplingSettings, draw, sample
    from dragoman.decoding.scoring import score_by_steps, score_hypotheses, score_targets, score_tokens
    from dragoman.decoding.sliding import Sliding
    from dragoman.decoding.stepping import Stepping

_ON_TENSORS = {
    "sampling": ("Beginnings", "Drawn", "SamplingSettings", "draw", "sample"),
    "scoring": ("score_by_steps", "score_hypotheses", "score_targets", "score_tokens"),
    "sliding": ("Sliding",),
    "stepping": ("Stepping",),
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
