"""Searching a network's outputs and scoring given ones: ids to ids, without text or files."""

from dragoman.decoding.beam import beam_search
from dragoman.decoding.config import Average, Gnmt, LengthLimit, Normalisation, Raw, SearchSettings
from dragoman.decoding.greedy import greedy
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.scoring import score_by_steps, score_hypotheses, score_targets
from dragoman.decoding.search import search

__all__ = [
    "Average",
    "Gnmt",
    "Hypothesis",
    "LengthLimit",
    "Normalisation",
    "Raw",
    "SearchSettings",
    "beam_search",
    "greedy",
    "score_by_steps",
    "score_hypotheses",
    "score_targets",
    "search",
]
