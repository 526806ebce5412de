"""Scores as rows of plain data, ready for JSON, a table or a model card."""

from collections.abc import Sequence

from dragoman.evaluation.scores import Score
from dragoman.evaluation.significance import Paired

Row = dict[str, str | float | bool | None]


def score_rows(scores: Sequence[Score]) -> list[Row]:
    """One row a score."""
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
    """One row a sentence, a column a metric, lines counted from 1; `columns` hold the scores metric by metric."""
    return [
        {"line": line, **{score.metric: round(score.value, 4) for score in scores}}
        for line, scores in enumerate(zip(*columns, strict=True), start=1)
    ]


def paired_rows(compared: Sequence[Paired]) -> list[Row]:
    """One row for each metric and system, with the verdict on which both tests agree."""
    return [
        {
            "metric": paired.metric,
            "system": paired.system,
            "score": round(paired.score, 4),
            "mean": round(paired.mean, 4),
            "interval": round(paired.interval, 4),
            "difference": None if paired.difference is None else round(paired.difference, 4),
            "p_bootstrap": paired.p_bootstrap,
            "p_randomisation": paired.p_randomisation,
            "verdict": paired.verdict(),
            "signature": paired.signature,
        }
        for paired in compared
    ]
