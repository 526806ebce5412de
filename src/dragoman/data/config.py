"""Configuration of the parallel corpora of a run and their cleaning."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dragoman.config import Config
from dragoman.data.augmentation.config import AugmentationConfig
from dragoman.data.augmentation.noise import NoiseConfig
from dragoman.data.batching.corpus_mixing import ExtraCorpus
from dragoman.data.cleaning_rules import CleaningConfig
from dragoman.data.document_context import ContextConfig
from dragoman.data.readers.exchange_formats import ParallelPo, ParallelTmx, ParallelXliff, ParallelZip
from dragoman.data.readers.parallel import ParallelCorpus, ParallelFiles, ParallelJsonl, ParallelParquet, ParallelTsv
from dragoman.data.splits import ValidationConfig, missing_corpus_error


class PreparedFolder(Config):
    """Corpora that `dragoman data prepare` has cleaned and tokenized, with their validation and test sets."""

    kind: Literal["prepared"] = "prepared"
    folder: Path
    """The prepared folder."""


class DataConfig(ValidationConfig):
    """Parallel corpora of a run."""

    train: (
        Annotated[
            ParallelFiles
            | ParallelTsv
            | ParallelJsonl
            | ParallelParquet
            | ParallelTmx
            | ParallelXliff
            | ParallelPo
            | ParallelZip
            | PreparedFolder,
            Field(discriminator="kind"),
        ]
        | None
    )
    """Training corpus; null: none, as in a run that was imported."""
    extra_corpora: tuple[ExtraCorpus, ...] = ()
    """Additional training corpora, such as back-translated text, each with a weight."""
    temperature: float | None = Field(default=None, ge=1.0, le=1000.0)
    """Draw a share of n^(1/temperature) from each corpus of n pairs, instead of weights."""
    valid: ParallelCorpus | None = None
    """Validation corpus; by default a part of `train` is held out."""
    valid_size: int | None = Field(default=None, ge=1)
    """Different sources of `train` to hold out without `valid`; by default 5 %, at most 2,000."""
    test: ParallelCorpus | None = None
    """Test corpus, scored at the end; training pairs with its sources are leaks."""
    cleaning: CleaningConfig = CleaningConfig()
    """Rules that remove training pairs."""
    tokenizer_sample_size: int = Field(default=2_000_000, ge=1)
    """Maximum number of pairs to train a tokenizer on, drawn by the seed."""
    noise: NoiseConfig | None = None
    """Noise in training sources, drawn anew in each epoch, which makes the model robust against noisy input."""
    augmentation: AugmentationConfig | None = None
    """Parts of training pairs that are marked, drawn anew in each epoch, which teaches the model to obey the marks."""
    context: ContextConfig | None = None
    """Preceding sentences that the model reads before each sentence; by default it reads single sentences."""
    max_source_length: int = Field(default=256, ge=1)
    """Maximum number of source tokens; longer training pairs are left out."""
    max_target_length: int = Field(default=256, ge=1)
    """Maximum number of target tokens; longer training pairs are left out."""

    @property
    def prepared_folder(self) -> Path | None:
        """Prepared folder, if `train` is one."""
        return self.train.folder if isinstance(self.train, PreparedFolder) else None

    @property
    def train_corpora(self) -> tuple[ParallelCorpus, ...]:
        """Training corpora, without a prepared folder. Raises ConfigError if there are none."""
        if self.train is None:
            raise missing_corpus_error()
        first = () if isinstance(self.train, PreparedFolder) else (self.train,)
        return (*first, *(extra.corpus for extra in self.extra_corpora))

    @property
    def names_languages(self) -> bool:
        """Return whether a corpus names its languages."""
        corpora = [*([] if self.train is None else self.train_corpora), self.valid, self.test]
        return any(one is not None and (one.source_language or one.target_language) for one in corpora)

    @model_validator(mode="after")
    def _check_corpora(self) -> Self:
        names = ("extra_corpora", "valid", "valid_size", "test", "cleaning") if self.prepared_folder is not None else ()
        for name in names:
            if getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(
                    f"{name} has no effect on a prepared folder, whose texts are final; leave it out, or give it to "
                    "dragoman data prepare"
                )
        if self.valid is None and self.extra_corpora:
            raise ValueError(
                "extra_corpora are texts of several kinds, so that a part held out at random says little; "
                "give valid, text similar to the text to translate"
            )
        if self.valid is None and self.context is not None and self.prepared_folder is None:
            raise ValueError(
                "context joins neighboring sentences, so that sentences held out at random would be in the training "
                "text; give valid, documents that train does not have"
            )
        if self.temperature is not None and not self.extra_corpora and self.prepared_folder is None:
            raise ValueError("temperature mixes several corpora, and there is one; give data.extra_corpora, or omit it")
        for number, extra in enumerate(self.extra_corpora):
            if self.temperature is not None and extra.weight != 1.0:
                raise ValueError(
                    f"temperature = {self.temperature:g} and extra_corpora.{number}.weight = {extra.weight:g} both set "
                    "how often pairs are used; leave one of them out"
                )
        return self
