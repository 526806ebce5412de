"""A study as one page that needs nothing but a browser: no network, no server, no build."""

from dragoman.inspection.page.build import page
from dragoman.inspection.page.data import tree_of

__all__ = ["page", "tree_of"]
