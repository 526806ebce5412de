"""A study as one page that needs nothing but a browser: no network, no server, no build."""

from dragoman.inspection.page.analysis import analysis_tree
from dragoman.inspection.page.build import analysis_page, page
from dragoman.inspection.page.data import tree_of

__all__ = ["analysis_page", "analysis_tree", "page", "tree_of"]
