"""Strings in, scores out, each with the signature that makes it comparable."""

from dragoman.evaluation.alignment import AlignmentScores, GoldAlignment, agreement, alignment_scores, read_gold
from dragoman.evaluation.classification import ClassScores, Confusion, classification_scores, confusion
from dragoman.evaluation.metrics import Bleu, Chrf, ChrfPlusPlus, ExactMatch, Metric, Rouge, Ter
from dragoman.evaluation.report import paired_rows, score_rows, sentence_rows
from dragoman.evaluation.scores import Score, check_aligned, corpus_score, perplexity, sentence_scores
from dragoman.evaluation.significance import Paired, compare
from dragoman.evaluation.squad import exact_match, span_f1, span_scores

__all__ = [
    "AlignmentScores",
    "Bleu",
    "Chrf",
    "ChrfPlusPlus",
    "ClassScores",
    "Confusion",
    "ExactMatch",
    "GoldAlignment",
    "Metric",
    "Paired",
    "Rouge",
    "Score",
    "Ter",
    "agreement",
    "alignment_scores",
    "check_aligned",
    "classification_scores",
    "compare",
    "confusion",
    "corpus_score",
    "exact_match",
    "paired_rows",
    "perplexity",
    "read_gold",
    "score_rows",
    "sentence_rows",
    "sentence_scores",
    "span_f1",
    "span_scores",
]
