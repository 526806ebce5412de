"""Which texts a run learns from, and how they are cleaned."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dragoman.config import Config
from dragoman.data.augmentation import Noise
from dragoman.data.batching.mixing import Beside
from dragoman.data.cleaning import Cleaning
from dragoman.data.readers import Corpus, JsonLines, ParallelFiles, Parquet, Table


class PreparedFolder(Config):
    """What `dragoman data prepare` has cleaned and turned into ids, with the text to validate by and to test with."""

    kind: Literal["prepared"] = "prepared"

    folder: Path
    """The folder that was written."""


class DataSettings(Config):
    """The corpora of a run."""

    train: Annotated[ParallelFiles | Table | JsonLines | Parquet | PreparedFolder, Field(discriminator="kind")]
    """What is learnt from."""

    beside: tuple[Beside, ...] = ()
    """What is learnt from too, such as back-translated text, more or less often than `train`."""

    temperature: float | None = Field(None, ge=1.0, le=1000.0)
    """Draw pairs of the corpora in shares of n^(1/temperature), n being the pairs of each, in place of `times`."""

    valid: Corpus | None = None
    """What training is watched and chosen by; without it a part of `train` is held out."""

    held_out: int | None = Field(None, ge=1)
    """Different sources of `train` that are held out where `valid` is not given; by default 5 %, at most 2,000."""

    test: Corpus | None = None
    """What is scored at the end; training text that stands in it is a leak."""

    cleaning: Cleaning = Cleaning()
    """Which pairs of `train` are kept out of training."""

    vocabulary_pairs: int = Field(2_000_000, ge=1)
    """Pairs that a vocabulary is learnt from: of a larger corpus as many, drawn by the seed."""

    noise: Noise | None = None
    """Faults that sources of `train` get anew each epoch, so that those of real text do little harm."""

    longest_source: int = Field(256, ge=1)
    """Tokens of a source above which the pair is left out of training."""

    longest_target: int = Field(256, ge=1)
    """Tokens of a target above which the pair is left out of training."""

    @property
    def prepared(self) -> Path | None:
        """The folder that was prepared, if `train` is one."""
        return self.train.folder if isinstance(self.train, PreparedFolder) else None

    @property
    def corpora(self) -> tuple[Corpus, ...]:
        """What is read to learn from; nothing where that was prepared."""
        first = () if isinstance(self.train, PreparedFolder) else (self.train,)
        return (*first, *(one.corpus for one in self.beside))

    @model_validator(mode="after")
    def _prepared_whole(self) -> Self:
        names = ("beside", "valid", "held_out", "test", "cleaning") if self.prepared is not None else ()
        for name in names:
            if getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(
                    f"{name} has no effect on a prepared folder, which was made with it or without; leave it out, or "
                    "give it to dragoman data prepare"
                )
        return self

    @model_validator(mode="after")
    def _one_validation_set(self) -> Self:
        if self.valid is not None and self.held_out is not None:
            raise ValueError("held_out has no effect beside valid; remove one of them")
        if self.valid is None and self.beside:
            raise ValueError(
                "beside is text of several kinds, of which none should be held out unseen; give valid, text like that "
                "which is to be translated"
            )
        return self

    @model_validator(mode="after")
    def _one_way_to_mix(self) -> Self:
        if self.temperature is not None and not self.beside and self.prepared is None:
            raise ValueError("temperature mixes several corpora, and there is one; give data.beside, or leave it out")
        for number, one in enumerate(self.beside):
            if self.temperature is not None and one.times != 1.0:
                raise ValueError(
                    f"temperature = {self.temperature:g} says how often each pair is learnt from, and so does "
                    f"beside.{number}.times = {one.times:g}; leave one of them out"
                )
        return self
