"""HTML of a report: frame, style, scripts and data in one file."""

import json
from importlib.resources import files
from typing import Any

FRAME = ("head.html", "foot.html")


def render_explanations(tree: dict[str, Any]) -> str:
    """Return the HTML of `explanations_to_dict`."""
    return _render(tree, "explanations.html", scripts=["beam.js", "side_by_side.js", "explanations.js"])


def render_error_analysis(tree: dict[str, Any]) -> str:
    """Return the HTML of `error_analysis_to_dict`."""
    return _render(tree, "error_analysis.html", scripts=["error_analysis.js"])


def _render(tree: dict[str, Any], content: str, *, scripts: list[str]) -> str:
    text = _read(content).join(map(_read, FRAME))
    parts = {"/* style */": ["style.css"], "/* drawing */": ["drawing.js"], "/* scripts */": scripts}
    for placeholder, names in parts.items():
        text = text.replace(placeholder, "\n".join(map(_read, names)))
    # Inside a script element, only `<` could end the data or start a comment.
    data = json.dumps(tree, ensure_ascii=False).replace("<", "\\u003c")
    title = tree["title"].replace("&", "&amp;").replace("<", "&lt;")
    return text.replace("<!-- title -->", title).replace("<!-- data -->", data)


def _read(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")
