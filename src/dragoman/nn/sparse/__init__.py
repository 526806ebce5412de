"""Attention patterns, with their cost for a length $n$.

| kind | cost | use |
|---|---|---|
| `full` | $n^2$ | everywhere |
| `sliding_window` | $n \\cdot \\mathtt{window}$ | encoders and decoders |
| `bigbird` | $n \\cdot (5 + \\mathtt{num\\_random\\_blocks}) \\cdot \\mathtt{block\\_size}$ | encoders |
| `linformer` | $n \\cdot \\mathtt{projected\\_length}$ | encoders, up to a maximum length |

A pattern only rearranges rows and blocks for the attention function, so that it supports every score and fused kernel.
"""

from dragoman.nn.sparse.bigbird import BigBird, BigBirdConfig, bigbird_mask, sample_random_blocks
from dragoman.nn.sparse.factory import NOT_CAUSAL, KeyHeads, PatternConfig, build_pattern
from dragoman.nn.sparse.linformer import Linformer, LinformerConfig
from dragoman.nn.sparse.sliding_window import SlidingWindow, SlidingWindowConfig, sliding_window_mask

__all__ = [
    "NOT_CAUSAL",
    "BigBird",
    "BigBirdConfig",
    "KeyHeads",
    "Linformer",
    "LinformerConfig",
    "PatternConfig",
    "SlidingWindow",
    "SlidingWindowConfig",
    "bigbird_mask",
    "build_pattern",
    "sample_random_blocks",
    "sliding_window_mask",
]
