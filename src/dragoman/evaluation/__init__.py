"""Metrics, significance tests and error analysis of output texts; every score has a comparable signature."""

from dragoman.evaluation.metrics import (
    Baseline,
    Bleu,
    Chrf,
    ChrfPlusPlus,
    ExactMatch,
    Metric,
    MetricName,
    Rouge,
    Score,
    Ter,
    check_aligned,
    corpus_score,
    perplexity,
    require_metrics,
    sentence_rows,
    sentence_scores,
)
from dragoman.evaluation.significance import PairedResult, compare_systems

__all__ = [
    "Baseline",
    "Bleu",
    "Chrf",
    "ChrfPlusPlus",
    "ExactMatch",
    "Metric",
    "MetricName",
    "PairedResult",
    "Rouge",
    "Score",
    "Ter",
    "check_aligned",
    "compare_systems",
    "corpus_score",
    "perplexity",
    "require_metrics",
    "sentence_rows",
    "sentence_scores",
]
