"""Web pages of the server: they load nothing from other hosts, and describe every address."""

import re
from html import unescape
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit
from urllib.request import urlopen

import pytest

from tests.running_server import RunningServer

LOADED = re.compile(r"""(?:\b(?:from|import)\s*\(?\s*|@import\s+|url\(\s*)["']([^"']+)["']|url\(([^"')]+)\)""")
"""Addresses that a style sheet or a module loads."""


class _Addresses(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.found += [
            value for name, value in attrs if name in ("href", "src", "action", "srcset", "poster") and value
        ]


def _fetch(url: str) -> tuple[str, str, str]:
    with urlopen(url, timeout=30) as response:
        return (
            response.read().decode("utf-8", "replace"),
            response.headers.get_content_type(),
            response.headers.get("Content-Security-Policy", ""),
        )


@pytest.mark.parametrize("start", ["/", "/docs"])
def test_pages_load_nothing_from_other_hosts(server: RunningServer, start):
    waiting, seen = [server.url + start], set()
    while waiting:
        url = waiting.pop()
        text, kind, policy = _fetch(url)
        seen.add(url)
        found = []
        if kind == "text/html":
            assert policy.startswith("default-src 'none'")
            assert "http" not in policy
            parser = _Addresses()
            parser.feed(text)
            found = parser.found
        elif kind in ("text/css", "text/javascript"):
            found = [one or two for one, two in LOADED.findall(text)]
            assert not re.search(r"""["'`](?:https?|wss?):""", text.replace("http://www.w3.org/", "")), url
        for address in (urljoin(url, one) for one in found if not one.startswith(("#", "data:"))):
            assert urlsplit(address).netloc == urlsplit(server.url).netloc, f"{url} names {address}"
            if address not in seen and "{" not in address:
                waiting.append(address)


def test_the_description_has_every_address_and_field(server: RunningServer):
    described = server.get("/openapi.json")
    page = _fetch(server.url + "/docs")[0]
    for path, operations in described["paths"].items():
        assert f"<code>{path}</code>" in page
        for operation in operations.values():
            for body in operation.get("requestBody", {}).get("content", {}).values():
                for name in body["schema"].get("properties", {}):
                    assert f"<code>{name}</code>" in page
    assert "curl " + server.url in page


def test_the_address_of_an_example_is_escaped(server: RunningServer):
    from urllib.request import Request

    with urlopen(Request(server.url + "/docs", headers={"Host": "<script>alert(1)</script>"}), timeout=30) as response:
        assert "<script>" not in response.read().decode()


def test_examples_have_every_required_field(server: RunningServer):
    described = server.get("/openapi.json")
    page = unescape(_fetch(server.url + "/docs")[0])
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            shown = page.partition(f"<b>{method.upper()}</b><code>{path}</code>")[2]
            example = shown.partition(server.url + path)[2].partition("</pre>")[0]
            for body in operation.get("requestBody", {}).get("content", {}).values():
                for name in body["schema"].get("required", ()):
                    assert f'"{name}"' in example or f"{name}=" in example, (method, path)
