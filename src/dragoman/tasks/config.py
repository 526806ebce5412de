"""The settings of each task: what it learns from, which networks it trains, and how it is judged."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from dragoman.config import Config
from dragoman.data.config import DataSettings
from dragoman.data.datasets.labeled import LabelledData
from dragoman.data.datasets.qa import QuestionData
from dragoman.data.datasets.tagged import TaggedData
from dragoman.data.datasets.text import TextData
from dragoman.data.masking import Masking
from dragoman.data.tokenizers import Bpe, TokenizerSettings
from dragoman.decoding import SamplingSettings, SearchSettings
from dragoman.evaluation.metrics import Bleu, Chrf, Metric
from dragoman.inference.chat import ChatTemplate
from dragoman.inference.question_answerer import AnswerSettings
from dragoman.models.config import CausalConfig, EncoderConfig, TransformerConfig
from dragoman.models.recurrent.config import RecurrentConfig
from dragoman.models.task_heads import SequenceHeadConfig, SpanHeadConfig, TokenHeadConfig
from dragoman.tasks.compatibility import (
    require_one_vocabulary,
    require_places,
    require_start,
    require_trees,
    with_white_space,
)
from dragoman.training.config import TrainingConfig, TranslationTraining

Seq2SeqConfig = Annotated[TransformerConfig | RecurrentConfig, Field(discriminator="kind")]
ReaderConfig = Annotated[EncoderConfig | CausalConfig, Field(discriminator="kind")]
Start = Annotated[
    Path | None,
    Field(description="run of language or masked modelling to begin with its tokenizer and weights; none: from zero"),
]


class Translation(Config):
    """From one text to another: a translation, or a summary."""

    task: Literal["translation"] = "translation"
    start: Path | None = None
    """A finished run of translation to begin with its tokenizer and weights; none: from zero."""

    data: DataSettings
    extend_vocabulary: int = Field(0, ge=0, le=1_000_000)
    """Entries that are learnt from this corpus and put behind the vocabulary of `start`."""

    tokenizer: TokenizerSettings = Bpe()
    model: Seq2SeqConfig = TransformerConfig()
    training: TranslationTraining = TranslationTraining()
    decoding: SearchSettings = SearchSettings()
    metrics: tuple[Metric, ...] = Field(
        (Bleu(), Chrf()), min_length=1, description="scores of translations; the first decides in validation"
    )

    @model_validator(mode="after")
    def _rooms_fit(self) -> Self:
        if self.model.tie == "all" and not self.tokenizer.shared:
            raise ValueError(
                "model.tie = all needs one vocabulary for both sides; set tokenizer.shared=true or model.tie=target"
            )
        if self.decoding.best > 1:
            raise ValueError(
                f"decoding.best = {self.decoding.best} has no effect in training, which scores the best translation; "
                "leave it out, and ask dragoman translate for more by --n-best"
            )
        longest = max(self.data.longest_source, self.data.longest_target) + 1
        remedy = "lower data.longest_source and data.longest_target"
        require_places(self.model, longest, what="the longest example", remedy=remedy)
        require_trees(self.data, self.tokenizer, structural=self.reads_trees)
        require_start(self.start, extend_vocabulary=self.extend_vocabulary, adapters=self.training.adapters is not None)
        return self

    @property
    def reads_trees(self) -> bool:
        """Whether the network needs the tree of each source."""
        return isinstance(self.model, TransformerConfig) and self.model.positions.kind == "structural"


class RunningText(TextData):
    """Running text, whose every token is predicted from those before it."""

    kind: Literal["text"] = "text"


class Prompts(DataSettings):
    """Pairs of a prompt and its continuation, which alone is learnt."""

    kind: Literal["pairs"] = "pairs"

    @model_validator(mode="after")
    def _one_corpus(self) -> Self:
        if self.beside:
            raise ValueError("beside is for translation; put all prompts into one corpus")
        if self.prepared is not None:
            raise ValueError("a prepared folder is for translation; name the texts themselves")
        return self

    @property
    def context(self) -> int:
        """Tokens of the longest pair, with the symbol between prompt and continuation."""
        return self.longest_source + self.longest_target + 1


LanguageData = Annotated[RunningText | Prompts, Field(discriminator="kind")]


class LanguageModelling(Config):
    """The next token, of running text or of continuations of prompts."""

    task: Literal["language_modelling"] = "language_modelling"
    data: LanguageData
    tokenizer: TokenizerSettings = Bpe(whitespace="keep")
    model: CausalConfig = CausalConfig()
    training: TrainingConfig = TrainingConfig()
    generation: SamplingSettings = SamplingSettings()
    """How the specimen in the model card is drawn."""

    template: ChatTemplate | None = None
    """How conversations are written out for a network that has learnt from texts of this form."""

    @model_validator(mode="before")
    @classmethod
    def _text_as_it_is(cls, tree: Any) -> Any:
        """Running text is meant where no kind of data is named, and its white space is part of it."""
        if not isinstance(tree, Mapping):
            return tree
        data, tokenizer = tree.get("data"), tree.get("tokenizer")
        filled = {"data": {"kind": "text", **data}} if isinstance(data, Mapping) else {}
        if isinstance(tokenizer, Mapping):
            filled["tokenizer"] = with_white_space(tokenizer)
        return {**tree, **filled}

    @model_validator(mode="after")
    def _rooms_fit(self) -> Self:
        pairs = isinstance(self.data, Prompts)
        require_one_vocabulary(self.tokenizer, dropout=pairs)
        if isinstance(self.data, Prompts):
            require_trees(self.data, self.tokenizer, structural=False)
        remedy = "lower data.longest_source and data.longest_target" if pairs else "lower data.context"
        require_places(self.model, self.data.context, what="a context", remedy=remedy)
        return self


class MaskedModelling(Config):
    """Words that are hidden in running text: what an encoder learns before it reads for another task."""

    task: Literal["masked_modelling"] = "masked_modelling"
    data: TextData
    masking: Masking = Masking()
    tokenizer: TokenizerSettings = Bpe()
    model: EncoderConfig = EncoderConfig()
    training: TrainingConfig = TrainingConfig()

    @model_validator(mode="after")
    def _rooms_fit(self) -> Self:
        require_one_vocabulary(self.tokenizer)
        require_places(self.model, self.data.context, what="a context", remedy="lower data.context")
        return self


class Classification(Config):
    """A label for a whole text."""

    task: Literal["classification"] = "classification"
    start: Start = None
    data: LabelledData
    tokenizer: TokenizerSettings = Bpe()
    model: ReaderConfig = EncoderConfig()
    head: SequenceHeadConfig = SequenceHeadConfig()
    training: TrainingConfig = TrainingConfig()

    @model_validator(mode="after")
    def _rooms_fit(self) -> Self:
        require_one_vocabulary(self.tokenizer, dropout=True)
        require_places(self.model, self.data.longest, what="the longest text", remedy="lower data.longest")
        if self.model.kind == "causal" and self.head.pooling == "first":
            raise ValueError(
                "head.pooling = first knows nothing of a text that model.kind = causal reads, where no token sees a "
                "later one; choose last or mean"
            )
        return self


class Tagging(Config):
    """A label for every word."""

    task: Literal["tagging"] = "tagging"
    start: Start = None
    data: TaggedData
    tokenizer: TokenizerSettings = Bpe()
    model: ReaderConfig = EncoderConfig()
    head: TokenHeadConfig = TokenHeadConfig()
    training: TrainingConfig = TrainingConfig()

    @model_validator(mode="after")
    def _rooms_fit(self) -> Self:
        require_one_vocabulary(self.tokenizer)
        require_places(self.model, self.data.longest, what="the longest sentence", remedy="lower data.longest")
        return self


class Answering(Config):
    """The place in a text that answers a question."""

    task: Literal["answering"] = "answering"
    start: Start = None
    data: QuestionData
    tokenizer: TokenizerSettings = Bpe()
    model: EncoderConfig = EncoderConfig(segments=2)
    head: SpanHeadConfig = SpanHeadConfig()
    training: TrainingConfig = TrainingConfig()
    answers: AnswerSettings = AnswerSettings()
    """What is taken for an answer, in validation and in use."""

    @model_validator(mode="before")
    @classmethod
    def _two_texts(cls, tree: Any) -> Any:
        """A network is meant that tells question and context apart."""
        if isinstance(tree, Mapping) and isinstance(model := tree.get("model"), Mapping):
            return {**tree, "model": {"segments": 2, **model}}
        return tree

    @model_validator(mode="after")
    def _rooms_fit(self) -> Self:
        require_one_vocabulary(self.tokenizer)
        require_places(
            self.model, self.data.windows.longest, what="the longest window", remedy="lower data.windows.longest"
        )
        if self.model.segments < 2:
            raise ValueError(
                f"model.segments = {self.model.segments} leaves a question and its text alike; set model.segments=2"
            )
        if self.answers.best > 1:
            raise ValueError(
                f"answers.best = {self.answers.best} has no effect in training, which scores the best answer; leave it "
                "out, and ask dragoman answer for more"
            )
        return self
