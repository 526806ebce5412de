r"""Global attention of a recurrent decoder (Luong et al., 2015, sections 3 and 3.1).

$a_{ts} = \mathrm{softmax}_s\, e(h_t, \bar h_s)$ with any score $e$, $c_t = \sum_s a_{ts} \bar h_s$, and the attentional
state $\tilde h_t = \tanh(W_c [c_t; h_t])$, from which the next word is predicted.
"""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from dragoman.nn.attention import MAX_CHUNK_ELEMENTS
from dragoman.nn.functional import (
    AttentionOutput,
    Mask,
    fused_attention,
    map_query_chunks,
    masked_softmax,
    reference_attention,
)
from dragoman.nn.kv_cache import KVCache
from dragoman.nn.scores import MappedQueries, Score
from dragoman.typing import Bool, Float

Queries = Float[Tensor, "batch queries size"]
Context = Float[Tensor, "batch queries value_size"]


@dataclass(frozen=True)
class AttentionMemory:
    """What a decoder may look at: one row a sentence, in one head."""

    states: KVCache
    """As keys, the encoder's states as the score maps them; as values, the states themselves."""
    mask: Bool[Tensor, "batch 1 1 source"]
    """Which of them are no padding."""


@final
class SourceAttention(nn.Module):
    """From the decoder's state to its attentional state; the queries of a sentence are its beams, or its places."""

    def __init__(self, *, score: Score, size: int, value_size: int) -> None:
        super().__init__()
        self.score = score
        self.combine = nn.Linear(value_size + size, size, bias=False)

    def keys_values(self, encoded: Float[Tensor, "batch source value_size"]) -> KVCache:
        """Mapped once for all steps and beams."""
        values = encoded[:, None]
        return KVCache(self.score.keys(values), values)

    def forward(self, query: Queries, view: AttentionMemory) -> Queries:
        r"""$\tilde h_t = \tanh(W_c [c_t; h_t])$."""
        return torch.tanh(self.combine(torch.cat([self.context(query, view), query], dim=2)))

    def weights(self, query: Queries, view: AttentionMemory) -> Float[Tensor, "batch queries source"]:
        """$a_{ts}$, zero in the padding."""
        logits = self.score.compare(self.score.queries(query[:, None]), view.states.keys)
        return masked_softmax(logits, view.mask).squeeze(1)

    def context(self, query: Queries, view: AttentionMemory) -> Context:
        r"""$c_t$, which is `weights` times the values."""
        mapped = self.score.queries(query[:, None])
        keys, values = view.states.keys, view.states.values
        if self.score.scale is not None:
            return fused_attention(mapped, keys, values, mask=view.mask, scale=self.score.scale).squeeze(1)

        def compute(some: MappedQueries, mask: Mask | None, _: int) -> AttentionOutput:
            return reference_attention(some, keys, values, mask=mask, compare=self.score.compare)

        held = keys.shape[0] * keys.shape[2] * keys.shape[3]
        return map_query_chunks(compute, mapped, view.mask, chunk=max(1, MAX_CHUNK_ELEMENTS // held)).squeeze(1)
