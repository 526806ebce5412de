"""Searching a network's outputs, drawing them, and scoring given ones: ids to ids, without text or files."""

from dragoman.decoding.beam import beam_search
from dragoman.decoding.config import Average, Gnmt, LengthLimit, Normalisation, Raw, SearchSettings
from dragoman.decoding.greedy import greedy
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.sampling import Beginnings, Drawn, SamplingSettings, draw, sample
from dragoman.decoding.scoring import score_by_steps, score_hypotheses, score_targets, score_tokens
from dragoman.decoding.search import search
from dragoman.decoding.sliding import Sliding
from dragoman.decoding.windows import Window, windows

__all__ = [
    "Average",
    "Beginnings",
    "Drawn",
    "Gnmt",
    "Hypothesis",
    "LengthLimit",
    "Normalisation",
    "Raw",
    "SamplingSettings",
    "SearchSettings",
    "Sliding",
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
    "windows",
]
