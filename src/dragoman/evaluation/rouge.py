"""ROUGE as a sacreBLEU metric, computed by rouge-score, with several references and paired tests.

rouge-score lower-cases the text and treats every character but a to z and 0 to 9 as a separator. With several
references, the best F1 counts. The corpus score is the mean over the outputs, as is usual for summaries.
"""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, Literal, final

from sacrebleu.metrics.base import Metric as SacrebleuMetric
from sacrebleu.metrics.base import Score, Signature

from dragoman.errors import MissingExtraError

Variant = Literal["1", "2", "L", "Lsum"]


@final
class _RougeSignature(Signature):
    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        self.info |= {"case": "lc", "stem": settings["stemmer"], "average": "mean"}
        self.info["rouge-score"] = version("rouge-score")


@final
class RougeMetric(SacrebleuMetric):
    """Mean F1 of the outputs in percent. The statistics of a segment are (F1, 1)."""

    _SIGNATURE_TYPE: type[Signature] = _RougeSignature

    def __init__(self, *, variant: Variant, stemmer: bool) -> None:
        """Raises MissingExtraError if rouge-score is not installed."""
        super().__init__()  # type: ignore[no-untyped-call]  # sacreBLEU has no annotations
        self.variant = variant
        self.stemmer = stemmer
        self._scorer = _scorer(variant, stemmer=stemmer)

    def _preprocess_segment(self, sent: str) -> str:
        return sent

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        return {"references": list(refs)}

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[float]:
        best = self._scorer.score_multi(ref_kwargs["references"], hypothesis)
        return [float(best[f"rouge{self.variant}"].fmeasure), 1.0]

    def _compute_score_from_stats(self, stats: Sequence[float]) -> Score:
        total, outputs = stats
        return Score(f"ROUGE-{self.variant}", 100 * float(total) / float(outputs))

    def _aggregate_and_compute(self, stats: Sequence[Sequence[float]]) -> Score:
        return self._compute_score_from_stats([sum(column) for column in zip(*stats, strict=True)])


def _scorer(variant: Variant, *, stemmer: bool) -> Any:
    try:
        from rouge_score.rouge_scorer import RougeScorer  # type: ignore[import-untyped]
        from rouge_score.tokenizers import DefaultTokenizer  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtraError(feature="ROUGE", extra="rouge") from error
    return RougeScorer([f"rouge{variant}"], tokenizer=DefaultTokenizer(stemmer))
