"""Conversion of scores to rows of plain data, for JSON, tables and model cards."""

from collections.abc import Sequence

from dragoman.evaluation.scores import Score
from dragoman.evaluation.significance import PairedResult

Row = dict[str, str | float | bool | None]


def score_rows(scores: Sequence[Score]) -> list[Row]:
    """Return one row per score."""
    return [
        {
            "metric": score.metric,
            "score": round(score.value, 4),
            "signature": score.signature,
            "detail": score.detail,
            "higher_is_better": score.higher_is_better,
        }
        for score in scores
    ]


def sentence_rows(columns: Sequence[Sequence[Score]]) -> list[Row]:
    """Return one row per sentence and one column per metric, with lines from 1; `columns` has one list per metric."""
    return [
        {"line": line, **{score.metric: round(score.value, 4) for score in scores}}
        for line, scores in enumerate(zip(*columns, strict=True), start=1)
    ]


def comparison_rows(compared: Sequence[PairedResult]) -> list[Row]:
    """Return one row per metric and system, with the verdict of both tests."""
    return [
        {
            "metric": paired.metric,
            "system": paired.system,
            "score": round(paired.score, 4),
            "mean": round(paired.mean, 4),
            "confidence": round(paired.confidence, 4),
            "difference": None if paired.difference is None else round(paired.difference, 4),
            "p_bootstrap": paired.p_bootstrap,
            "p_randomization": paired.p_randomization,
            "verdict": paired.verdict(),
            "signature": paired.signature,
        }
        for paired in compared
    ]
