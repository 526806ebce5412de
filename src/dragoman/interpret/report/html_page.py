"""HTML of a report: frame, style, scripts and data in one file, in which the browser runs nothing else."""

import base64
import hashlib
import json
import re
from importlib.resources import files
from typing import Any

FRAME = ("head.html", "foot.html")
POLICY = (
    "default-src 'none'; script-src {script}; style-src {style}; base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'"
)
"""Content security policy: the script and the style of the page by their hashes, and nothing from the network."""


def render_explanations(tree: dict[str, Any]) -> str:
    """Return the HTML of `explanations_to_dict`."""
    return _render(tree, "explanations.html", scripts=["beam.js", "side_by_side.js", "decay.js", "explanations.js"])


def render_error_analysis(tree: dict[str, Any]) -> str:
    """Return the HTML of `error_analysis_to_dict`."""
    return _render(tree, "error_analysis.html", scripts=["error_analysis.js"])


def _render(tree: dict[str, Any], content: str, *, scripts: list[str]) -> str:
    text = _read(content).join(map(_read, FRAME))
    parts = {"/* style */": ["style.css"], "/* drawing */": ["drawing.js"], "/* scripts */": scripts}
    for placeholder, names in parts.items():
        text = text.replace(placeholder, "\n".join(map(_read, names)))
    policy = POLICY.format(script=_hash_of(text, "script"), style=_hash_of(text, "style"))
    # Inside a script element, only `<` could end the data or start a comment.
    data = json.dumps(tree, ensure_ascii=False).replace("<", "\\u003c")
    title = tree["title"].replace("&", "&amp;").replace("<", "&lt;")
    return text.replace("<!-- policy -->", policy).replace("<!-- title -->", title).replace("<!-- data -->", data)


def _hash_of(page: str, element: str) -> str:
    """Return the source expression of the only element of this name without attributes."""
    [content] = re.findall(rf"<{element}>(.*?)</{element}>", page, re.DOTALL)
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def _read(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")
