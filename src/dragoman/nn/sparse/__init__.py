"""Attention below the square: patterns that reach some of the keys, or a fixed number of mixtures of them.

| kind | cost for a length $n$ | for |
|---|---|---|
| `full` | $n^2$ | everything |
| `window` | $n \\cdot \\mathtt{reach}$ | encoders and decoders |
| `bigbird` | $n \\cdot (5 + \\mathtt{random}) \\cdot \\mathtt{block}$ | encoders |
| `linformer` | $n \\cdot \\mathtt{width}$ | encoders, up to a length |

Each only arranges rows and blocks for the `look` that it is handed, so that every score, dropout and fused kernel works
as it does in full attention.
"""

from dragoman.nn.sparse.bigbird import BigBird, BigBirdConfig, bigbird_mask, sample_random_blocks
from dragoman.nn.sparse.factory import KeyHeads, PatternConfig, build_pattern
from dragoman.nn.sparse.linformer import Linformer, LinformerConfig
from dragoman.nn.sparse.sliding_window import SlidingWindow, SlidingWindowConfig, sliding_window_mask

__all__ = [
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
