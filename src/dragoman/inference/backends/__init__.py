"""Backends that compute models: PyTorch, the compiled CPU library, and wrappers of both."""

from importlib import import_module
from typing import Any

from dragoman.inference.backends.protocol import InferenceBackend


def as_backend(model: Any, **options: Any) -> InferenceBackend[Any, Any]:
    """Return a backend as it is, and a PyTorch model in a `TorchBackend` with the options.

    PyTorch is imported for its own models only.
    """
    if isinstance(model, InferenceBackend):
        return model
    backend: InferenceBackend[Any, Any] = import_module(f"{__name__}.torch_backend").TorchBackend(model, **options)
    return backend
