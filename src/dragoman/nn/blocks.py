"""The blocks that encoder and decoder repeat: sublayers, each with a residual connection and a norm around it."""

from collections.abc import Callable, Iterable
from typing import Literal, final

from torch import Tensor, nn

from dragoman.nn.attention import KeyMask, MultiHeadAttention, PositionIds, RelationIds
from dragoman.nn.dropout import Dropout
from dragoman.nn.embedding import TokenEmbedding
from dragoman.nn.feed_forward import FeedForward
from dragoman.nn.kv_cache import KVCache
from dragoman.typing import Bool, Float

Hidden = Float[Tensor, "rows positions size"]
NormPosition = Literal["pre", "post"]


@final
class Residual(nn.Module):
    r"""post: $\mathrm{norm}(x + f(x))$ as in the paper; pre: $x + f(\mathrm{norm}(x))$ (Xiong et al., 2020)."""

    def __init__(self, norm: nn.Module, *, position: NormPosition, dropout: float) -> None:
        super().__init__()
        self.norm = norm
        self.position: NormPosition = position
        self.dropout = Dropout(dropout)

    def forward(self, x: Hidden, sublayer: Callable[[Hidden], Hidden]) -> Hidden:
        if self.position == "pre":
            return x + self.dropout(sublayer(self.norm(x)))
        normed: Hidden = self.norm(x + self.dropout(sublayer(x)))
        return normed


@final
class EncoderBlock(nn.Module):
    """Self-attention over the whole source, then the position-wise network."""

    def __init__(
        self, *, attention: MultiHeadAttention, feed_forward: FeedForward, build_residual: Callable[[], Residual]
    ) -> None:
        super().__init__()
        self.attention = attention
        self.feed_forward = feed_forward
        self.attention_residual = build_residual()
        self.feed_forward_residual = build_residual()

    def forward(
        self,
        x: Hidden,
        mask: KeyMask | None,
        places: PositionIds | None = None,
        relations: RelationIds | None = None,
    ) -> Hidden:
        def look_around(y: Hidden) -> Hidden:
            return self.attention(y, self.attention.project_keys_values(y, places), mask, places, relations)

        x = self.attention_residual(x, look_around)
        return self.feed_forward_residual(x, self.feed_forward)


def max_sequence_length(embedding: TokenEmbedding, blocks: Iterable[EncoderBlock]) -> int | None:
    """The longest sequence that positions and patterns know, or None where there is no end."""
    limits = [embedding.max_length, *(block.attention.pattern.max_length for block in blocks)]
    return min((limit for limit in limits if limit is not None), default=None)


@final
class DecoderOnlyBlock(nn.Module):
    """Masked self-attention, then the position-wise network: a decoder block without a source."""

    def __init__(
        self, *, attention: MultiHeadAttention, feed_forward: FeedForward, build_residual: Callable[[], Residual]
    ) -> None:
        super().__init__()
        self.attention = attention
        self.feed_forward = feed_forward
        self.attention_residual = build_residual()
        self.feed_forward_residual = build_residual()

    def forward(
        self, x: Hidden, past: KVCache | None, *, mask: KeyMask | None, places: PositionIds | None
    ) -> tuple[Hidden, KVCache]:
        """The block's output and the keys and values of past and present together."""
        look_back = _Past(self.attention, past, mask, places)
        x = self.attention_residual(x, look_back)
        return self.feed_forward_residual(x, self.feed_forward), look_back.present


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
        build_residual: Callable[[], Residual],
    ) -> None:
        super().__init__()
        self.attention = attention
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward
        self.attention_residual = build_residual()
        self.cross_attention_residual = build_residual()
        self.feed_forward_residual = build_residual()

    def forward(
        self,
        x: Hidden,
        memory: KVCache,
        past: KVCache | None,
        *,
        mask: KeyMask | None,
        memory_mask: Bool[Tensor, "#sentences #heads #places source"] | None,
        places: PositionIds | None = None,
    ) -> tuple[Hidden, KVCache]:
        """The block's output and the keys and values of past and present together."""
        look_back = _Past(self.attention, past, mask, places)

        def look_across(y: Hidden) -> Hidden:
            sentences = memory.keys.shape[0]
            queries = y.reshape(sentences, -1, y.shape[-1])  # a beam is so many more queries to the same memory
            return self.cross_attention(queries, memory, memory_mask).view_as(y)

        x = self.attention_residual(x, look_back)
        x = self.cross_attention_residual(x, look_across)
        return self.feed_forward_residual(x, self.feed_forward), look_back.present


class _Past:
    """Self-attention to the past and to itself as a sublayer, which leaves what it saw in `present`."""

    present: KVCache

    def __init__(
        self, attention: MultiHeadAttention, past: KVCache | None, mask: KeyMask | None, places: PositionIds | None
    ) -> None:
        self.attention = attention
        self.past = past
        self.mask = mask
        self.places = places

    def __call__(self, x: Hidden) -> Hidden:
        new = self.attention.project_keys_values(x, self.places)
        self.present = new if self.past is None else self.past.append(new)
        return self.attention(x, self.present, self.mask, self.places)
