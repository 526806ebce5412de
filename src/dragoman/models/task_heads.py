r"""Task heads: sequence classification, token classification and extractive question answering.

A head is a linear map $W h + b$ of hidden states. Sequence classification pools them first: the state of the first
token (BERT; Devlin et al., 2019, optionally with its pooler $\tanh(W h + b)$ or, as in DistilBERT, with a ReLU), the
mean, or the state of the last token, the only one that has attended to the whole text in a decoder (Radford et al.,
2018).
"""

from typing import Any, Literal, NamedTuple, Protocol, Self, assert_never, final, runtime_checkable

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from dragoman.array_types import Bool, Float, Int, Lengths, Tokens
from dragoman.config import Config
from dragoman.models.protocols import DecoderOnly
from dragoman.nn.dropout import Dropout

Pooling = Literal["first", "mean", "last"]
HiddenStates = Float[Tensor, "batch positions size"]

STANDARD_DEVIATION = 0.02
"""Standard deviation of initial weights, as in BERT."""


class SequenceHeadConfig(Config):
    """Sequence classification head."""

    pooling: Pooling = Field(
        default="first", description="pooled state: of the first token, the mean, or of the last token"
    )
    dense: bool = Field(default=False, description="add a layer before the labels, as in BERT")
    activation: Literal["tanh", "relu"] = Field(default="tanh", description="activation of this layer")
    dropout: float = Field(default=0.1, ge=0.0, lt=1.0, description="on the pooled state")

    @model_validator(mode="after")
    def _check_activation(self) -> Self:
        if self.activation != "tanh" and not self.dense:
            raise ValueError(f"activation = {self.activation} has no effect without dense. Set dense, or leave it out.")
        return self


class TokenHeadConfig(Config):
    """Token classification head."""

    dropout: float = Field(default=0.1, ge=0.0, lt=1.0, description="on the states")


class SpanHeadConfig(Config):
    """Extractive question answering head."""

    dropout: float = Field(default=0.0, ge=0.0, lt=1.0, description="on the states")


class SentenceEmbeddingConfig(Config):
    """Vector of a text from the hidden states of an encoder (Reimers and Gurevych, 2019)."""

    pooling: Literal["mean", "first"] = Field(
        default="mean", description="pooled state: the mean of all tokens, or of the first token"
    )
    normalize: bool = Field(default=False, description="scale vectors to length 1")


def pool_hidden(hidden: HiddenStates, lengths: Lengths, pooling: Pooling) -> Float[Tensor, "batch size"]:
    """Pool the hidden states of each row, without padding at the end."""
    match pooling:
        case "first":
            return hidden[:, 0]
        case "mean":
            padding = torch.arange(hidden.shape[1], device=hidden.device) >= lengths[:, None]
            return hidden.masked_fill(padding[..., None], 0).sum(dim=1) / lengths[:, None]
        case "last":
            return hidden[torch.arange(len(lengths), device=hidden.device), lengths - 1]
        case _:
            assert_never(pooling)


def answer_mask(lengths: Lengths, segments: Int[Tensor, "batch positions"]) -> Bool[Tensor, "batch positions"]:
    """Return the positions where an answer may start or end: the tokens of the context, segment 1 without EOS.

    Position 0 is allowed too and means that there is no answer.
    """
    positions = torch.arange(segments.shape[1], device=segments.device)
    return ((segments == 1) & (positions < lengths[:, None] - 1)) | (positions == 0)


@final
class SequenceHead(nn.Module):
    """Label logits of a text."""

    def __init__(
        self,
        *,
        d_model: int,
        num_labels: int,
        pooling: Pooling,
        dense: bool,
        dropout: float,
        activation: Literal["tanh", "relu"] = "tanh",
    ) -> None:
        super().__init__()
        self.pooling: Pooling = pooling
        self.activation = torch.tanh if activation == "tanh" else torch.relu
        self.dense = _linear(d_model, d_model) if dense else None
        self.dropout = Dropout(dropout)
        self.output = _linear(d_model, num_labels)

    def forward(
        self, hidden: HiddenStates, lengths: Lengths, segments: Tokens | None = None
    ) -> Float[Tensor, "batch labels"]:
        del segments
        x = pool_hidden(hidden, lengths, self.pooling)
        if self.dense is not None:
            x = self.activation(self.dense(x))
        return self.output(self.dropout(x))


