"""Interpretation of models: attention, attributions, alignments, heads and beam searches."""

from dragoman.interpret.attention_recorder import AttentionCall, Trace, record

__all__ = ["AttentionCall", "Trace", "record"]
