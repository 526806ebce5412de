"""Readers of corpora, one module per format, streamed in constant memory."""
