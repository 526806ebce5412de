"""A model on its way in or out: what a reader of another program's files returns, and what a writer takes.

A partner is a sub-package of `interop` with a function `read(path, options) -> ImportedModel` and, where models go out,
`write(model: ExportedModel, folder)`. Both list themselves in `interop.recognize_format`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, assert_never, final

import numpy as np
from pydantic import ValidationError
from torch import nn

from dragoman.config_errors import describe_rule
from dragoman.data.datasets.qa import WindowConfig
from dragoman.data.shortlist import Shortlist
from dragoman.data.tokenizers import Tokenizer
from dragoman.decoding.config import DecodingConfig, SamplingConfig
from dragoman.errors import DataError
from dragoman.interop.tensor_names import Shapes, TensorAccount
from dragoman.interop.vocabulary_order import VocabularyOrder
from dragoman.models.config import DecoderOnlyConfig, EncoderDecoderConfig, EncoderOnlyConfig
from dragoman.models.factory import build_decoder_only, build_encoder_decoder, build_encoder_only
from dragoman.models.recurrent.config import RecurrentConfig
from dragoman.models.recurrent.factory import build_recurrent_model
from dragoman.models.task_heads import (
    ModelWithHead,
    SentenceEmbeddingConfig,
    SequenceHeadConfig,
    SpanHeadConfig,
    build_head,
)
from dragoman.models.weight_initialization import without_numbers
from dragoman.models.weight_quantization import ComputeType
from dragoman.models.weight_storage import parameter_shapes

ImportedTask = Literal["translation", "language_modeling", "masked_lm", "classification", "question_answering"]
"""Task of an imported model, by which a run folder is used."""
HeadConfig = SequenceHeadConfig | SpanHeadConfig
NetworkConfig = EncoderDecoderConfig | RecurrentConfig | DecoderOnlyConfig | EncoderOnlyConfig


@final
@dataclass(frozen=True)
class Reference:
    """Logits of the other program, with which the self-check compares ours."""

    library: str
    """Name and version of the program."""
    logits: Callable[[Sequence[int], Sequence[int]], np.ndarray]
    """Function of our ids of a source, end symbol included, and of a target, BOS first; the source is empty without an
    encoder. It returns logits of the shape (target, vocabulary), in the order of our vocabulary.
    """
    tolerance: float = 1e-3
    """Greatest difference that rounding explains."""
    unnamed: frozenset[int] = frozenset()
    """Our ids that the program cannot be given, because it reads tokens by name and several tokens have this one."""


@final
@dataclass(frozen=True)
class ImportOptions:
    """Choices of the user for an import."""

    source_language: str | None = None
    """Default source language of a multilingual model."""
    target_language: str | None = None
    allow_unused: tuple[str, ...] = ()
    """Foreign tensors that the user leaves out."""


@final
@dataclass(frozen=True)
class Origin:
    """Origin of a model, as far as the way back needs it."""

    format: str
    """Name of the format, as `dragoman import --format` takes it."""
    family: str | None = None
    """Kind of model within the format, such as `marian` or `t5` of Hugging Face."""
    version: str | None = None
    """Version of the format, or of the program that wrote it, if the files name one."""
    license: str | None = None
    orders: Mapping[str, VocabularyOrder] = field(default_factory=dict)
    """Order of the vocabulary by side, `source` and `target`; equal for a shared one."""
    files: tuple[Path, ...] = ()
    """Files that the model was read from."""
    documents: Mapping[str, Any] = field(default_factory=dict)
    """Foreign settings by the name of their file, as JSON, kept for the way back."""
    number_formats: Mapping[str, str] = field(default_factory=dict)
    """Number format by foreign tensor, such as `float16`, where it is not float32."""


@final
@dataclass(frozen=True)
class ImportedModel:
    """Model of another program, with our names and in our order."""

    task: ImportedTask
    network: NetworkConfig
    weights: Mapping[str, np.ndarray]
    """Every parameter of the network by its name, in float32."""
    tokenizer: Tokenizer
    origin: Origin
    tensors: TensorAccount
    max_length: int
    """Longest source, target or context in tokens, special symbols included."""
    decoding: DecodingConfig = field(default_factory=DecodingConfig)
    """Beam search of a translator."""
    generation: SamplingConfig = field(default_factory=SamplingConfig)
    """Sampling of a language model."""
    sentence_embedding: SentenceEmbeddingConfig = field(default_factory=SentenceEmbeddingConfig)
    """Vector of a text by a masked language model."""
    head: HeadConfig | None = None
    """Head of a classifier or question answerer."""
    labels: tuple[str, ...] = ()
    """Names of the labels of a classifier, by their ids."""
    windows: WindowConfig = field(default_factory=WindowConfig)
    """Windows of question and context of a question answerer."""
    chat_template: Mapping[str, Any] | None = None
    """Settings of a chat template, as `config.yaml` holds them."""
    shortlist: Shortlist | None = None
    notes: tuple[str, ...] = ()
    """What the user should know, such as settings of the other program without counterpart here."""
    reference: Reference | None = None
    """Logits of the other program, where it is installed, for the self-check."""


@final
@dataclass(frozen=True)
class ExportedModel:
    """Model of a run folder for a writer."""

    name: str
    task: ImportedTask
    network: NetworkConfig
    weights: Mapping[str, np.ndarray]
    """Every parameter of the network by its name, in float32."""
    tokenizer: Tokenizer
    max_length: int
    decoding: DecodingConfig = field(default_factory=DecodingConfig)
    head: HeadConfig | None = None
    origin: Origin | None = None
    """Origin of an imported model, without files; None for a model trained here."""
    chat_template: Mapping[str, Any] | None = None
    shortlist: Shortlist | None = None
    compute_type: ComputeType = "float32"
    """Number format that the user asks for; a writer refuses a number format that its file format lacks."""
    texts: Callable[[], Iterable[tuple[str, str]]] = tuple
    """Pairs of texts of the training corpus, from which writers measure the ranges of numbers."""
    languages: tuple[str, str] | None = None
    """Codes of source and target language that the user names."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """Measured score by metric, such as `bleu`; empty without a test set."""


def parse_encoder_decoder(tree: Mapping[str, Any], *, where: str) -> EncoderDecoderConfig:
    """Return the network of translated settings. Raises DataError with the first error, prefixed by `where`."""
    try:
        return EncoderDecoderConfig.model_validate(tree)
    except ValidationError as error:
        found = error.errors()[0]
        key = ".".join(map(str, found["loc"])) or "model"
        raise DataError(f"{where}: its settings give no network: {key} {describe_rule(found)}.") from error


def build_network(
    network: NetworkConfig,
    *,
    source_vocabulary: int,
    target_vocabulary: int,
    head: HeadConfig | None = None,
    num_labels: int = 0,
) -> nn.Module:
    """Build a network with new weights; one without an encoder of its own uses the target vocabulary.

    The vocabulary of an encoder-only network, which may have a head, includes its mask symbol.
    """
    sizes = {"source_vocabulary": source_vocabulary, "target_vocabulary": target_vocabulary}
    match network:
        case EncoderDecoderConfig():
            return build_encoder_decoder(network, **sizes)
        case RecurrentConfig():
            return build_recurrent_model(network, **sizes)
        case DecoderOnlyConfig():
            return build_decoder_only(network, vocabulary=target_vocabulary)
        case EncoderOnlyConfig():
            encoder = build_encoder_only(network, vocabulary=target_vocabulary)
            if head is None:
                return encoder
            return ModelWithHead(encoder, build_head(head, d_model=network.d_model, num_labels=num_labels))
        case _:
            assert_never(network)


def network_shapes(network: NetworkConfig, **options: Any) -> Shapes:
    """Return name and shape of every parameter of a network, which `build_network` builds without numbers."""
    with without_numbers():
        return parameter_shapes(build_network(network, **options))
