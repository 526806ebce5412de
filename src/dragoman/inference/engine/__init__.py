"""Continuous batching: sentences enter the running batch as others leave it, whoever asks for them."""

from dragoman.inference.engine.engine import Engine
from dragoman.inference.engine.in_order import in_order
from dragoman.inference.engine.request import Request
from dragoman.inference.engine.scheduler import Finished, Running

__all__ = ["Engine", "Finished", "Request", "Running", "in_order"]
