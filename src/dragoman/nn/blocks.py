"""Transformer blocks: sublayers, each with a residual connection and a norm."""

from collections.abc import Callable, Iterable
from typing import Literal, final

from torch import Tensor, nn

from dragoman.array_types import Bool, Float
from dragoman.nn.attention import KeyMask, MultiHeadAttention, PositionIds, RelationIds
from dragoman.nn.dropout import Dropout
from dragoman.nn.embedding import TokenEmbedding
from dragoman.nn.feed_forward import FeedForward
from dragoman.nn.kv_cache import KVCache

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
    """Self-attention, then the feed-forward network."""

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
        position_ids: PositionIds | None = None,
        relations: RelationIds | None = None,
    ) -> Hidden:
        def self_attention(y: Hidden) -> Hidden:
            return self.attention(y, self.attention.project_keys_values(y, position_ids), mask, position_ids, relations)

        x = self.attention_residual(x, self_attention)
        return self.feed_forward_residual(x, self.feed_forward)


def max_sequence_length(embedding: TokenEmbedding, blocks: Iterable[EncoderBlock]) -> int | None:
    """Maximum sequence length of the positions and attention patterns, or None if unlimited."""
    limits = [embedding.max_length, *(block.attention.pattern.max_length for block in blocks)]
    return min((limit for limit in limits if limit is not None), default=None)


@final
class DecoderBlock(nn.Module):
    """Causal self-attention, cross-attention unless the model is decoder-only, then the feed-forward network.

    Training processes all target positions without a cache; decoding, one position with the cache of its prefix. Rows
    are hypotheses; the beams of a sentence share its memory without copying it.
    """

    def __init__(
        self,
        *,
        attention: MultiHeadAttention,
        cross_attention: MultiHeadAttention | None = None,
        feed_forward: FeedForward,
        build_residual: Callable[[], Residual],
    ) -> None:
        super().__init__()
        self.attention = attention
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward
        self.attention_residual = build_residual()
        self.cross_attention_residual = None if cross_attention is None else build_residual()
        self.feed_forward_residual = build_residual()

    def forward(
        self,
        x: Hidden,
        past: KVCache | None,
        *,
        mask: KeyMask | None,
        position_ids: PositionIds | None = None,
        memory: KVCache | None = None,
        memory_mask: Bool[Tensor, "#sentences #heads #queries source"] | None = None,
    ) -> tuple[Hidden, KVCache]:
        """Return the output and the extended key-value cache; cross-attention requires `memory`."""
        caches: list[KVCache] = []

        def self_attention(y: Hidden) -> Hidden:
            new = self.attention.project_keys_values(y, position_ids)
            caches.append(new if past is None else past.append(new))
            return self.attention(y, caches[0], mask, position_ids)

        def cross_attention(y: Hidden) -> Hidden:
            assert self.cross_attention is not None and memory is not None  # noqa: PT018
            queries = y.reshape(memory.keys.shape[0], -1, y.shape[-1])  # beams are additional queries of a sentence
            return self.cross_attention(queries, memory, memory_mask).view_as(y)

        x = self.attention_residual(x, self_attention)
        if self.cross_attention_residual is not None:
            x = self.cross_attention_residual(x, cross_attention)
        return self.feed_forward_residual(x, self.feed_forward), caches[0]
