"""Quality signals of a translation: how sure the model was, and warnings about its text."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from dragoman.evaluation.quality_profile import QualityProfile
from dragoman.evaluation.translation_checks import NO_STATISTICS, CheckKind, TranslationIssue, check_translation

UNFAMILIAR = "The text is unlike the texts that the model was trained on."


@final
@dataclass(frozen=True, slots=True)
class QualitySignals:
    """Signals that tell a person where to look: the confidence of a model, and warnings."""

    confidence: float
    """Mean probability of the tokens that the model chose, from 0 to 1."""
    warnings: tuple[TranslationIssue, ...] = ()
    expected_chrf: float | None = None
    """Mean sentence chrF, from 0 to 100, of translations with this confidence; None without a calibration."""

    @property
    def kinds(self) -> frozenset[CheckKind]:
        """Return the kinds of the warnings."""
        return frozenset(one.kind for one in self.warnings)

    def to_dict(self) -> dict[str, Any]:
        """Return the object `quality` in the records of `dragoman translate --format jsonl`."""
        return {
            "confidence": self.confidence,
            **({} if self.expected_chrf is None else {"expected_chrf": self.expected_chrf}),
            "warnings": [{"kind": one.kind, "message": one.message} for one in self.warnings],
        }


@final
@dataclass(frozen=True, slots=True)
class ModelTexts:
    """Source as the model read it and output as the model wrote it: without the markup that is put back later."""

    source: str
    output: str
    profile: QualityProfile | None = None
    """Profile of the model, where it was calibrated."""
    is_unfamiliar: bool = False
    """Whether the source is unlike those that the model was trained on."""

    @classmethod
    def join(cls, blocks: Sequence["ModelTexts | None"]) -> "ModelTexts | None":
        """Return the texts of several blocks, one on each line; None where one is unknown."""
        known = [one for one in blocks if one is not None]
        if not known or len(known) < len(blocks):
            return None
        return cls(
            "\n".join(texts.source for texts in known),
            "\n".join(texts.output for texts in known),
            known[0].profile,
            any(texts.is_unfamiliar for texts in known),
        )


def quality_signals(
    texts: ModelTexts, log_probs: Sequence[float], *, finished: bool, unmet: Sequence[str] = ()
) -> QualitySignals:
    """Return the signals of a translation; `unmet` names the words of constraints that it does not meet.

    `log_probs` are those of the tokens that the search chose.
    """
    profile = texts.profile
    warnings = list(check_translation(texts.source, texts.output, profile.statistics if profile else NO_STATISTICS))
    if texts.is_unfamiliar:
        warnings.append(TranslationIssue("unfamiliar", UNFAMILIAR))
    if not finished:
        warnings.append(TranslationIssue("cut_off", "The length limit cut the translation off."))
    warnings += [
        TranslationIssue("unmet", f"The translation does not meet the constraint on “{one}”.") for one in unmet
    ]
    confidence = mean_probability(log_probs)
    return QualitySignals(confidence, tuple(warnings), profile.curve(confidence) if profile else None)


def mean_probability(log_probs: Sequence[float]) -> float:
    """Return the mean of the probabilities of tokens that a search chose, 1 without any.

    It predicts the quality of a sentence better than the mean log-probability (`TP` of Fomicheva et al., 2020,
    Unsupervised Quality Estimation for Neural Machine Translation), the minimum, the share of the source that attention
    covers, and their combinations.
    """
    return sum(map(math.exp, log_probs)) / len(log_probs) if log_probs else 1.0
