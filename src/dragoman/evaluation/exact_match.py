"""Exact match as a sacreBLEU metric, with signature, several references and paired tests."""

from collections.abc import Sequence
from typing import Any, final

from sacrebleu.metrics.base import Metric as SacrebleuMetric
from sacrebleu.metrics.base import Score, Signature


@final
class _ExactMatchSignature(Signature):
    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        self.info["case"] = "lc" if settings["lowercase"] else "mixed"


@final
class ExactMatchMetric(SacrebleuMetric):
    """Percentage of outputs that equal one of their references. The statistics of a segment are (equal, 1)."""

    _SIGNATURE_TYPE: type[Signature] = _ExactMatchSignature

    def __init__(self, *, lowercase: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # sacreBLEU has no annotations
        self.lowercase = lowercase

    def _preprocess_segment(self, sent: str) -> str:
        text = sent.strip()
        return text.lower() if self.lowercase else text

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        return {"accepted": set(refs)}

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[int]:
        return [int(hypothesis in ref_kwargs["accepted"]), 1]

    def _compute_score_from_stats(self, stats: Sequence[float]) -> Score:
        equal, outputs = stats
        return Score("exact", 100 * float(equal) / float(outputs))

    def _aggregate_and_compute(self, stats: Sequence[Sequence[float]]) -> Score:
        return self._compute_score_from_stats([sum(column) for column in zip(*stats, strict=True)])
