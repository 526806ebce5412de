"""A study as one page that needs nothing but a browser: no network, no server, no build."""

from dragoman.interpret.report.error_analysis import analysis_tree
from dragoman.interpret.report.html import analysis_page, page
from dragoman.interpret.report.serialization import tree_of

__all__ = ["analysis_page", "analysis_tree", "page", "tree_of"]
