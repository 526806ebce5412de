"""Recurrent layers: cells, bidirectional encoder, attention and decoder."""
