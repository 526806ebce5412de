"""Configuration of each task, and the checks that its parts fit together."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from dragoman.config import Config
from dragoman.config_trees import as_group
from dragoman.data.chat_template import ChatTemplate, PromptFormat
from dragoman.data.config import DataConfig
from dragoman.data.datasets.labeled import LabeledDataConfig
from dragoman.data.datasets.qa import QuestionDataConfig
from dragoman.data.datasets.tagged import TaggedDataConfig
from dragoman.data.datasets.text import TextDataConfig
from dragoman.data.mlm_masking import MaskingConfig
from dragoman.data.readers.parallel import ParallelFiles
from dragoman.data.tokenizers import BpeConfig, TokenizerConfig, UnigramConfig
from dragoman.decoding.config import AnswerConfig, DecodingConfig, SamplingConfig
from dragoman.evaluation.metrics import Bleu, Chrf, Metric
from dragoman.models.config import DecoderOnlyConfig, EncoderDecoderConfig, EncoderOnlyConfig, SelfAttentionConfig
from dragoman.models.recurrent.config import RecurrentConfig
from dragoman.models.task_heads import SentenceEmbeddingConfig, SequenceHeadConfig, SpanHeadConfig, TokenHeadConfig
from dragoman.nn.sparse.linformer import LinformerConfig
from dragoman.training.config import TrainingConfig, TranslationTrainingConfig

ModelConfig = EncoderDecoderConfig | RecurrentConfig | DecoderOnlyConfig | EncoderOnlyConfig
"""Model that a task can train."""


def max_positions(model: ModelConfig) -> tuple[int, str] | None:
    """Return the longest sequence the model accepts and the key that limits it; None without a limit."""
    if isinstance(model, RecurrentConfig):
        return None
    limits = [
        (role.config.pattern.max_length, f"model.{role.key}.pattern.max_length")
        for role in model.attentions()
        if isinstance(role.config, SelfAttentionConfig) and isinstance(role.config.pattern, LinformerConfig)
    ]
    if (length := getattr(model.positions, "max_length", None)) is not None:
        limits.insert(0, (length, "model.positions.max_length"))
    return min(limits, key=lambda limit: limit[0]) if limits else None


def check_max_positions(model: ModelConfig, longest: int, what: str, keys: str) -> None:
    """Raise ValueError if the longest sequence, which `keys` limit, has more tokens than the model has positions."""
    limit = max_positions(model)
    if limit is not None and longest > limit[0]:
        raise ValueError(
            f"{limit[1]} = {limit[0]} is shorter than {what} of {longest} tokens, special symbols included. Raise it, "
            f"or lower {keys}."
        )


def check_single_vocabulary(tokenizer: TokenizerConfig, *, dropout: bool = False) -> None:
    """Raise ValueError on a separate target vocabulary, and on BPE dropout if the task does not support it."""
    if not tokenizer.shared:
        raise ValueError("tokenizer.shared = false: the model has one vocabulary. Leave it out.")
    if not dropout and isinstance(tokenizer, BpeConfig) and tokenizer.dropout:
        raise ValueError(
            f"tokenizer.dropout = {tokenizer.dropout} has no effect, because this task tokenizes its texts once. "
            "Leave it out."
        )


def check_init_from(start: Path | None, *, extend_vocabulary: int = 0, lora: bool) -> None:
    """Raise ValueError if vocabulary or adapters extend no initial run, or exclude each other."""
    if start is None and (extend_vocabulary or lora):
        key = f"extend_vocabulary = {extend_vocabulary}" if extend_vocabulary else "training.lora"
        raise ValueError(f"{key} extends the model of another run. Set init_from to that run, or leave it out.")
    if extend_vocabulary and lora:
        raise ValueError(
            f"extend_vocabulary = {extend_vocabulary}: new entries need a trained embedding, which training.lora "
            "freezes. Leave one of them out."
        )


def _check_source_features(data: DataConfig, tokenizer: TokenizerConfig, *, needs_source_features: bool) -> None:
    """Raise ValueError if a model with tree positions lacks dependency trees, or another model is given any."""
    if needs_source_features and data.extra_corpora:
        raise ValueError(
            "data.extra_corpora has no dependency trees, which model.positions.kind = tree needs. Leave one of them "
            "out."
        )
    extra = [(f"extra_corpora.{number}.corpus", one.corpus) for number, one in enumerate(data.extra_corpora)]
    for name, corpus in [("train", data.train), *extra, ("valid", data.valid), ("test", data.test)]:
        trees = corpus.source_features if isinstance(corpus, ParallelFiles) else None
        if needs_source_features and corpus is not None and trees is None:
            raise ValueError(
                f"data.{name}.source_features is not given: model.positions.kind = tree needs the dependency tree "
                "of each source. Give a CoNLL-U file for a corpus of kind files, or choose other positions."
            )
        if trees is not None and not needs_source_features:
            raise ValueError(
                f"data.{name}.source_features = {trees} has no effect without model.positions.kind = tree. Leave "
                "one of them out."
            )
    for name in ("noise", "augmentation", "context"):
        if needs_source_features and getattr(data, name) is not None:
            raise ValueError(
                f"data.{name} changes the words of the dependency trees of model.positions.kind = tree. Leave one of "
                "them out."
            )
    is_supported = isinstance(tokenizer, BpeConfig | UnigramConfig)
    rules = [(is_supported, "kind", "its tokens do not mark where words begin", "bpe or unigram")]
    if isinstance(tokenizer, BpeConfig | UnigramConfig):
        rules += [
            (tokenizer.whitespace != "keep", "whitespace", "its words do not begin with a space", "collapse"),
            (tokenizer.normalization != "nfkc", "normalization", "it may put spaces into words", "nfc or none"),
        ]
    for supported, key, reason, remedy in rules if needs_source_features else ():
        if not supported:
            value = getattr(tokenizer, key)
            raise ValueError(f"tokenizer.{key} = {value} does not support tree positions: {reason}. Choose {remedy}.")


Seq2SeqModelConfig = Annotated[EncoderDecoderConfig | RecurrentConfig, Field(discriminator="kind")]
ReaderModelConfig = Annotated[EncoderOnlyConfig | DecoderOnlyConfig, Field(discriminator="kind")]
InitFrom = Annotated[
    Path | None,
    Field(description="run of language modeling or masked language modeling that tokenizer and weights are taken from"),
]
InitFromSameTask = Annotated[
    Path | None,
    Field(description="finished run of the same task that tokenizer and weights are taken from (fine-tuning)"),
]


class TranslationConfig(Config):
    """Translation, or another task with a source and a target text such as summarization."""

    task: Literal["translation"] = "translation"
    init_from: Path | None = None
    """Finished run of translation that tokenizer and weights are taken from (fine-tuning)."""

    source_language: str | None = None
    """ISO 639 code of the language of sources, such as en; recorded for the server and for sentence splitting."""
    target_language: str | None = None
    """ISO 639 code of the language of targets."""
    data: DataConfig
    extend_vocabulary: int = Field(default=0, ge=0, le=1_000_000)
    """Number of entries, trained on this corpus, that are appended to the vocabulary of `init_from`."""

    tokenizer: TokenizerConfig = BpeConfig()
    model: Seq2SeqModelConfig = EncoderDecoderConfig()
    training: TranslationTrainingConfig = TranslationTrainingConfig()
    decoding: DecodingConfig = DecodingConfig()
    metrics: tuple[Metric, ...] = Field(
        default=(Bleu(), Chrf()), min_length=1, description="metrics of translations; the first selects the weights"
    )

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if self.model.tie_embeddings == "all" and not self.tokenizer.shared:
            raise ValueError(
                "model.tie_embeddings = all needs a shared vocabulary. Set tokenizer.shared=true or "
                "model.tie_embeddings=target."
            )
        if self.data.names_languages and (self.source_language or self.target_language):
            raise ValueError(
                "source_language and target_language are those of the whole run, and data names languages of its "
                "corpora. Leave one of them out."
            )
        if self.decoding.n_best > 1:
            raise ValueError(
                f"decoding.n_best = {self.decoding.n_best} has no effect in training, which scores the best "
                "translation. Leave it out, and ask for more with dragoman translate --n-best."
            )
        longest = max(self.data.max_source_length, self.data.max_target_length) + 1
        keys = "data.max_source_length and data.max_target_length"
        check_max_positions(self.model, longest, "the longest example", keys)
        _check_source_features(self.data, self.tokenizer, needs_source_features=self.needs_source_features)
        check_init_from(self.init_from, extend_vocabulary=self.extend_vocabulary, lora=self.training.lora is not None)
        return self

    @property
    def needs_source_features(self) -> bool:
        """Return whether the model needs the dependency tree of each source."""
        return isinstance(self.model, EncoderDecoderConfig) and self.model.positions.kind == "tree"


class PlainTextConfig(TextDataConfig):
    """Plain text, in which every token is predicted."""

    kind: Literal["text"] = "text"


class PromptConfig(DataConfig):
    """Pairs of a prompt and a continuation; only the continuation is predicted."""

    kind: Literal["pairs"] = "pairs"
    prompt: PromptFormat = PromptFormat()
    """Form of the prompts, which are made of the sources."""

    @model_validator(mode="after")
    def _one_corpus(self) -> Self:
        if self.extra_corpora:
            raise ValueError("extra_corpora is for translation. Put all prompts into one corpus.")
        if self.prepared_folder is not None:
            raise ValueError("A prepared folder is for translation. Name the text files.")
        if self.augmentation is not None:
            raise ValueError("augmentation marks parts of sources for translation. Leave it out.")
        if self.context is not None:
            raise ValueError("context is for translation. Put the context into the sources.")
        return self

    @property
    def context_length(self) -> int:
        """Number of tokens of the longest pair, with the separator."""
        return self.max_source_length + self.max_target_length + 1


LanguageDataConfig = Annotated[PlainTextConfig | PromptConfig, Field(discriminator="kind")]


class LanguageModelingConfig(Config):
    """Language modeling of plain text, or of continuations of prompts."""

    task: Literal["language_modeling"] = "language_modeling"
    init_from: InitFromSameTask = None
    data: LanguageDataConfig
    tokenizer: TokenizerConfig = BpeConfig(whitespace="keep")
    model: DecoderOnlyConfig = DecoderOnlyConfig()
    training: TrainingConfig = TrainingConfig()
    generation: SamplingConfig = SamplingConfig()
    """Sampling of outputs, and of the text in the model card."""

    chat_template: ChatTemplate | None = None
    """Format of conversations in the training text."""

    @model_validator(mode="before")
    @classmethod
    def _set_defaults(cls, tree: Any) -> Any:
        """Default to plain text, and keep its whitespace unless the tokenizer is one of words."""
        if not isinstance(tree, Mapping):
            return tree
        data, tokenizer = as_group(tree.get("data")), as_group(tree.get("tokenizer"))
        defaults = {"data": {"kind": "text", **data}} if isinstance(data, Mapping) else {}
        if isinstance(tokenizer, Mapping) and tokenizer.get("kind") not in ("words", "imported"):
            defaults["tokenizer"] = {"whitespace": "keep", **tokenizer}
        return {**tree, **defaults}

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        pairs = isinstance(self.data, PromptConfig)
        check_single_vocabulary(self.tokenizer, dropout=pairs)
        check_init_from(self.init_from, lora=self.training.lora is not None)
        if isinstance(self.data, PromptConfig):
            _check_source_features(self.data, self.tokenizer, needs_source_features=False)
            if self.data.prompt.chat and self.chat_template is None and self.init_from is None:
                raise ValueError(
                    "data.prompt.chat = true: the model has no chat template. Give chat_template, or leave it out."
                )
            if self.data.names_languages:
                raise ValueError("data names languages, which have no effect on a language model. Leave them out.")
        keys = "data.max_source_length and data.max_target_length" if pairs else "data.context_length"
        check_max_positions(self.model, self.data.context_length, "a context", keys)
        return self


class MaskedLMConfig(Config):
    """Masked language modeling, which pretrains an encoder."""

    task: Literal["masked_lm"] = "masked_lm"
    init_from: InitFromSameTask = None
    data: TextDataConfig
    masking: MaskingConfig = MaskingConfig()
    tokenizer: TokenizerConfig = BpeConfig()
    model: EncoderOnlyConfig = EncoderOnlyConfig()
    sentence_embedding: SentenceEmbeddingConfig = SentenceEmbeddingConfig()
    training: TrainingConfig = TrainingConfig()

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        check_single_vocabulary(self.tokenizer)
        check_init_from(self.init_from, lora=self.training.lora is not None)
        check_max_positions(self.model, self.data.context_length, "a context", "data.context_length")
        return self


class ClassificationConfig(Config):
    """Sequence classification: one label per text."""

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
        check_init_from(self.init_from, lora=self.training.lora is not None)
        check_max_positions(self.model, self.data.max_length, "the longest text", "data.max_length")
        if self.model.kind == "decoder_only" and self.head.pooling == "first":
            raise ValueError(
                "head.pooling = first sees only the first token under model.kind = decoder_only. Choose last or mean."
            )
        return self


class TaggingConfig(Config):
    """Token classification (tagging): one label per word."""

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
        check_init_from(self.init_from, lora=self.training.lora is not None)
        check_max_positions(self.model, self.data.max_length, "the longest sentence", "data.max_length")
        return self


class QuestionAnsweringConfig(Config):
    """Extractive question answering."""

    task: Literal["question_answering"] = "question_answering"
    init_from: InitFrom = None
    data: QuestionDataConfig
    tokenizer: TokenizerConfig = BpeConfig()
    model: EncoderOnlyConfig = EncoderOnlyConfig(num_segments=2)
    head: SpanHeadConfig = SpanHeadConfig()
    training: TrainingConfig = TrainingConfig()
    answers: AnswerConfig = AnswerConfig()
    """Selection of answers, in validation and inference."""

    @model_validator(mode="before")
    @classmethod
    def _set_default_segments(cls, tree: Any) -> Any:
        """Default to a model with segment embeddings for question and context."""
        if isinstance(tree, Mapping) and isinstance(model := as_group(tree.get("model")), Mapping):
            return {**tree, "model": {"num_segments": 2, **model}}
        return tree

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        check_single_vocabulary(self.tokenizer)
        check_init_from(self.init_from, lora=self.training.lora is not None)
        length = self.data.windows.max_length
        check_max_positions(self.model, length, "the longest window", "data.windows.max_length")
        if self.model.num_segments < 2:
            raise ValueError(
                f"model.num_segments = {self.model.num_segments} does not distinguish question and context. "
                "Set model.num_segments=2."
            )
        if self.answers.n_best > 1:
            raise ValueError(
                f"answers.n_best = {self.answers.n_best} has no effect in training, which scores the best answer. "
                "Leave it out, and ask for more with dragoman answer."
            )
        return self


Experiment = (
    TranslationConfig
    | LanguageModelingConfig
    | MaskedLMConfig
    | ClassificationConfig
    | TaggingConfig
    | QuestionAnsweringConfig
)
"""Configuration of a run, of any task."""

TASK_CONFIGS: dict[str, type[Experiment]] = {
    "translation": TranslationConfig,
    "language_modeling": LanguageModelingConfig,
    "masked_lm": MaskedLMConfig,
    "classification": ClassificationConfig,
    "tagging": TaggingConfig,
    "question_answering": QuestionAnsweringConfig,
}
"""Configuration class of each task."""
