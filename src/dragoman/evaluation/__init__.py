"""Strings in, scores out, each with the signature that makes it comparable."""

from dragoman.evaluation.metrics import Bleu, Chrf, ChrfPlusPlus, ExactMatch, Metric, Ter
from dragoman.evaluation.report import paired_rows, score_rows, sentence_rows
from dragoman.evaluation.scores import Score, check_aligned, corpus_score, sentence_scores
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
    "check_aligned",
    "compare",
    "corpus_score",
    "paired_rows",
    "score_rows",
    "sentence_rows",
    "sentence_scores",
]
