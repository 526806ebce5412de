"""Paired significance tests between systems, on the sufficient statistics of sacreBLEU.

- Paired bootstrap (Koehn, 2004): resample the test set with replacement; p is the fraction of samples whose difference
  deviates from its mean by at least the observed difference.
- Approximate randomization (Riezler and Maxwell, 2005): swap the outputs of two systems at random, sentence by
  sentence; p is the fraction of trials with at least the observed difference. Usually this test is stricter.

Both are two-sided and add one to count and trials, so p is never zero. Random draws and results equal those of
`sacrebleu.significance` with the same seed, with one exception: trials that tie with the observed difference count
here, as in Riezler and Maxwell. sacreBLEU 2.6 ignores ties, and therefore finds p = 0.0001 for a system compared with
itself, or for two systems that differ in one sentence by exact match.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.base import Metric as SacrebleuMetric
from sacrebleu.significance import estimate_ci

from dragoman.errors import DataError
from dragoman.evaluation.metrics import Metric, Row, build_metric, check_aligned, higher_is_better

_Numbers = npt.NDArray[np.float64]
Verdict = Literal["baseline", "better", "worse", "no difference"]
TIE = 1e-9
"""Scores closer than this are equal, because sums may differ by rounding between trials."""
TRIALS_PER_CHUNK = 256
"""Number of trials summed at once, to limit memory; it does not affect the result."""


@dataclass(frozen=True, slots=True)
class PairedResult:
    """Comparison of one system with the baseline under one metric; for the baseline, difference and p are None.

    `mean` and `confidence` are the mean and half the width of the 95 % confidence interval over the bootstrap samples.
    """

    system: str
    metric: str
    score: float
    mean: float
    confidence: float
    difference: float | None
    p_bootstrap: float | None
    p_randomization: float | None
    higher_is_better: bool
    signature: str

    def verdict(self, *, level: float = 0.05) -> Verdict:
        """Return the conclusion on which both tests agree at a significance level."""
        if self.difference is None or self.p_bootstrap is None or self.p_randomization is None:
            return "baseline"
        if max(self.p_bootstrap, self.p_randomization) >= level:
            return "no difference"
        return "better" if (self.difference > 0) == self.higher_is_better else "worse"

    def row(self) -> Row:
        """Return the fields as plain data, with the verdict of both tests."""
        return {
            "metric": self.metric,
            "system": self.system,
            "score": round(self.score, 4),
            "mean": round(self.mean, 4),
            "confidence": round(self.confidence, 4),
            "difference": None if self.difference is None else round(self.difference, 4),
            "p_bootstrap": self.p_bootstrap,
            "p_randomization": self.p_randomization,
            "verdict": self.verdict(),
            "signature": self.signature,
        }


@dataclass(frozen=True, slots=True)
class _SystemScores:
    """One system under one metric: statistics per sentence, corpus score, and scores of the bootstrap samples."""

    statistics: _Numbers
    score: float
    resampled: _Numbers


def compare_systems(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    metrics: Sequence[Metric],
    *,
    seed: int = 12345,
    resamples: int = 1000,
    trials: int = 10_000,
) -> list[PairedResult]:
    """Compare every system with the first one, the baseline, under every metric.

    Raises DataError for fewer than two systems, or for outputs that do not match the references line by line.
    """
    if len(systems) < 2:
        raise DataError("a comparison needs at least two systems; give another file of outputs")
    names = [f"reference {number}" for number, _ in enumerate(references, start=1)]
    for name, outputs in systems.items():
        check_aligned(outputs, references, names=[name, *names])
    return [
        row
        for metric in metrics
        for row in _compare_metric(metric, systems, references, seed=seed, resamples=resamples, trials=trials)
    ]


def _compare_metric(
    metric: Metric,
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    *,
    seed: int,
    resamples: int,
    trials: int,
) -> list[PairedResult]:
    scorer = build_metric(metric)
    name = scorer.corpus_score(next(iter(systems.values())), references).name
    signature = scorer.get_signature()
    for key, value in (("bs", resamples), ("ar", trials), ("seed", seed)):
        signature.update(key, value)
    statistics = {
        system: np.asarray(scorer._extract_corpus_statistics(outputs, references), float)
        for system, outputs in systems.items()
    }
    scored = {system: _score_system(scorer, one, seed, resamples) for system, one in statistics.items()}
    baseline, *_ = scored.values()
    rows = []
    for system, one in scored.items():
        mean, interval = map(float, estimate_ci(one.resampled))
        tests: tuple[float | None, float | None, float | None] = (None, None, None)
        if one is not baseline:
            p_randomization = _randomization(scorer, baseline, one, seed=seed, trials=trials)
            tests = (one.score - baseline.score, _bootstrap(baseline, one), p_randomization)
        facts = (higher_is_better(metric), str(signature))
        rows.append(PairedResult(system, name, one.score, mean, interval, *tests, *facts))
    return rows


def _score_system(scorer: SacrebleuMetric, statistics: _Numbers, seed: int, resamples: int) -> _SystemScores:
    """Score a system on the test set and on bootstrap samples, which are the same for every system."""
    generator = np.random.default_rng(seed)
    sentences = len(statistics)
    samples = (generator.choice(sentences, size=sentences, replace=True) for _ in range(resamples))
    totals = np.stack([np.bincount(rows, minlength=sentences) @ statistics for rows in samples])
    (score,) = _scores(scorer, statistics.sum(axis=0, keepdims=True))
    return _SystemScores(statistics=statistics, score=float(score), resampled=_scores(scorer, totals))


def _bootstrap(baseline: _SystemScores, system: _SystemScores) -> float:
    differences = np.abs(system.resampled - baseline.resampled)
    return _p_value(differences - differences.mean(), observed=abs(system.score - baseline.score))


def _randomization(
    scorer: SacrebleuMetric, baseline: _SystemScores, system: _SystemScores, *, seed: int, trials: int
) -> float:
    keep = np.random.default_rng(seed).integers(2, size=(trials, len(system.statistics)), dtype=bool)
    change = system.statistics - baseline.statistics
    swapped = np.concatenate(
        [keep[start : start + TRIALS_PER_CHUNK] @ change for start in range(0, trials, TRIALS_PER_CHUNK)]
    )
    first = _scores(scorer, system.statistics.sum(axis=0) - swapped)
    second = _scores(scorer, baseline.statistics.sum(axis=0) + swapped)
    return _p_value(np.abs(first - second), observed=abs(system.score - baseline.score))


def _p_value(differences: _Numbers, *, observed: float) -> float:
    """Return (1 + trials with at least the observed difference) / (1 + trials)."""
    return (1 + int(np.sum(differences >= observed - TIE))) / (1 + len(differences))


def _scores(scorer: SacrebleuMetric, totals: _Numbers) -> _Numbers:
    """Return the score of each row of summed statistics."""
    return np.array([scorer._compute_score_from_stats(list(row)).score for row in totals])
