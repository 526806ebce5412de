"""Quality signals of a translation: how sure the model was, and warnings about its text."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from dragoman.decoding.hypothesis import Hypothesis
from dragoman.evaluation.translation_checks import CheckKind, TranslationIssue, check_translation


@final
@dataclass(frozen=True, slots=True)
class QualitySignals:
    """What tells a person where to look: the confidence of a model, and warnings."""

    confidence: float
    """Geometric mean of the probabilities of the tokens that the model chose, from 0 to 1."""
    warnings: tuple[TranslationIssue, ...] = ()

    @property
    def kinds(self) -> frozenset[CheckKind]:
        """Return the kinds of the warnings."""
        return frozenset(one.kind for one in self.warnings)

    def to_dict(self) -> dict[str, Any]:
        """Return the object `quality` in the records of `dragoman translate --format jsonl`."""
        return {
            "confidence": self.confidence,
            "warnings": [{"kind": one.kind, "message": one.message} for one in self.warnings],
        }


@final
@dataclass(frozen=True, slots=True)
class ModelTexts:
    """Source as the model read it and output as the model wrote it: without the markup that is put back later."""

    source: str
    output: str


def quality_signals(texts: ModelTexts, hypothesis: Hypothesis, *, unmet: Sequence[str] = ()) -> QualitySignals:
    """Return the signals of a translation; `unmet` names the words of constraints that it does not meet."""
    warnings = list(check_translation(texts.source, texts.output))
    if not hypothesis.finished:
        warnings.append(TranslationIssue("cut_off", "The length limit cut the translation off."))
    warnings += [
        TranslationIssue("unmet", f"The translation does not meet the constraint on “{one}”.") for one in unmet
    ]
    return QualitySignals(mean_probability(hypothesis.token_log_probs), tuple(warnings))


def mean_probability(log_probs: Sequence[float]) -> float:
    """Return the geometric mean of the probabilities of tokens. Those that a search forces have log-probabilities of 0,
    and are left out.
    """
    chosen = [one for one in log_probs if one]
    return math.exp(sum(chosen) / len(chosen)) if chosen else 1.0
