"""Transformer sequence models: from raw parallel text to a trained, served and inspectable network."""
