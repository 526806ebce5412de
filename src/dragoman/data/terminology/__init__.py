"""Terminology: glossaries, the terms of a text, and word translations learned from a corpus."""
