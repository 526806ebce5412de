"""Which texts a run learns from, and how they are cleaned."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dragoman.config import Config
from dragoman.data.augmentation import NoiseConfig
from dragoman.data.batching.mixing import ExtraCorpus
from dragoman.data.cleaning import CleaningConfig
from dragoman.data.readers.corpus import ParallelCorpus
from dragoman.data.readers.jsonl import ParallelJsonl
from dragoman.data.readers.parallel import ParallelFiles
from dragoman.data.readers.parquet import ParallelParquet
from dragoman.data.readers.tsv import ParallelTsv


class PreparedFolder(Config):
    """What `dragoman data prepare` has cleaned and turned into ids, with the text to validate by and to test with."""

    kind: Literal["prepared"] = "prepared"

    folder: Path
    """The folder that was written."""


class DataConfig(Config):
    """The corpora of a run."""

    train: Annotated[
        ParallelFiles | ParallelTsv | ParallelJsonl | ParallelParquet | PreparedFolder, Field(discriminator="kind")
    ]
    """What is learnt from."""

    extra_corpora: tuple[ExtraCorpus, ...] = ()
    """What is learnt from too, such as back-translated text, more or less often than `train`."""

    temperature: float | None = Field(None, ge=1.0, le=1000.0)
    """Draw pairs of the corpora in shares of n^(1/temperature), n being the pairs of each, in place of `times`."""

    valid: ParallelCorpus | None = None
    """What training is watched and chosen by; without it a part of `train` is held out."""

    valid_size: int | None = Field(None, ge=1)
    """Different sources of `train` that are held out where `valid` is not given; by default 5 %, at most 2,000."""

    test: ParallelCorpus | None = None
    """What is scored at the end; training text that stands in it is a leak."""

    cleaning: CleaningConfig = CleaningConfig()
    """Which pairs of `train` are kept out of training."""

    tokenizer_sample_size: int = Field(2_000_000, ge=1)
    """Pairs that a vocabulary is learnt from: of a larger corpus as many, drawn by the seed."""

    noise: NoiseConfig | None = None
    """Faults that sources of `train` get anew each epoch, so that those of real text do little harm."""

    max_source_length: int = Field(256, ge=1)
    """Tokens of a source above which the pair is left out of training."""

    max_target_length: int = Field(256, ge=1)
    """Tokens of a target above which the pair is left out of training."""

    @property
    def prepared_folder(self) -> Path | None:
        """The folder that was prepared, if `train` is one."""
        return self.train.folder if isinstance(self.train, PreparedFolder) else None

    @property
    def train_corpora(self) -> tuple[ParallelCorpus, ...]:
        """What is read to learn from; nothing where that was prepared."""
        first = () if isinstance(self.train, PreparedFolder) else (self.train,)
        return (*first, *(one.corpus for one in self.extra_corpora))

    @model_validator(mode="after")
    def _prepared_whole(self) -> Self:
        names = ("extra_corpora", "valid", "valid_size", "test", "cleaning") if self.prepared_folder is not None else ()
        for name in names:
            if getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(
                    f"{name} has no effect on a prepared folder, which was made with it or without; leave it out, or "
                    "give it to dragoman data prepare"
                )
        return self

    @model_validator(mode="after")
    def _one_validation_set(self) -> Self:
        if self.valid is not None and self.valid_size is not None:
            raise ValueError("valid_size has no effect if valid is given; remove one of them")
        if self.valid is None and self.extra_corpora:
            raise ValueError(
                "extra_corpora is text of several kinds, of which none should be held out unseen; give valid, text like that "
                "which is to be translated"
            )
        return self

    @model_validator(mode="after")
    def _one_way_to_mix(self) -> Self:
        if self.temperature is not None and not self.extra_corpora and self.prepared_folder is None:
            raise ValueError(
                "temperature mixes several corpora, and there is one; give data.extra_corpora, or leave it out"
            )
        for number, one in enumerate(self.extra_corpora):
            if self.temperature is not None and one.weight != 1.0:
                raise ValueError(
                    f"temperature = {self.temperature:g} says how often each pair is learnt from, and so does "
                    f"extra_corpora.{number}.weight = {one.weight:g}; leave one of them out"
                )
        return self
