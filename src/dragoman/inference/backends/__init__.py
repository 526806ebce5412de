"""Backends that compute models: PyTorch, the compiled CPU library, and a wrapper of both."""
