r"""Attention, $\mathrm{softmax}(e(Q, K))\,V$ with any score $e$; with the scaled dot product it is eq. 1 of Vaswani et
al. (2017).

`reference_attention` is the equation as written. `fused_attention` computes scores that are inner products with
PyTorch's fused kernels, which never store the weights. `map_query_chunks` saves memory for every other score: it
processes a few queries at a time and recomputes them in the backward pass. Property tests check that all three agree.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from dragoman.array_types import Bool, Float
from dragoman.nn.attention_score_functions import Logits, MappedKeys, MappedQueries, repeat_kv_heads, scaled_dot
from dragoman.nn.cpu_training_ops import CpuAttention, cpu_ops_for
from dragoman.nn.dropout import dropout
from dragoman.nn.masks import causal_mask as causal_mask

Values = Float[Tensor, "rows key_heads keys value_size"]
Mask = Bool[Tensor, "#rows #heads #queries keys"]
Bias = Float[Tensor, "#rows heads queries keys"]
AttentionOutput = Float[Tensor, "rows heads queries value_size"]
ScoreFunction = Callable[[MappedQueries, MappedKeys], Logits]

MAX_CPU_OPS_LENGTH = 64
"""Longest sequence computed by `cpu_ops`; PyTorch's blocked kernels are faster on longer ones."""
MAX_CHUNK_ELEMENTS = 2**24
"""Maximum number of elements of one chunk of attention weights."""
RelativeValues = Callable[[Logits], AttentionOutput]
"""Contribution of relative positions to the values, from the attention weights (Shaw et al., 2018, eq. 3)."""


@dataclass(frozen=True)
class VisibleKeys:
    """Keys that queries may attend to.

    `past_length` keys precede the first query; with `causal`, key $j$ is hidden from query $i$ if
    $j > i + \\mathtt{past\\_length}$. None means that the keys have no order, so that distances are undefined.
    """

    mask: Mask | None = None
    causal: bool = False
    past_length: int | None = None

    def dense_mask(self, query: MappedQueries, key: MappedKeys) -> Mask | None:
        """Combine `mask` with the causal mask; return None if nothing is masked."""
        if not self.causal:
            return self.mask
        assert self.past_length is not None
        queries, keys = query.shape[2], key.shape[2]
        if queries == 1 and self.past_length >= keys - 1:
            return self.mask
        past = causal_mask(queries, keys, past_length=self.past_length, device=query.device)
        return past if self.mask is None else self.mask & past

    def chunk(self, first: int, size: int) -> "VisibleKeys":
        """Return the keys that `size` queries from `first` on may attend to."""
        mask = self.mask
        if mask is not None and mask.shape[2] > 1:
            mask = mask[:, :, first : first + size]
        return VisibleKeys(mask, self.causal, None if self.past_length is None else self.past_length + first)


def masked_softmax(logits: Logits, mask: Mask | None) -> Logits:
    """Softmax over the keys in the mask, exactly zero elsewhere, for logits that are finite or minus infinity.

    A query gets zeros, never NaN, if it has no visible key or all its visible logits are minus infinity.
    """
    visible = logits if mask is None else logits.masked_fill(~mask, -torch.inf)
    is_empty = visible.isneginf().all(dim=-1, keepdim=True)
    # GPUs would wait for the answer, and compiled graphs cannot depend on it.
    if visible.device.type == "cpu" and not torch.compiler.is_compiling() and not is_empty.any():
        return visible.softmax(dim=-1)
    return visible.masked_fill(is_empty, 0.0).softmax(dim=-1).masked_fill(is_empty, 0.0)


def attention_weights(
    query: MappedQueries,
    key: MappedKeys,
    *,
    mask: Mask | None = None,
    bias: Bias | None = None,
    compare: ScoreFunction = scaled_dot,
) -> Logits:
    """Attention weights of every query and key, $\\mathrm{softmax}(e(Q, K) + \\mathtt{bias})$."""
    logits = compare(query, key)
    return masked_softmax(logits if bias is None else logits + bias, mask)


def reference_attention(
    query: MappedQueries,
    key: MappedKeys,
    value: Values,
    *,
    mask: Mask | None = None,
    bias: Bias | None = None,
    compare: ScoreFunction = scaled_dot,
    dropout_p: float = 0.0,
    relative_values: RelativeValues | None = None,
) -> AttentionOutput:
    """Compute the equation literally; `dropout_p` is the dropout on the weights (0 in evaluation mode)."""
    weights = dropout(attention_weights(query, key, mask=mask, bias=bias, compare=compare), dropout_p)
    attended = weights @ repeat_kv_heads(value, weights.shape[1])
    return attended if relative_values is None else attended + relative_values(weights)


def fused_attention(
    query: MappedQueries,
    key: MappedKeys,
    value: Values,
    *,
    mask: Mask | None = None,
    bias: Bias | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> AttentionOutput:
    r"""Compute attention with the score $\mathtt{scale} \cdot q^\top k$ by fused kernels, without storing the weights.

    `causal` requires as many queries as keys and no other mask. The default `scale` is $1 / \sqrt{d}$.
    """
    grouped = query.shape[1] != key.shape[1]
    plain = bias is None and key.shape == value.shape and not grouped
    if plain and max(query.shape[2], key.shape[2]) <= MAX_CPU_OPS_LENGTH and (core := cpu_ops_for(query)) is not None:
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        seen = None if mask is None else mask.expand(*mask.shape[:3], key.shape[2])
        return CpuAttention.apply(query, key, value, seen, causal, scale, core)  # type: ignore[no-untyped-call]
    attn_mask: Tensor | None = mask
    is_empty: Tensor | None = None
    if bias is not None:
        if mask is not None:  # some kernels return NaN for a row without any finite bias
            is_empty = ~mask.any(dim=-1, keepdim=True)
            bias = bias.masked_fill(~(mask | is_empty), -torch.inf)
        attn_mask = bias.to(query.dtype)
    attended = F.scaled_dot_product_attention(
        query, key, value, attn_mask=attn_mask, is_causal=causal, scale=scale, enable_gqa=grouped
    )
    return attended if is_empty is None else attended.masked_fill(is_empty, 0.0)


def queries_per_chunk(query: MappedQueries, key: MappedKeys, *, stores_width: bool) -> int:
    """Return how many queries fit into a chunk; `stores_width`: the score stores `width` numbers per pair."""
    rows, heads, _, width = query.shape
    return max(1, MAX_CHUNK_ELEMENTS // (rows * heads * max(1, key.shape[2]) * (width if stores_width else 1)))


def map_query_chunks(
    compute: Callable[[MappedQueries, VisibleKeys], Tensor], query: MappedQueries, visible: VisibleKeys, *, chunk: int
) -> AttentionOutput:
    """Concatenate `compute(queries, visible keys)` over chunks of `chunk` queries.

    With gradients, a chunk stores only its queries and is recomputed in the backward pass.
    """
    queries = query.shape[2]
    if chunk >= queries:
        return compute(query, visible)
    parts = []
    for first in range(0, queries, chunk):
        inputs = query[:, :, first : first + chunk], visible.chunk(first, chunk)
        parts.append(checkpoint(compute, *inputs, use_reentrant=False) if torch.is_grad_enabled() else compute(*inputs))
    return torch.cat(parts, dim=2)
