"""The page put together: its style, its program and the data inside."""

import json
from importlib.resources import files
from typing import Any

STYLE = {"/* style */": "page.css", "/* drawing */": "drawing.js"}
INSPECTION = ("page.html", STYLE | {"/* beam */": "beam.js", "/* page */": "page.js"})
ANALYSIS = ("analysis.html", STYLE | {"/* page */": "analysis.js"})


def page(tree: dict[str, Any]) -> str:
    """The HTML of a tree of `tree_of`, with style, program and data inside of it."""
    return _filled(tree, *INSPECTION)


def analysis_page(tree: dict[str, Any]) -> str:
    """The HTML of a tree of `analysis_tree`, likewise."""
    return _filled(tree, *ANALYSIS)


def _filled(tree: dict[str, Any], template: str, parts: dict[str, str]) -> str:
    text = _file(template)
    for mark, name in parts.items():
        text = text.replace(mark, _file(name))
    # In a script of data, only this could end it early, or be taken for a comment.
    data = json.dumps(tree, ensure_ascii=False).replace("<", "\\u003c")
    title = tree["title"].replace("&", "&amp;").replace("<", "&lt;")
    return text.replace("<!-- title -->", title).replace("<!-- data -->", data)


def _file(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")