@final
class TokenHead(nn.Module):
    """Label logits of every token."""

    def __init__(self, *, d_model: int, num_labels: int, dropout: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.output = _linear(d_model, num_labels)

    def forward(
        self, hidden: HiddenStates, lengths: Lengths, segments: Tokens | None = None
    ) -> Float[Tensor, "batch positions labels"]:
        del lengths, segments
        return self.output(self.dropout(hidden))


class SpanLogits(NamedTuple):
    """Logits of the start and end of an answer; the lowest finite number where none is allowed."""

    starts: Float[Tensor, "batch positions"]
    ends: Float[Tensor, "batch positions"]


@final
class SpanHead(nn.Module):
    """Logits of the start and end of an answer (Devlin et al., 2019, section 4.2), within `answer_mask`."""

    def __init__(self, *, d_model: int, dropout: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.output = _linear(d_model, 2)

    def forward(self, hidden: HiddenStates, lengths: Lengths, segments: Tokens | None = None) -> SpanLogits:
        assert segments is not None, "an answer lies in segment 1"
        logits = self.output(self.dropout(hidden))
        allowed = answer_mask(lengths, segments)
        starts, ends = logits.masked_fill(~allowed[..., None], torch.finfo(logits.dtype).min).unbind(dim=-1)
        return SpanLogits(starts, ends)


Head = SequenceHead | TokenHead | SpanHead


def build_head(config: SequenceHeadConfig | TokenHeadConfig | SpanHeadConfig, *, d_model: int, num_labels: int) -> Head:
    """Build a head with new weights from the ambient generator."""
    match config:
        case SequenceHeadConfig():
            return SequenceHead(d_model=d_model, num_labels=num_labels, **config.model_dump())
        case TokenHeadConfig(dropout=dropout):
            return TokenHead(d_model=d_model, num_labels=num_labels, dropout=dropout)
        case SpanHeadConfig(dropout=dropout):
            return SpanHead(d_model=d_model, dropout=dropout)
        case _:
            assert_never(config)


def _linear(inputs: int, outputs: int) -> nn.Linear:
    linear = nn.Linear(inputs, outputs)
    nn.init.normal_(linear.weight, std=STANDARD_DEVIATION)
    nn.init.zeros_(linear.bias)
    return linear


@runtime_checkable
class Backbone(Protocol):
    """Model that computes hidden states of texts, padded at the end."""

    @property
    def max_length(self) -> int | None:
        """Maximum text length, or None if unlimited."""
        ...

    def hidden(
        self, tokens: Tokens, lengths: Lengths, segments: Tokens | None = None
    ) -> Float[Tensor, "batch positions size"]: ...


@final
class DecoderOnlyBackbone(nn.Module):
    """Decoder-only model as a backbone: causal attention ignores padding, and segments have no embeddings."""

    def __init__(self, model: DecoderOnly[Any, Any]) -> None:
        super().__init__()
        self.model = model

    @property
    def max_length(self) -> int | None:
        return self.model.max_length

    def hidden(
        self, tokens: Tokens, lengths: Lengths, segments: Tokens | None = None
    ) -> Float[Tensor, "batch positions size"]:
        del lengths, segments
        return self.model.hidden(tokens)


@final
class ModelWithHead(nn.Module):
    """Backbone with a task head, trained together."""

    def __init__(self, backbone: Backbone, head: Head) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head

    @property
    def max_length(self) -> int | None:
        """Maximum text length, special symbols included, or None if unlimited."""
        return self.backbone.max_length

    def forward(
        self, tokens: Tokens, lengths: Lengths, segments: Tokens | None = None
    ) -> Float[Tensor, "batch labels"] | Float[Tensor, "batch positions labels"] | SpanLogits:
        """Return the logits of the head."""
        return self.head(self.backbone.hidden(tokens, lengths, segments), lengths, segments)
