"""The settings of each task: what it learns from, which networks it trains, and how it is judged."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from dragoman.config import Config
from dragoman.data.config import DataConfig
from dragoman.data.datasets.labeled import LabeledDataConfig
from dragoman.data.datasets.qa import QuestionDataConfig
from dragoman.data.datasets.tagged import TaggedDataConfig
from dragoman.data.datasets.text import TextDataConfig
from dragoman.data.masking import MaskingConfig
from dragoman.data.tokenizers import BpeConfig, TokenizerConfig
from dragoman.decoding import SamplingSettings, SearchSettings
from dragoman.evaluation.metrics import Bleu, Chrf, Metric
from dragoman.inference.chat import ChatTemplate
from dragoman.inference.question_answerer import AnswerSettings
from dragoman.models.config import DecoderOnlyConfig, EncoderOnlyConfig, EncoderDecoderConfig
from dragoman.models.recurrent.config import RecurrentConfig
from dragoman.models.task_heads import SequenceHeadConfig, SpanHeadConfig, TokenHeadConfig
from dragoman.tasks.compatibility import (
    check_single_vocabulary,
    check_max_positions,
    check_init_from,
    check_source_trees,
    keep_whitespace,
)
from dragoman.training.config import TrainingConfig, TranslationTrainingConfig

Seq2SeqModelConfig = Annotated[EncoderDecoderConfig | RecurrentConfig, Field(discriminator="kind")]
ReaderModelConfig = Annotated[EncoderOnlyConfig | DecoderOnlyConfig, Field(discriminator="kind")]
InitFrom = Annotated[
    Path | None,
    Field(description="run of language or masked modelling to begin with its tokenizer and weights; none: from zero"),
]


class TranslationConfig(Config):
    """From one text to another: a translation, or a summary."""

    task: Literal["translation"] = "translation"
    init_from: Path | None = None
    """A finished run of translation to begin with its tokenizer and weights; none: from zero."""

    data: DataConfig
    extend_vocabulary: int = Field(0, ge=0, le=1_000_000)
    """Entries that are learnt from this corpus and put behind the vocabulary of `init_from`."""

    tokenizer: TokenizerConfig = BpeConfig()
    model: Seq2SeqModelConfig = EncoderDecoderConfig()
    training: TranslationTrainingConfig = TranslationTrainingConfig()
    decoding: SearchSettings = SearchSettings()
    metrics: tuple[Metric, ...] = Field(
        (Bleu(), Chrf()), min_length=1, description="scores of translations; the first decides in validation"
    )

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if self.model.tie_embeddings == "all" and not self.tokenizer.shared:
            raise ValueError(
                "model.tie = all needs one vocabulary for both sides; set tokenizer.shared=true or model.tie=target"
            )
        if self.decoding.best > 1:
            raise ValueError(
                f"decoding.best = {self.decoding.best} has no effect in training, which scores the best translation; "
                "leave it out, and ask dragoman translate for more by --n-best"
            )
        longest = max(self.data.max_source_length, self.data.max_target_length) + 1
        remedy = "lower data.max_source_length and data.max_target_length"
        check_max_positions(self.model, longest, what="the longest example", remedy=remedy)
        check_source_trees(self.data, self.tokenizer, structural=self.needs_trees)
        check_init_from(self.init_from, extend_vocabulary=self.extend_vocabulary, adapters=self.training.lora is not None)
        return self

    @property
    def needs_trees(self) -> bool:
        """Whether the network needs the tree of each source."""
        return isinstance(self.model, EncoderDecoderConfig) and self.model.positions.kind == "structural"


class PlainTextConfig(TextDataConfig):
    """Running text, whose every token is predicted from those before it."""

    kind: Literal["text"] = "text"


class PromptConfig(DataConfig):
    """Pairs of a prompt and its continuation, which alone is learnt."""

    kind: Literal["pairs"] = "pairs"

    @model_validator(mode="after")
    def _one_corpus(self) -> Self:
        if self.extra_corpora:
            raise ValueError("beside is for translation; put all prompts into one corpus")
        if self.prepared_folder is not None:
            raise ValueError("a prepared folder is for translation; name the texts themselves")
        return self

    @property
    def context_length(self) -> int:
        """Tokens of the longest pair, with the symbol between prompt and continuation."""
        return self.max_source_length + self.max_target_length + 1


LanguageDataConfig = Annotated[PlainTextConfig | PromptConfig, Field(discriminator="kind")]


class LanguageModelingConfig(Config):
    """The next token, of running text or of continuations of prompts."""

    task: Literal["language_modeling"] = "language_modeling"
    data: LanguageDataConfig
    tokenizer: TokenizerConfig = BpeConfig(whitespace="keep")
    model: DecoderOnlyConfig = DecoderOnlyConfig()
    training: TrainingConfig = TrainingConfig()
    generation: SamplingSettings = SamplingSettings()
    """How the specimen in the model card is drawn."""

    chat_template: ChatTemplate | None = None
    """How conversations are written out for a network that has learnt from texts of this form."""

    @model_validator(mode="before")
    @classmethod
    def _set_defaults(cls, tree: Any) -> Any:
        """Running text is meant where no kind of data is named, and its white space is part of it."""
        if not isinstance(tree, Mapping):
            return tree
        data, tokenizer = tree.get("data"), tree.get("tokenizer")
        filled = {"data": {"kind": "text", **data}} if isinstance(data, Mapping) else {}
        if isinstance(tokenizer, Mapping):
            filled["tokenizer"] = keep_whitespace(tokenizer)
        return {**tree, **filled}

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        pairs = isinstance(self.data, PromptConfig)
        check_single_vocabulary(self.tokenizer, dropout=pairs)
        if isinstance(self.data, PromptConfig):
            check_source_trees(self.data, self.tokenizer, structural=False)
        remedy = "lower data.max_source_length and data.max_target_length" if pairs else "lower data.context_length"
        check_max_positions(self.model, self.data.context_length, what="a context", remedy=remedy)
        return self


class MaskedLMConfig(Config):
    """Words that are hidden in running text: what an encoder learns before it reads for another task."""

    task: Literal["masked_lm"] = "masked_lm"
    data: TextDataConfig
    masking: MaskingConfig = MaskingConfig()
    tokenizer: TokenizerConfig = BpeConfig()
    model: EncoderOnlyConfig = EncoderOnlyConfig()
    training: TrainingConfig = TrainingConfig()

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        check_single_vocabulary(self.tokenizer)
        check_max_positions(self.model, self.data.context_length, what="a context", remedy="lower data.context_length")
        return self


class ClassificationConfig(Config):
    """A label for a whole text."""

    task: Literal["classification"] = "classification"
    init_from: InitFrom = None
    data: LabeledDataConfig
    tokenizer: TokenizerConfig = BpeConfig()
    model: ReaderModelConfig = EncoderOnlyConfig()
    head: SequenceHeadConfig = SequenceHeadConfig()
    training: TrainingConfig = TrainingConfig()

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        check_single_vocabulary(self.tokenizer, dropout=True)
        check_max_positions(self.model, self.data.max_length, what="the longest text", remedy="lower data.max_length")
        if self.model.kind == "causal" and self.head.pooling == "first":
            raise ValueError(
                "head.pooling = first knows nothing of a text that model.kind = causal reads, where no token sees a "
                "later one; choose last or mean"
            )
        return self


class TaggingConfig(Config):
    """A label for every word."""

    task: Literal["tagging"] = "tagging"
    init_from: InitFrom = None
    data: TaggedDataConfig
    tokenizer: TokenizerConfig = BpeConfig()
    model: ReaderModelConfig = EncoderOnlyConfig()
    head: TokenHeadConfig = TokenHeadConfig()
    training: TrainingConfig = TrainingConfig()

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        check_single_vocabulary(self.tokenizer)
        check_max_positions(self.model, self.data.max_length, what="the longest sentence", remedy="lower data.max_length")
        return self


class QuestionAnsweringConfig(Config):
    """The place in a text that answers a question."""

    task: Literal["question_answering"] = "question_answering"
    init_from: InitFrom = None
    data: QuestionDataConfig
    tokenizer: TokenizerConfig = BpeConfig()
    model: EncoderOnlyConfig = EncoderOnlyConfig(num_segments=2)
    head: SpanHeadConfig = SpanHeadConfig()
    training: TrainingConfig = TrainingConfig()
    answers: AnswerSettings = AnswerSettings()
    """What is taken for an answer, in validation and in use."""

    @model_validator(mode="before")
    @classmethod
    def _set_default_segments(cls, tree: Any) -> Any:
        """A network is meant that tells question and context apart."""
        if isinstance(tree, Mapping) and isinstance(model := tree.get("model"), Mapping):
            return {**tree, "model": {"segments": 2, **model}}
        return tree

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        check_single_vocabulary(self.tokenizer)
        check_max_positions(
            self.model, self.data.windows.max_length, what="the longest window", remedy="lower data.windows.max_length"
        )
        if self.model.num_segments < 2:
            raise ValueError(
                f"model.segments = {self.model.num_segments} leaves a question and its text alike; set model.segments=2"
            )
        if self.answers.best > 1:
            raise ValueError(
                f"answers.best = {self.answers.best} has no effect in training, which scores the best answer; leave it "
                "out, and ask dragoman answer for more"
            )
        return self
