"""Whether a difference between systems is more than chance: two paired tests over sacreBLEU's sufficient statistics.

- Paired bootstrap (Koehn, 2004): the test set is drawn anew with replacement; p is how often the difference moves away
  from its mean by as much as the difference observed.
- Approximate randomisation (Riezler and Maxwell, 2005): the outputs of the two systems are swapped at random, sentence
  by sentence; p is how often that yields a difference as great as the one observed, mostly the stricter.

Both are two-sided and add one to count and trials, so p is never zero. The draws are those of
`sacrebleu.significance` with the same seed, and so are the results, with one exception: a trial that ties with the
observed difference counts here, as Riezler and Maxwell have it. sacreBLEU 2.6 leaves ties out, and therefore finds
p = 0.0001 for a system compared with itself, or for two systems that differ in one sentence by exact match.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.base import Metric as Measure
from sacrebleu.significance import estimate_ci

from dragoman.errors import DataError
from dragoman.evaluation.metrics import Metric, higher_is_better, measure
from dragoman.evaluation.scores import check_aligned

Numbers = npt.NDArray[np.float64]
Verdict = Literal["baseline", "better", "worse", "no difference"]
TIE = 1e-9
"""Scores nearer than this are equal: the sums of a score may differ by rounding from trial to trial."""
TOGETHER = 256
"""How many trials are summed at once; bounds the memory, not the result."""


@dataclass(frozen=True, slots=True)
class Paired:
    """One system beside the baseline, under one metric; the baseline itself has no difference and no p.

    `mean` and `interval` are the mean and half the width of the 95 % confidence interval over the bootstrap samples.
    """

    system: str
    metric: str
    score: float
    mean: float
    interval: float
    difference: float | None
    p_bootstrap: float | None
    p_randomisation: float | None
    higher_is_better: bool
    signature: str

    def verdict(self, *, level: float = 0.05) -> Verdict:
        """What both tests agree on at a level of significance."""
        if self.difference is None or self.p_bootstrap is None or self.p_randomisation is None:
            return "baseline"
        if max(self.p_bootstrap, self.p_randomisation) >= level:
            return "no difference"
        return "better" if (self.difference > 0) == self.higher_is_better else "worse"


@dataclass(frozen=True, slots=True)
class _Outputs:
    """One system under one metric: the statistics of each sentence, its score, and its scores over the samples."""

    statistics: Numbers
    score: float
    resampled: Numbers


def compare(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    metrics: Sequence[Metric],
    *,
    seed: int = 12345,
    resamples: int = 1000,
    trials: int = 10_000,
) -> list[Paired]:
    """Every system under every metric, the first system being the baseline; metric by metric, in the order given.

    Raises DataError on fewer than two systems and on outputs that do not match the references line by line.
    """
    if len(systems) < 2:
        raise DataError("compare needs two systems or more; give another file of outputs")
    names = [f"reference {number}" for number, _ in enumerate(references, start=1)]
    for name, outputs in systems.items():
        check_aligned(outputs, references, names=[name, *names])
    return [
        row
        for metric in metrics
        for row in _under(metric, systems, references, seed=seed, resamples=resamples, trials=trials)
    ]


def _under(
    metric: Metric,
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    *,
    seed: int,
    resamples: int,
    trials: int,
) -> list[Paired]:
    tool = measure(metric)
    name = tool.corpus_score(next(iter(systems.values())), references).name
    signature = tool.get_signature()
    for key, value in (("bs", resamples), ("ar", trials), ("seed", seed)):
        signature.update(key, value)
    scored = {
        system: _outputs(tool, np.asarray(tool._extract_corpus_statistics(outputs, references), float), seed, resamples)
        for system, outputs in systems.items()
    }
    baseline, *_ = scored.values()
    rows = []
    for system, outputs in scored.items():
        itself = outputs is baseline
        mean, interval = estimate_ci(outputs.resampled)
        rows.append(
            Paired(
                system=system,
                metric=name,
                score=outputs.score,
                mean=float(mean),
                interval=float(interval),
                difference=None if itself else outputs.score - baseline.score,
                p_bootstrap=None if itself else _bootstrap(baseline, outputs),
                p_randomisation=None if itself else _randomisation(tool, baseline, outputs, seed=seed, trials=trials),
                higher_is_better=higher_is_better(metric),
                signature=str(signature),
            )
        )
    return rows


def _outputs(tool: Measure, statistics: Numbers, seed: int, resamples: int) -> _Outputs:
    """Score a system whole, and on samples of its sentences; one seed draws the same samples for every system."""
    generator = np.random.default_rng(seed)
    sentences = len(statistics)
    drawn = (generator.choice(sentences, size=sentences, replace=True) for _ in range(resamples))
    totals = np.stack([np.bincount(rows, minlength=sentences) @ statistics for rows in drawn])
    (score,) = _scores(tool, statistics.sum(axis=0, keepdims=True))
    return _Outputs(statistics=statistics, score=float(score), resampled=_scores(tool, totals))


def _bootstrap(baseline: _Outputs, system: _Outputs) -> float:
    differences = np.abs(system.resampled - baseline.resampled)
    return _p(differences - differences.mean(), observed=abs(system.score - baseline.score))


def _randomisation(tool: Measure, baseline: _Outputs, system: _Outputs, *, seed: int, trials: int) -> float:
    stay = np.random.default_rng(seed).integers(2, size=(trials, len(system.statistics)), dtype=bool)
    change = system.statistics - baseline.statistics
    moved = np.concatenate([stay[start : start + TOGETHER] @ change for start in range(0, trials, TOGETHER)])
    one = _scores(tool, system.statistics.sum(axis=0) - moved)
    other = _scores(tool, baseline.statistics.sum(axis=0) + moved)
    return _p(np.abs(one - other), observed=abs(system.score - baseline.score))


def _p(differences: Numbers, *, observed: float) -> float:
    """(1 + trials at least as far as observed) / (1 + trials)."""
    return (1 + int(np.sum(differences >= observed - TIE))) / (1 + len(differences))


def _scores(tool: Measure, totals: Numbers) -> Numbers:
    """The score that belongs to each row of summed statistics."""
    return np.array([tool._compute_score_from_stats(list(row)).score for row in totals])
