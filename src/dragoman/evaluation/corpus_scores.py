"""Corpus and sentence scores of outputs against references.

References have the layout of sacreBLEU: `references[k][i]` is reference `k` of sentence `i`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.base import Metric as SacrebleuMetric
from sacrebleu.metrics.base import Score as SacrebleuScore

from dragoman.errors import DataError
from dragoman.evaluation.metrics import Metric, build_metric, higher_is_better

Row = dict[str, str | float | bool | None]
"""Plain data for JSON and tables."""


@dataclass(frozen=True, slots=True)
class Score:
    """Score with the name and signature of sacreBLEU, which make it comparable."""

    metric: str
    value: float
    signature: str
    detail: str
    higher_is_better: bool

    def __str__(self) -> str:
        return f"{self.metric}|{self.signature} = {self.value:.2f} {self.detail}".rstrip()


def corpus_score(hypotheses: Sequence[str], references: Sequence[Sequence[str]], metric: Metric) -> Score:
    """Score a whole corpus, in percent. Raises DataError if the numbers of sentences differ or are zero."""
    check_aligned(hypotheses, references)
    scorer = build_metric(metric)
    return _score(scorer.corpus_score(hypotheses, references), scorer, metric)


def sentence_scores(hypotheses: Sequence[str], references: Sequence[Sequence[str]], metric: Metric) -> list[Score]:
    """Score each sentence, in percent; the mean is not the corpus score. Raises DataError as `corpus_score` does."""
    check_aligned(hypotheses, references)
    scorer = build_metric(metric, sentence_level=True)
    rows = zip(hypotheses, *references, strict=True)
    return [_score(scorer.sentence_score(hypothesis, accepted), scorer, metric) for hypothesis, *accepted in rows]


def check_aligned(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, names: Sequence[str] | None = None
) -> None:
    """Raise DataError unless hypotheses and references have the same number of sentences, at least one.

    `names` of the hypotheses and of each reference appear in the message.
    """
    first, *others = names or ["hypotheses", *(f"reference {number}" for number, _ in enumerate(references, start=1))]
    if not references:
        raise DataError("no reference is given; give at least one")
    if not hypotheses:
        raise DataError(f"{first}: contains no sentences; give at least one")
    for name, sentences in zip(others, references, strict=True):
        if len(sentences) != len(hypotheses):
            raise DataError(
                f"{name}: {len(sentences):,} sentences, but {first} has {len(hypotheses):,}; "
                "give files that match line by line"
            )


def _score(computed: SacrebleuScore, scorer: SacrebleuMetric, metric: Metric) -> Score:
    return Score(
        metric=computed.name,
        value=float(computed.score),
        signature=str(scorer.get_signature()),
        detail=computed._verbose,
        higher_is_better=higher_is_better(metric),
    )


def perplexity(cross_entropy: float) -> float:
    """Return $e^H$ of a cross-entropy $H$ in nats, or infinity beyond the range of floats."""
    return math.exp(cross_entropy) if cross_entropy < 700 else math.inf


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
