r"""Sliding windows: a query attends to keys at a distance of at most $w$ (Beltagy et al., 2020, section 3.1), with
causal attention to itself and the $w$ keys before it (Jiang et al., 2023, section 2).

Queries are split into blocks of about $w$; each block with the keys in its window is a row of one dense attention, in
$O(nw)$ time and memory. The window of Beltagy et al. counts both sides, $2w$. The window of Hugging Face's Mistral
includes the query, $w + 1$.
"""

from typing import Literal, final

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt
from torch import Tensor

from dragoman.array_types import Bool, Float
from dragoman.config import Config
from dragoman.nn.attention import AttentionFunction, KeyMask
from dragoman.nn.attention_functions import AttentionOutput, Values, VisibleKeys
from dragoman.nn.attention_score_functions import MappedKeys, MappedQueries
from dragoman.nn.masks import distances

MIN_BLOCK_SIZE = 32
"""Minimum number of queries per block; smaller matrices save arithmetic but take longer."""


class SlidingWindowConfig(Config):
    """Attention to near positions (Beltagy et al., 2020; causal: Jiang et al., 2023)."""

    kind: Literal["sliding_window"] = "sliding_window"
    window: PositiveInt = Field(default=128, description="maximum distance of a query and a key")


def sliding_window_mask(
    queries: int, keys: int, *, past_length: int, window: int, causal: bool, device: torch.device | None = None
) -> Bool[Tensor, "1 1 {queries} {keys}"]:
    r"""Return the dense mask of a window: $-w \le j - i \le w$, or $-w \le j - i \le 0$ with `causal`.

    `past_length` keys precede the first query.

    >>> sliding_window_mask(4, 4, past_length=0, window=1, causal=True)[0, 0].int()
    tensor([[1, 0, 0, 0],
            [1, 1, 0, 0],
            [0, 1, 1, 0],
            [0, 0, 1, 1]], dtype=torch.int32)
    """
    away = distances(queries, keys, past_length=past_length, device=device)
    return ((away >= -window) & (away <= (0 if causal else window)))[None, None]


@final
class SlidingWindow:
    """Attention within a window; keys outside every window, as in a long cache, are not touched."""

    max_length: int | None = None

    def __init__(self, *, window: int, causal: bool) -> None:
        self.window = window
        self.causal = causal

    def __call__(
        self, attend: AttentionFunction, query: MappedQueries, key: MappedKeys, value: Values, mask: KeyMask | None
    ) -> AttentionOutput:
        past = key.shape[2] - query.shape[2]
        assert past >= 0, "a window requires self-attention, whose queries align with the last keys"
        forgotten = max(0, past - self.window)
        key, value = key[:, :, forgotten:], value[:, :, forgotten:]
        mask = None if mask is None else mask[..., forgotten:]
        if key.shape[2] <= self.window + 1:
            return attend(query, key, value, VisibleKeys(mask, self.causal, past - forgotten))
        return self._attend_in_blocks(attend, query, key, value, mask)

    def _attend_in_blocks(
        self, attend: AttentionFunction, query: MappedQueries, key: MappedKeys, value: Values, mask: KeyMask | None
    ) -> AttentionOutput:
        """Let every block attend to the keys from `window` before its first query to `window` after its last."""
        rows, _, queries, _ = query.shape
        keys, device = key.shape[2], key.device
        ahead = 0 if self.causal else self.window
        block = min(max(self.window, MIN_BLOCK_SIZE), queries)
        span = self.window + block + ahead
        missing = -queries % block
        around = (self.window - (keys - queries), missing + ahead)
        if mask is None:
            mask = torch.ones(1, 1, 1, keys, dtype=torch.bool, device=device)
        below = 0 if mask.shape[2] == 1 else missing
        visible = diagonal_blocks(F.pad(mask, (*around, 0, below)), block=block, span=span)
        near = sliding_window_mask(
            block, span, past_length=self.window, window=self.window, causal=self.causal, device=device
        )
        attended = attend(
            overlapping_blocks(F.pad(query, (0, 0, 0, missing)), size=block, step=block),
            overlapping_blocks(F.pad(key, (0, 0, *around)), size=span, step=block),
            overlapping_blocks(F.pad(value, (0, 0, *around)), size=span, step=block),
            VisibleKeys((visible & near).expand(rows, -1, -1, -1).flatten(0, 1)[:, None], past_length=self.window),
        )
        return attended.unflatten(0, (rows, -1)).transpose(1, 2).flatten(2, 3)[:, :, :queries]


def overlapping_blocks(
    x: Float[Tensor, "rows heads positions width"], *, size: int, step: int
) -> Float[Tensor, "folded heads {size} width"]:
    """Return overlapping blocks of `size` positions, one every `step`, as rows."""
    return x.unfold(2, size, step).permute(0, 2, 1, 4, 3).flatten(0, 1)


def diagonal_blocks(
    mask: Bool[Tensor, "rows 1 #queries keys"], *, block: int, span: int
) -> Bool[Tensor, "rows blocks {block} {span}"]:
    """Return the part of a mask for each block of queries and its span of keys, as a view."""
    blocks = (mask.shape[3] - span) // block + 1
    tiles = mask[:, 0].expand(-1, blocks * block, -1).unfold(1, block, block).unfold(2, span, block)
    return tiles.diagonal(dim1=1, dim2=2).permute(0, 3, 1, 2)
