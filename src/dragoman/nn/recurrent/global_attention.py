r"""Global attention of a recurrent decoder (Luong et al., 2015, sections 3 and 3.1).

$a_{ts} = \mathrm{softmax}_s\, e(h_t, \bar h_s)$ with any score $e$, $c_t = \sum_s a_{ts} \bar h_s$, and the attentional
state $\tilde h_t = \tanh(W_c [c_t; h_t])$, which predicts the next token.
"""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from dragoman.array_types import Bool, Float
from dragoman.nn.attention_functions import (
    AttentionOutput,
    VisibleKeys,
    fused_attention,
    map_query_chunks,
    masked_softmax,
    queries_per_chunk,
    reference_attention,
)
from dragoman.nn.attention_score_functions import MappedQueries, Score
from dragoman.nn.kv_cache import KVCache

DecoderQueries = Float[Tensor, "batch queries size"]
Context = Float[Tensor, "batch queries value_size"]


@dataclass(frozen=True)
class AttentionMemory:
    """Encoder states that a decoder attends to, one row per sentence, in one head."""

    states: KVCache
    """Keys are the encoder states mapped by the score; values are the states."""
    mask: Bool[Tensor, "batch 1 1 source"]
    """True where a state is no padding."""


@final
class SourceAttention(nn.Module):
    """Compute the attentional state; the queries of a sentence are its beams or its target positions."""

    def __init__(self, *, score: Score, size: int, value_size: int) -> None:
        super().__init__()
        self.score = score
        self.combine = nn.Linear(value_size + size, size, bias=False)

    def keys_values(self, encoded: Float[Tensor, "batch source value_size"]) -> KVCache:
        """Map encoder states once for all steps and beams."""
        values = encoded[:, None]
        return KVCache(self.score.keys(values), values)

    def forward(self, query: DecoderQueries, memory: AttentionMemory) -> DecoderQueries:
        r"""$\tilde h_t = \tanh(W_c [c_t; h_t])$."""
        return torch.tanh(self.combine(torch.cat([self.context(query, memory), query], dim=2)))

    def weights(self, query: DecoderQueries, memory: AttentionMemory) -> Float[Tensor, "batch queries source"]:
        """Return $a_{ts}$, zero at padding."""
        logits = self.score.compare(self.score.queries(query[:, None]), memory.states.keys)
        return masked_softmax(logits, memory.mask).squeeze(1)

    def context(self, query: DecoderQueries, memory: AttentionMemory) -> Context:
        """Return $c_t$, `weights` times the values."""
        mapped = self.score.queries(query[:, None])
        keys, values = memory.states.keys, memory.states.values
        if self.score.scale is not None:
            return fused_attention(mapped, keys, values, mask=memory.mask, scale=self.score.scale).squeeze(1)

        def compute(chunk: MappedQueries, visible: VisibleKeys) -> AttentionOutput:
            return reference_attention(chunk, keys, values, mask=visible.mask, compare=self.score.compare)

        chunk = queries_per_chunk(mapped, keys, stores_width=True)
        return map_query_chunks(compute, mapped, VisibleKeys(memory.mask), chunk=chunk).squeeze(1)
