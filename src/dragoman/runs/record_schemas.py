"""Schemas of the files in a run folder that are read without PyTorch: scores, environment, origin and configuration.

The files may be damaged or made by someone else, so their readers rely on these types only. Other keys are kept.
"""

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt, model_validator


class Record(BaseModel):
    """Base class of schemas, which convert no text to numbers."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class _Score(Record):
    metric: str
    value: float
    signature: str
    higher_is_better: bool


class ScoresRecord(Record):
    """Schema of scores.json."""

    weights: str
    seconds: NonNegativeFloat
    steps: NonNegativeInt
    tokens: NonNegativeInt
    scores: dict[str, list[_Score]]
    model: dict[str, Any] | None = None


class _Corpus(Record):
    file: str
    sha256: str


class EnvironmentRecord(Record):
    """Schema of environment.json."""

    corpora: list[_Corpus] = []
    tokenizer: str | None = None


class ExportRecord(Record):
    """Schema of export.json."""

    run: str | None = None
    compute_type: str | None = None


class _Order(Record):
    size: int
    pad: int | None
    unk: int | None
    bos: int | None
    eos: int | None
    mask: int | None
    ends: list[int] = []


class OriginRecord(Record):
    """Schema of origin.json, the origin of an imported model."""

    format: str
    family: str | None
    version: str | None
    license: str | None
    url: str | None = None
    orders: dict[str, _Order]
    files: list[_Corpus]
    documents: dict[str, Any]
    number_formats: dict[str, str]
    self_check: dict[str, Any]


Share = Annotated[float, Field(ge=0, le=1)]
Percentage = Annotated[float, Field(ge=0, le=100)]


class _Curve(Record):
    confidences: list[Share] = Field(min_length=1, max_length=1000)
    scores: list[Percentage]

    @model_validator(mode="after")
    def _check_points(self) -> Self:
        if len(self.scores) != len(self.confidences) or sorted(self.confidences) != self.confidences:
            raise ValueError("needs a score for each confidence, which increase")
        return self


class _Statistics(Record):
    mean_log_ratio: float
    max_deviation: NonNegativeFloat
    scripts: list[str]
    copies: bool


class QualityRecord(Record):
    """Schema of quality.json, the profile of a model by which its translations are checked."""

    pairs: NonNegativeInt
    curve: _Curve
    statistics: _Statistics


class AlignmentRecord(Record):
    """Schema of alignment.json, the cross-attention that aligns the words of a model."""

    layer: NonNegativeInt
    head: NonNegativeInt | None
    shifted: bool


class _Model(Record):
    kind: str


class _Training(Record):
    max_steps: NonNegativeInt | None = None
    max_epochs: NonNegativeInt | None = None


class ConfigRecord(Record):
    """Schema of a complete config.yaml, as far as it is read without PyTorch."""

    task: str = "translation"
    model: _Model
    data: dict[str, Any]
    training: _Training
    decoding: dict[str, Any] = {}
