"""The blocks that encoder and decoder repeat: sublayers, each with a residual connection and a norm around it."""

from collections.abc import Callable, Iterable
from typing import Literal, final

from torch import Tensor, nn

from dragoman.nn.attention import MultiHeadAttention, Places, Reachable, Relations
from dragoman.nn.dropout import Dropout
from dragoman.nn.embedding import TokenEmbedding
from dragoman.nn.feed_forward import FeedForward
from dragoman.nn.kv_cache import KeysValues
from dragoman.typing import Bool, Float

Positions = Float[Tensor, "rows positions size"]
NormPosition = Literal["pre", "post"]


@final
class Residual(nn.Module):
    r"""post: $\mathrm{norm}(x + f(x))$ as in the paper; pre: $x + f(\mathrm{norm}(x))$ (Xiong et al., 2020)."""

    def __init__(self, norm: nn.Module, *, position: NormPosition, dropout: float) -> None:
        super().__init__()
        self.norm = norm
        self.position: NormPosition = position
        self.dropout = Dropout(dropout)

    def forward(self, x: Positions, sublayer: Callable[[Positions], Positions]) -> Positions:
        if self.position == "pre":
            return x + self.dropout(sublayer(self.norm(x)))
        normed: Positions = self.norm(x + self.dropout(sublayer(x)))
        return normed


@final
class EncoderBlock(nn.Module):
    """Self-attention over the whole source, then the position-wise network."""

    def __init__(
        self, *, attention: MultiHeadAttention, feed_forward: FeedForward, around: Callable[[], Residual]
    ) -> None:
        super().__init__()
        self.attention = attention
        self.feed_forward = feed_forward
        self.around_attention = around()
        self.around_feed_forward = around()

    def forward(
        self,
        x: Positions,
        allowed: Reachable | None,
        places: Places | None = None,
        relations: Relations | None = None,
    ) -> Positions:
        def look_around(y: Positions) -> Positions:
            return self.attention(y, self.attention.keys_values(y, places), allowed, places, relations)

        x = self.around_attention(x, look_around)
        return self.around_feed_forward(x, self.feed_forward)


def longest_sequence(embedding: TokenEmbedding, blocks: Iterable[EncoderBlock]) -> int | None:
    """The longest sequence that positions and patterns know, or None where there is no end."""
    limits = [embedding.maximum_length, *(block.attention.pattern.maximum_length for block in blocks)]
    return min((limit for limit in limits if limit is not None), default=None)


@final
class CausalBlock(nn.Module):
    """Masked self-attention, then the position-wise network: a decoder block without a source."""

    def __init__(
        self, *, attention: MultiHeadAttention, feed_forward: FeedForward, around: Callable[[], Residual]
    ) -> None:
        super().__init__()
        self.attention = attention
        self.feed_forward = feed_forward
        self.around_attention = around()
        self.around_feed_forward = around()

    def forward(
        self, x: Positions, past: KeysValues | None, *, allowed: Reachable | None, places: Places | None
    ) -> tuple[Positions, KeysValues]:
        """The block's output and the keys and values of past and present together."""
        look_back = _Past(self.attention, past, allowed, places)
        x = self.around_attention(x, look_back)
        return self.around_feed_forward(x, self.feed_forward), look_back.present


@final
class DecoderBlock(nn.Module):
    """Masked self-attention, attention to the encoder's output, then the position-wise network.

    One pass serves training and inference: all target positions with no past, or one position with the keys and values
    of those before it. Rows are hypotheses; the `beam` rows of a sentence look at one memory without copying it.
    """

    def __init__(
        self,
        *,
        attention: MultiHeadAttention,
        cross_attention: MultiHeadAttention,
        feed_forward: FeedForward,
        around: Callable[[], Residual],
    ) -> None:
        super().__init__()
        self.attention = attention
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward
        self.around_attention = around()
        self.around_cross_attention = around()
        self.around_feed_forward = around()

    def forward(
        self,
        x: Positions,
        memory: KeysValues,
        past: KeysValues | None,
        *,
        allowed: Reachable | None,
        memory_allowed: Bool[Tensor, "#sentences #heads #places source"] | None,
        places: Places | None = None,
    ) -> tuple[Positions, KeysValues]:
        """The block's output and the keys and values of past and present together."""
        look_back = _Past(self.attention, past, allowed, places)

        def look_across(y: Positions) -> Positions:
            sentences = memory.keys.shape[0]
            queries = y.reshape(sentences, -1, y.shape[-1])  # a beam is so many more queries to the same memory
            return self.cross_attention(queries, memory, memory_allowed).view_as(y)

        x = self.around_attention(x, look_back)
        x = self.around_cross_attention(x, look_across)
        return self.around_feed_forward(x, self.feed_forward), look_back.present


class _Past:
    """Self-attention to the past and to itself as a sublayer, which leaves what it saw in `present`."""

    present: KeysValues

    def __init__(
        self, attention: MultiHeadAttention, past: KeysValues | None, allowed: Reachable | None, places: Places | None
    ) -> None:
        self.attention = attention
        self.past = past
        self.allowed = allowed
        self.places = places

    def __call__(self, x: Positions) -> Positions:
        new = self.attention.keys_values(x, self.places)
        self.present = new if self.past is None else self.past.append(new)
        return self.attention(x, self.present, self.allowed, self.places)
