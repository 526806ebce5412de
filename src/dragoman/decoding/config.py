"""What a person may ask of a search."""

import math
from typing import Annotated, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from dragoman.config import Config


class Average(Config):
    r"""$\log p(y) / |y|^\alpha$; `alpha` 1 is the mean over symbols, a greater one favours long outputs."""

    kind: Literal["average"] = "average"
    alpha: float = Field(default=1.0, description="exponent of the length")


class Gnmt(Config):
    r"""$\log p(y) / ((5 + |y|) / 6)^\alpha$ (Wu et al., 2016, equation 14, without the coverage penalty)."""

    kind: Literal["gnmt"] = "gnmt"
    alpha: float = Field(default=0.6, description="exponent of the length term")


class Raw(Config):
    r"""$\log p(y)$ as it is, which favours short outputs."""

    kind: Literal["raw"] = "raw"


MOST = 2**20
"""Hypotheses of a beam, which is more than there is memory for."""
Normalisation = Annotated[Average | Gnmt | Raw, Field(discriminator="kind")]


class Likeliest(Config):
    """What has the best score."""

    kind: Literal["likeliest"] = "likeliest"


class MinimumBayesRisk(Config):
    """What agrees best with the whole beam: the highest BLEU that is expected if one of it is the reference.

    Kumar and Byrne (2004). Each of the beam is the reference with the probability that it has among them, all being
    taken for as long as the best; it wants a beam of ten or so.
    """

    kind: Literal["minimum_bayes_risk"] = "minimum_bayes_risk"
    temperature: float = Field(
        default=1.0, ge=0.01, le=100, description="divides log-probabilities; greater ones give all a more equal say"
    )


Choice = Annotated[Likeliest | MinimumBayesRisk, Field(discriminator="kind")]


class LengthLimit(Config):
    """The most tokens of an output: `factor` times the tokens of the source plus `offset`, and at most `absolute`."""

    factor: float = Field(default=2.0, ge=0, description="tokens for each token of the source")
    offset: int = Field(default=20, ge=0, description="tokens for any source")
    absolute: PositiveInt = Field(default=2000, description="most tokens whatever the source")

    def of(self, source_length: int) -> int:
        """The limit for a source of so many tokens, at least 1."""
        return max(1, min(self.absolute, math.floor(self.factor * source_length) + self.offset))


class SearchSettings(Config):
    """How outputs are searched and ranked. Fewest and most tokens are counted without the end symbol."""

    beam: PositiveInt = Field(default=5, le=MOST, description="hypotheses that go on at a time; 1 is greedy")
    best: PositiveInt = Field(default=1, description="translations returned for each source; at most beam")
    normalisation: Normalisation = Average()
    choice: Choice = Field(default=Likeliest(), description="what is given out of a beam")
    minimum_length: int = Field(default=0, ge=0, description="fewest tokens of an output")
    maximum_length: LengthLimit = LengthLimit()
    allow_unknown: bool = Field(default=True, description="let the unknown symbol stand in an output")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.best > self.beam:
            raise ValueError(
                f"best = {self.best} is more than a beam of {self.beam} can return; raise beam to {self.best}"
            )
        if self.minimum_length > self.maximum_length.absolute:
            raise ValueError(
                f"minimum_length = {self.minimum_length} is above maximum_length.absolute = "
                f"{self.maximum_length.absolute}; lower the one or raise the other"
            )
        return self

    @property
    def candidates(self) -> int:
        """How many hypotheses a search must find for those given out to be chosen."""
        return self.best if isinstance(self.choice, Likeliest) else self.beam

    def limit(self, source_length: int) -> int:
        """The most tokens of the output for a source of so many tokens; never below the minimum."""
        return max(self.minimum_length, self.maximum_length.of(source_length))
