"""Attention patterns, with their cost for a length $n$.

| kind | cost | use |
|---|---|---|
| `full` | $n^2$ | everywhere |
| `sliding_window` | $n \\cdot \\mathtt{window}$ | encoders and decoders |
| `bigbird` | $n \\cdot (5 + \\mathtt{num\\_random\\_blocks}) \\cdot \\mathtt{block\\_size}$ | encoders |
| `linformer` | $n \\cdot \\mathtt{projected\\_length}$ | encoders, up to a maximum length |

A pattern only rearranges rows and blocks for the attention function, so that it supports every score and fused kernel.
"""
