"""Scores of outputs against references, of a whole corpus and of single sentences.

References stand as sacreBLEU has them: one sequence of sentences for each translator, so `references[k][i]` is what
translator `k` made of sentence `i`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.base import Metric as Measure
from sacrebleu.metrics.base import Score as Measured

from dragoman.errors import DataError
from dragoman.evaluation.metrics import Metric, higher_is_better, measure


@dataclass(frozen=True, slots=True)
class Score:
    """A value with what it takes to compare it: the name and signature of sacreBLEU."""

    metric: str
    value: float
    signature: str
    detail: str
    higher_is_better: bool

    def __str__(self) -> str:
        return f"{self.metric}|{self.signature} = {self.value:.2f} {self.detail}".rstrip()


def corpus_score(hypotheses: Sequence[str], references: Sequence[Sequence[str]], metric: Metric) -> Score:
    """The score of all sentences together, in percent. Raises DataError on none or unequal numbers of sentences."""
    check_aligned(hypotheses, references)
    tool = measure(metric)
    return _score(tool.corpus_score(hypotheses, references), tool, metric)


def sentence_scores(hypotheses: Sequence[str], references: Sequence[Sequence[str]], metric: Metric) -> list[Score]:
    """The score of each sentence alone, in percent; their mean is not the score of the corpus. Raises DataError."""
    check_aligned(hypotheses, references)
    tool = measure(metric, one_sentence=True)
    rows = zip(hypotheses, *references, strict=True)
    return [_score(tool.sentence_score(hypothesis, accepted), tool, metric) for hypothesis, *accepted in rows]


def check_aligned(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, names: Sequence[str] | None = None
) -> None:
    """Raise DataError unless there is a sentence, and every reference has as many as the hypotheses.

    `names` (of the hypotheses, then of each reference) say in the message where they came from.
    """
    first, *others = names or ["hypotheses", *(f"reference {number}" for number, _ in enumerate(references, start=1))]
    if not references:
        raise DataError("no reference is given; scores need at least one")
    if not hypotheses:
        raise DataError(f"{first}: holds no sentence; there is nothing to score")
    for name, sentences in zip(others, references, strict=True):
        if len(sentences) != len(hypotheses):
            raise DataError(
                f"{name}: {len(sentences):,} sentences, but {first} has {len(hypotheses):,}; "
                "give files that match line by line"
            )


def _score(measured: Measured, tool: Measure, metric: Metric) -> Score:
    return Score(
        metric=measured.name,
        value=float(measured.score),
        signature=str(tool.get_signature()),
        detail=measured._verbose,
        higher_is_better=higher_is_better(metric),
    )


def perplexity(nats: float) -> float:
    """$e^H$ of a cross-entropy in nats: among so many equally likely words one would be as much in doubt.

    Infinite where floats end.
    """
    return math.exp(nats) if nats < 700 else math.inf
