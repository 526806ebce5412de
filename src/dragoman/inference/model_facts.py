"""Facts about the model of a translator that its weights and tokenizer do not tell."""

from dataclasses import dataclass
from typing import Final, final

from dragoman.evaluation.quality_profile import QualityProfile
from dragoman.evaluation.source_familiarity import SourceFamiliarity
from dragoman.inference.text_segmentation import DEFAULT_LANGUAGE
from dragoman.models.alignment_head import AlignmentHead


@final
@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What training and calibration recorded in the folder of a model; None where it is unknown."""

    source_language: str = DEFAULT_LANGUAGE
    """Code of the language by whose rules texts are split into sentences, unless a call names another."""
    quality_profile: QualityProfile | None = None
    """Calibration of the confidence, and statistics by which translations are checked."""
    familiarity: SourceFamiliarity | None = None
    """Model of the training sources, by which texts unlike them are marked."""
    alignment_head: AlignmentHead | None = None
    """Cross-attention by which tags are placed; None for `AlignmentHead.default`."""


NO_FACTS: Final = ModelFacts()
