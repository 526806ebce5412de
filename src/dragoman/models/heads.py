r"""What stands on the hidden states of a text to say something about it: of the whole, of its tokens, of a part.

A head is a linear map $W h + b$ of the states it looks at. For a whole text these are pooled into one: that of the
first token, as BERT has it (Devlin et al., 2019, with a layer $\tanh(W h + b)$ between, its pooler), the mean of all,
or that of the last token, the only one that has seen the whole text where a decoder read it (Radford et al., 2018).
"""

from typing import Any, Literal, NamedTuple, Protocol, assert_never, final, runtime_checkable

import torch
from pydantic import Field
from torch import Tensor, nn

from dragoman.config import Config
from dragoman.nn.dropout import Dropout
from dragoman.typing import Bool, Float, Int, Lengths

Pooling = Literal["first", "mean", "last"]
Tokens = Int[Tensor, "batch places"]
Hidden = Float[Tensor, "batch places size"]

STANDARD_DEVIATION = 0.02
"""Of the first weights, as in BERT."""


class SequenceHeadConfig(Config):
    """A label for a whole text."""

    pooling: Pooling = Field(
        "first", description="which state is classified: of the first token, the mean, of the last"
    )
    dense: bool = Field(False, description="a layer with tanh before the labels, BERT's pooler")
    dropout: float = Field(0.1, ge=0.0, lt=1.0, description="on the pooled state")


class TokenHeadConfig(Config):
    """A label for every word."""

    dropout: float = Field(0.1, ge=0.0, lt=1.0, description="on the states")


class SpanHeadConfig(Config):
    """The begin and the end of an answer."""

    dropout: float = Field(0.0, ge=0.0, lt=1.0, description="on the states")


def pool_hidden(hidden: Hidden, lengths: Lengths, pooling: Pooling) -> Float[Tensor, "batch size"]:
    """One state a row; padding, which follows the `lengths` first places, has no part in it."""
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


def answer_mask(lengths: Lengths, segments: Int[Tensor, "batch places"]) -> Bool[Tensor, "batch places"]:
    """Where an answer may begin or end: at the tokens of the context, which is segment 1 without its end symbol.

    Place 0 is allowed too: it stands for no answer.
    """
    places = torch.arange(segments.shape[1], device=segments.device)
    return ((segments == 1) & (places < lengths[:, None] - 1)) | (places == 0)


@final
class SequenceHead(nn.Module):
    """Logits of the labels of a text."""

    def __init__(self, *, d_model: int, num_labels: int, pooling: Pooling, dense: bool, dropout: float) -> None:
        super().__init__()
        self.pooling: Pooling = pooling
        self.dense = _linear(d_model, d_model) if dense else None
        self.dropout = Dropout(dropout)
        self.output = _linear(d_model, num_labels)

    def forward(self, hidden: Hidden, lengths: Lengths) -> Float[Tensor, "batch labels"]:
        x = pool_hidden(hidden, lengths, self.pooling)
        if self.dense is not None:
            x = self.dense(x).tanh()
        return self.output(self.dropout(x))


@final
class TokenHead(nn.Module):
    """Logits of the labels of every token."""

    def __init__(self, *, d_model: int, num_labels: int, dropout: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.output = _linear(d_model, num_labels)

    def forward(self, hidden: Hidden) -> Float[Tensor, "batch places labels"]:
        return self.output(self.dropout(hidden))


class SpanLogits(NamedTuple):
    """How much every place looks like the first and like the last token of the answer; the lowest number elsewhere."""

    starts: Float[Tensor, "batch places"]
    ends: Float[Tensor, "batch places"]


@final
class SpanHead(nn.Module):
    """Logits of begin and end of the answer (Devlin et al., 2019, section 4.2), over `answer_places`."""

    def __init__(self, *, d_model: int, dropout: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.output = _linear(d_model, 2)

    def forward(self, hidden: Hidden, lengths: Lengths, segments: Int[Tensor, "batch places"]) -> SpanLogits:
        logits = self.output(self.dropout(hidden))
        allowed = answer_mask(lengths, segments)
        starts, ends = logits.masked_fill(~allowed[..., None], torch.finfo(logits.dtype).min).unbind(dim=-1)
        return SpanLogits(starts, ends)


Head = SequenceHead | TokenHead | SpanHead


def build_sequence_head(config: SequenceHeadConfig, *, d_model: int, num_labels: int) -> SequenceHead:
    """A head with fresh weights, drawn from the ambient generator."""
    return SequenceHead(
        d_model=d_model, num_labels=num_labels, pooling=config.pooling, dense=config.dense, dropout=config.dropout
    )


def build_token_head(config: TokenHeadConfig, *, d_model: int, num_labels: int) -> TokenHead:
    """A head with fresh weights, drawn from the ambient generator."""
    return TokenHead(d_model=d_model, num_labels=num_labels, dropout=config.dropout)


def build_span_head(config: SpanHeadConfig, *, d_model: int) -> SpanHead:
    """A head with fresh weights, drawn from the ambient generator."""
    return SpanHead(d_model=d_model, dropout=config.dropout)


def _linear(inputs: int, outputs: int) -> nn.Linear:
    linear = nn.Linear(inputs, outputs)
    nn.init.normal_(linear.weight, std=STANDARD_DEVIATION)
    nn.init.zeros_(linear.bias)
    return linear


@runtime_checkable
class Backbone(Protocol):
    """What a head stands on: hidden states of texts that are padded after their `lengths`."""

    @property
    def max_length(self) -> int | None:
        """The longest text that the positions know, or None where they have no end."""
        ...

    def hidden(
        self, tokens: Tokens, lengths: Lengths, segments: Tokens | None = None
    ) -> Float[Tensor, "batch places size"]: ...


@runtime_checkable
class CausalReader(Protocol):
    """A network that reads from the left to the right, such as `CausalTransformer`."""

    @property
    def max_length(self) -> int | None: ...

    def hidden(self, tokens: Tokens, documents: Tokens | None = None) -> Float[Tensor, "batch places size"]: ...


@final
class DecoderOnlyBackbone(nn.Module):
    """A causal network as a backbone: no token sees the padding after it. It knows no segments, and passes over them."""

    def __init__(self, model: CausalReader) -> None:
        super().__init__()
        self.model = model

    @property
    def max_length(self) -> int | None:
        return self.model.max_length

    def hidden(
        self,
        tokens: Tokens,
        lengths: Lengths,  # noqa: ARG002  # what is padding matters to no token before it
        segments: Tokens | None = None,  # noqa: ARG002  # the tokens in their order say the same
    ) -> Float[Tensor, "batch places size"]:
        return self.model.hidden(tokens)


@final
class ModelWithHead(nn.Module):
    """A backbone and a head, trained together."""

    def __init__(self, backbone: Backbone, head: Head) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head

    @property
    def max_length(self) -> int | None:
        """The longest text, symbols included, or None where there is no end."""
        return self.backbone.max_length

    def forward(
        self, tokens: Tokens, lengths: Lengths, segments: Tokens | None = None
    ) -> Float[Tensor, "batch labels"] | Float[Tensor, "batch places labels"] | SpanLogits:
        """The logits of the head: of labels, of labels of every token, or of begin and end of an answer."""
        hidden = self.backbone.hidden(tokens, lengths, segments)
        head: Any = self.head
        match self.head:
            case SequenceHead():
                return head(hidden, lengths)
            case TokenHead():
                return head(hidden)
            case SpanHead():
                assert segments is not None, "an answer is looked for in segment 1"
                return head(hidden, lengths, segments)
            case _:
                assert_never(self.head)
