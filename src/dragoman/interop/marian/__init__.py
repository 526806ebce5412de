"""Models of Marian (Junczys-Dowmunt et al., 2018) and Bergamot, which Firefox translates with, in and out."""

from dragoman.interop.marian.model_files import FILES, recognizes
from dragoman.interop.marian.read_model import read
from dragoman.interop.marian.write_model import write

__all__ = ["FILES", "read", "recognizes", "write"]
