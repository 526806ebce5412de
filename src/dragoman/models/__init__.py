"""Whole models, and the protocols that other packages rely on."""
