"""Search, sampling and scoring of model outputs: ids to ids, without text or files.

The names of this package work in NumPy and do not import PyTorch; the module `forced_decoding` does.
"""

from dragoman.decoding.beam_search import BeamSearch, SearchObserver, SearchStep
from dragoman.decoding.choose_search import Search, build_search, run_search, search
from dragoman.decoding.config import AnswerConfig, DecodingConfig, LengthPenalty, SamplingConfig
from dragoman.decoding.greedy_search import greedy_search, sampling_search
from dragoman.decoding.hypothesis import Hypothesis, OutputStart

__all__ = [
    "AnswerConfig",
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
    "search",
]
