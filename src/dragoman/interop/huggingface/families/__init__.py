"""Families of models: how each maps its configuration, and the names of its tensors."""
