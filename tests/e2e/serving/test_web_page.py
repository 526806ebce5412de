"""The files of the web page: what is served, and with which headers."""

import re
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from dragoman.serving.http.web_page import MEDIA_TYPES, web_files


def fetch(url, **headers):
    with urlopen(Request(url, headers=headers), timeout=30) as response:
        return response.status, response.headers, response.read()


def test_files_have_a_strict_policy(server):
    for path in ("/", *(f"/web/{name}" for name in web_files())):
        status, headers, content = fetch(server.url + path)
        assert (status, len(content) > 0) == (200, True)
        policy = dict(one.strip().partition(" ")[::2] for one in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "no-referrer")


def test_unchanged_files_are_not_sent_again(server):
    _, headers, _ = fetch(f"{server.url}/web/main.js")
    with pytest.raises(HTTPError) as caught:
        fetch(f"{server.url}/web/main.js", **{"If-None-Match": f'"other", W/{headers["etag"]}'})
    with caught.value as answer:
        assert (answer.code, answer.read()) == (304, b"")
        assert answer.headers["etag"] == headers["etag"]


@pytest.mark.parametrize("name", ["web_page.py", "..%2fapp.py", "%2e%2e/app.py", "MAIN.JS", "%00"])
def test_other_files_are_not_served(server, name):
    with pytest.raises(HTTPError) as caught:
        fetch(f"{server.url}/web/{name}")
    with caught.value as answer:
        assert answer.code == 404


def test_page_has_no_inline_code():
    page = web_files()["index.html"].content.decode()
    assert re.findall(r"<[^>]*\s(?:style|on\w+)=", page) == []
    assert page.count("<script") == page.count('<script type="module" src="web/') == 1
    folder = Path(__file__).parents[3] / "src" / "dragoman" / "serving" / "http" / "web"
    assert {one.name for one in folder.iterdir() if one.suffix in MEDIA_TYPES} == set(web_files())
