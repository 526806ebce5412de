"""Strings in, scores out, each with the signature that makes it comparable."""

from dragoman.evaluation.metrics import Bleu, Chrf, ChrfPlusPlus, ExactMatch, Metric, Ter
from dragoman.evaluation.report import paired_rows, score_rows, sentence_rows
from dragoman.evaluation.scores import Score, corpus_score, sentence_scores
from dragoman.evaluation.segments import read_segments
from dragoman.evaluation.significance import Paired, compare

__all__ = [
    "Bleu",
    "Chrf",
    "ChrfPlusPlus",
    "ExactMatch",
    "Metric",
    "Paired",
    "Score",
    "Ter",
    "compare",
    "corpus_score",
    "paired_rows",
    "read_segments",
    "score_rows",
    "sentence_rows",
    "sentence_scores",
]
