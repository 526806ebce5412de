"""Metrics, significance tests and error analysis of output texts; every score has a comparable signature."""

from dragoman.evaluation.alignment import (
    AlignmentScores,
    GoldAlignment,
    alignment_agreement,
    alignment_scores,
    read_gold_alignments,
)
from dragoman.evaluation.classification import ClassScores, ConfusionMatrix, classification_scores, confusion_matrix
from dragoman.evaluation.metrics import Bleu, Chrf, ChrfPlusPlus, ExactMatch, Metric, Rouge, Ter
from dragoman.evaluation.report import comparison_rows, score_rows, sentence_rows
from dragoman.evaluation.scores import Score, check_aligned, corpus_score, perplexity, sentence_scores
from dragoman.evaluation.significance import PairedResult, compare_systems
from dragoman.evaluation.squad import exact_match, span_f1, span_scores

__all__ = [
    "AlignmentScores",
    "Bleu",
    "Chrf",
    "ChrfPlusPlus",
    "ClassScores",
    "ConfusionMatrix",
    "ExactMatch",
    "GoldAlignment",
    "Metric",
    "PairedResult",
    "Rouge",
    "Score",
    "Ter",
    "alignment_agreement",
    "alignment_scores",
    "check_aligned",
    "classification_scores",
    "compare_systems",
    "comparison_rows",
    "confusion_matrix",
    "corpus_score",
    "exact_match",
    "perplexity",
    "read_gold_alignments",
    "score_rows",
    "sentence_rows",
    "sentence_scores",
    "span_f1",
    "span_scores",
]
