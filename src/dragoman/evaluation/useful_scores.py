"""Scores on held-out data that are not good enough for a useful model, and the reasons."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

from dragoman.evaluation.metrics import Score


@final
@dataclass(frozen=True, slots=True)
class _Limit:
    value: float
    reason: str


LIMITS: Final = {
    "BLEU": _Limit(10.0, "hardly any output keeps the meaning of its source"),
    "chrF2": _Limit(30.0, "unrelated sentences of a language reach 12 to 20"),
    "chrF2++": _Limit(30.0, "unrelated sentences of a language reach 12 to 20"),
    "TER": _Limit(90.0, "unrelated sentences of a language have 108 to 120"),
    "ROUGE-L": _Limit(15.0, "unrelated sentences of a language reach 4 to 12"),
    "F1": _Limit(20.0, "most answers share no word with the reference"),
}
"""Limit of each metric, and the reason. The scores of unrelated sentences were measured on the references of Multi30k,
Tatoeba and SciTLDR, each scored against the reference half the set further on. Exact match has no limit, because long
texts are rarely equal."""
MIN_GAIN = 0.1
"""Share of the way from the baseline of a score to a perfect score that a useful model covers."""


def reasons_against(scores: Sequence[Score]) -> list[str]:
    """Return why a model with these scores is not useful, one reason per metric; none if any metric is high enough."""
    judged = [(score, limit) for score in scores if (limit := _limit(score)) is not None]
    if any(_is_better(score, limit.value) for score, limit in judged):
        return []
    return [
        f"{score.metric} is {score.value:z.2f}, useful models have {limit.value:.4g} or "
        f"{'more' if score.higher_is_better else 'less'}: {limit.reason}"
        for score, limit in judged
    ]


def _limit(score: Score) -> _Limit | None:
    """Return the limit of a score: near its baseline, or that of its metric."""
    if score.baseline is None:
        return LIMITS.get(score.metric)
    best = 100.0 if score.higher_is_better else 0.0
    value, description = score.baseline.value, score.baseline.description
    return _Limit(value + MIN_GAIN * (best - value), f"{description} has {value:.4g}")


def _is_better(score: Score, limit: float) -> bool:
    return score.value >= limit if score.higher_is_better else score.value <= limit
