"""The page put together: its frame, its style, its program and the data inside."""

import json
from importlib.resources import files
from typing import Any

FRAME = ("head.html", "foot.html")
"""What all pages begin and end with."""


def page(tree: dict[str, Any]) -> str:
    """The HTML of a tree of `tree_of`, with style, program and data inside of it."""
    return _filled(tree, "page.html", programs=["beam.js", "beside.js", "page.js"])


def analysis_page(tree: dict[str, Any]) -> str:
    """The HTML of a tree of `analysis_tree`, likewise."""
    return _filled(tree, "analysis.html", programs=["analysis.js"])


def _filled(tree: dict[str, Any], content: str, *, programs: list[str]) -> str:
    text = _file(content).join(map(_file, FRAME))
    parts = {"/* style */": ["page.css"], "/* drawing */": ["drawing.js"], "/* page */": programs}
    for mark, names in parts.items():
        text = text.replace(mark, "\n".join(map(_file, names)))
    # In a script of data, only this could end it early, or be taken for a comment.
    data = json.dumps(tree, ensure_ascii=False).replace("<", "\\u003c")
    title = tree["title"].replace("&", "&amp;").replace("<", "&lt;")
    return text.replace("<!-- title -->", title).replace("<!-- data -->", data)


def _file(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")
