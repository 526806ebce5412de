"""HTML reports in one file, which works offline."""

from dragoman.interpret.report.html import render_error_analysis, render_explanations
from dragoman.interpret.report.serialization import ExplainedSystem, error_analysis_to_dict, explanations_to_dict

__all__ = [
    "ExplainedSystem",
    "error_analysis_to_dict",
    "explanations_to_dict",
    "render_error_analysis",
    "render_explanations",
]
