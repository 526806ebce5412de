"""Transformer blocks: sublayers, each with a residual connection and a norm."""

from collections.abc import Callable, Iterable
from typing import Literal, final

import torch
from torch import Tensor, nn

from dragoman.array_types import Bool, Float
from dragoman.nn.attention import KeyMask, MultiHeadAttention, PositionIds, RelationIds
from dragoman.nn.dropout import Dropout
from dragoman.nn.embedding import TokenEmbedding
from dragoman.nn.feed_forward import FeedForward
from dragoman.nn.kv_cache import KVCache, LayerState
from dragoman.nn.recurrent.ssru import SSRU, SSRUState

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
    """Causal self-attention or SSRU, cross-attention unless the model is decoder-only, then the feed-forward network.

    Training processes all target positions without a state; decoding, one position with the state of its prefix. Rows
    are hypotheses; the beams of a sentence share its memory without copying it.
    """

    def __init__(
        self,
        *,
        attention: MultiHeadAttention | SSRU,
        cross_attention: MultiHeadAttention | None = None,
        feed_forward: FeedForward,
        build_residual: Callable[[], Residual],
    ) -> None:
        super().__init__()
        self.attention = attention if isinstance(attention, MultiHeadAttention) else None
        self.ssru = attention if isinstance(attention, SSRU) else None
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward
        self.attention_residual = build_residual()
        self.cross_attention_residual = None if cross_attention is None else build_residual()
        self.feed_forward_residual = build_residual()

    def forward(
        self,
        x: Hidden,
        past: LayerState | None,
        *,
        mask: KeyMask | None,
        position_ids: PositionIds | None = None,
        memory: KVCache | None = None,
        memory_mask: Bool[Tensor, "#sentences #heads #queries source"] | None = None,
    ) -> tuple[Hidden, LayerState]:
        """Return the output and the state after it; cross-attention requires `memory`."""
        states: list[LayerState] = []

        def read_prefix(y: Hidden) -> Hidden:
            hidden, state = self._read_prefix(y, past, mask, position_ids)
            states.append(state)
            return hidden

        def cross_attention(y: Hidden) -> Hidden:
            assert self.cross_attention is not None and memory is not None  # noqa: PT018
            queries = y.reshape(memory.keys.shape[0], -1, y.shape[-1])  # beams are additional queries of a sentence
            return self.cross_attention(queries, memory, memory_mask).view_as(y)

        x = self.attention_residual(x, read_prefix)
        if self.cross_attention_residual is not None:
            x = self.cross_attention_residual(x, cross_attention)
        return self.feed_forward_residual(x, self.feed_forward), states[0]

    def start(self, rows: int) -> LayerState:
        """Return the state before the first position."""
        if self.ssru is not None:
            return self.ssru.start(rows)
        assert self.attention is not None, "a block has self-attention or an SSRU"
        weight = self.attention.query.weight
        positions = torch.zeros(rows, 0, dtype=torch.long, device=weight.device)
        return self.attention.project_keys_values(weight.new_zeros(rows, 0, weight.shape[1]), positions)

    def _read_prefix(
        self, x: Hidden, past: LayerState | None, mask: KeyMask | None, position_ids: PositionIds | None
    ) -> tuple[Hidden, LayerState]:
        """Return the output of self-attention or SSRU, and the state after it."""
        if self.ssru is not None:
            assert past is None or isinstance(past, SSRUState)
            return self.ssru(x, past)
        assert self.attention is not None, "a block has self-attention or an SSRU"
        assert past is None or isinstance(past, KVCache)
        new = self.attention.project_keys_values(x, position_ids)
        cache = new if past is None else past.append(new)
        return self.attention(x, cache, mask, position_ids), cache
