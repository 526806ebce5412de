"""Recurrent networks: the equations of the cells, an encoder that reads both ways, and a decoder that may look back."""
