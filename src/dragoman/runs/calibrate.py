"""Calibrate the confidence of a translator on held-out pairs."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Unpack, final

from dragoman.evaluation.quality_profile import CalibrationReport, QualityProfile, check_pairs, measure_profile
from dragoman.inference.translator import Translator
from dragoman.inference.typography import Typography
from dragoman.runs.choose_alignment_head import HeadChoice, choose_alignment_head
from dragoman.runs.evaluate import EvaluationOptions, read_test_set
from dragoman.runs.load import load, open_run


@final
@dataclass(frozen=True, slots=True)
class CalibrationResult:
    """Profile of a run, and how well its confidence predicts the quality of its translations."""

    path: Path
    profile: QualityProfile
    report: CalibrationReport
    alignment: HeadChoice | None
    """Cross-attention that aligns words best; None for models without a choice."""

    def to_dict(self) -> dict[str, Any]:
        """Return the record of `dragoman calibrate --json`."""
        alignment = {} if self.alignment is None else {"alignment": asdict(self.alignment)}
        return {"path": str(self.path), "pairs": self.profile.pairs, **asdict(self.report), **alignment}

    def describe(self) -> str:
        """Return the lines that `dragoman calibrate` prints."""
        report, scores = self.report, self.profile.curve.scores
        return (
            f"{self.profile.pairs:,} pairs with a mean sentence chrF of {report.chrf:.1f}\n"
            f"correlation of confidence and sentence chrF: {report.pearson:.2f} (Pearson), "
            f"{report.spearman:.2f} (Spearman)\n"
            f"expected sentence chrF: from {scores[0]:.0f} to {scores[-1]:.0f}, mean error {report.error:.1f}\n"
            f"{'' if self.alignment is None else self.alignment.describe()}"
            f"written: {self.path}"
        )


def calibrate(
    run: str | Path,
    *,
    source: str | Path | Iterable[str] | None = None,
    reference: str | Path | Iterable[str] | None = None,
    pairs: str | Path | None = None,
    device: str | None = None,
    **decoding: Unpack[EvaluationOptions],
) -> CalibrationResult:
    """Measure what the confidence of a run is worth, choose its alignment head, and store both in its folder.

    `source` and `reference`, or `pairs`, are held-out pairs, as in `evaluate`: a validation set, since on training data
    a model is surer than on other texts. Translations of the run, loaded again, have an `expected_chrf`, and their tags
    are placed by the cross-attention that aligns the words of the pairs best. Texts that are less like the training
    text than these sources are marked as unfamiliar.
    `decoding` options are those of `Translator.translate`.

    Raises:
        ConfigError: There are no pairs.
        DataError: There are too few pairs, or the numbers of texts differ.
        RunError: The run is no translator.
    """
    sources, references = read_test_set(source, reference, pairs)
    check_pairs(len(sources))
    translator = load(run, Translator, device=device)
    found = translator.translate(sources, **decoding)
    texts, confidences = [one.text for one in found], [one.quality.confidence for one in found]
    profile, report = measure_profile(sources, texts, references, confidences)
    folder = open_run(run)
    choice = choose_alignment_head(run, sources, references)
    folder.write_quality(profile)
    if (familiarity := folder.read_familiarity()) is not None:
        read = Typography(translator.tokenizer).tokenizer.source
        familiarity.calibrate(read.encode_batch(sources)).save(folder.familiarity)
    if choice is not None:
        folder.write_alignment(asdict(choice.head))
    return CalibrationResult(folder.quality, profile, report, choice)
