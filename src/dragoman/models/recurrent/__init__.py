"""Recurrent sequence-to-sequence models, with attention or without."""
