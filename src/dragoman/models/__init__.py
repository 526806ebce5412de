"""Whole networks, and the protocols by which the rest of the house knows them."""
