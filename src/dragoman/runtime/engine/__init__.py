"""Continuous batching: sentences enter the running batch as others leave it, whoever asks for them."""

from dragoman.runtime.engine.engine import Engine
from dragoman.runtime.engine.in_order import in_order
from dragoman.runtime.engine.requests import Request
from dragoman.runtime.engine.running import Finished, Running

__all__ = ["Engine", "Finished", "Request", "Running", "in_order"]
