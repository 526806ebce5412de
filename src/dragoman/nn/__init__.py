"""Tensors to tensors: the equations of attention and the modules that hold their parameters."""
