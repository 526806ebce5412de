"""A network that reads texts, with a head that says something about them."""

from typing import Any, Protocol, assert_never, final, runtime_checkable

from torch import Tensor, nn

from dragoman.models.task_heads import Head, SequenceHead, SpanHead, SpanLogits, TokenHead
from dragoman.shapes import Lengths
from dragoman.typing import Float, Int

Tokens = Int[Tensor, "batch places"]


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
