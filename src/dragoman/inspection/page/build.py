"""The page put together: its three files, and the data inside."""

import json
from importlib.resources import files
from typing import Any

PARTS = {"/* style */": "page.css", "/* program */": "page.js"}


def page(tree: dict[str, Any]) -> str:
    """The HTML of a tree of `tree_of`, with style, program and data inside of it."""
    text = _file("page.html")
    for mark, name in PARTS.items():
        text = text.replace(mark, _file(name))
    # In a script of data, only this could end it early, or be taken for a comment.
    data = json.dumps(tree, ensure_ascii=False).replace("<", "\\u003c")
    title = tree["title"].replace("&", "&amp;").replace("<", "&lt;")
    return text.replace("<!-- title -->", title).replace("<!-- data -->", data)


def _file(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")
