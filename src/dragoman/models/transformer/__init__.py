"""The Transformer of Vaswani et al. (2017) and its variants."""
