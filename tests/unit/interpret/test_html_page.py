"""Content security policy of the reports."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from dragoman.interpret.report.html_page import render_error_analysis, render_explanations


class Elements(HTMLParser):
    """Elements of a page, with the text of scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=False)
        self.found: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs), ""))

    def handle_endtag(self, tag):
        self.found.append(("", {}, ""))

    def handle_data(self, data):
        if self.found:
            tag, attributes, text = self.found[-1]
            self.found[-1] = (tag, attributes, text + data)


def hash_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@pytest.mark.parametrize("render", [render_error_analysis, render_explanations])
def test_page_allows_its_script_and_style_alone(render):
    page = render({"title": "<script>alert(1)</script> </title>", "data": "</script><script>alert(1)</script>"})
    elements = Elements(page).found
    [policy] = [one["content"] for tag, one, _ in elements if one.get("http-equiv") == "Content-Security-Policy"]
    [style] = [text for tag, _, text in elements if tag == "style"]
    data, script = [(attributes, text) for tag, attributes, text in elements if tag == "script"]
    assert data[0]["type"] == "application/json"  # not run, so it needs no hash
    assert script[0] == {}
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == hash_of(script[1])
    assert rules["style-src"] == hash_of(style)
    assert page.index("Content-Security-Policy") < page.index("<title>") < page.index("<style>")
    names = {name for _, attributes, _ in elements for name in attributes}
    assert not [name for name in names if name == "style" or re.match("on", name)]
