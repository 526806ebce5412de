"""Placeholders in texts, markup and files: which ones the server protects by default and on request."""

import re
from pathlib import Path

import pytest
import requests

from tests.running_server import RunningServer, running_server

GOLDEN = Path(__file__).parents[2] / "golden" / "run-1"
TEXT = "the small cat sleeps in the %(place)s and {name} plays"
PLACEHOLDERS = ("%(place)s", "{name}")
PAIR = {"source": "en", "target": "de"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running_server(tmp_path_factory.mktemp("placeholders"), f"en-de={GOLDEN}") as running:
        yield running


def counts(text: str) -> list[int]:
    return [text.count(one) for one in PLACEHOLDERS]


def native(server: RunningServer, text: str = TEXT, **options):
    status, answer = server.post("/api/translate", {"texts": text, **PAIR, **options})
    assert status == 200, answer
    return answer["results"][0]["translations"][0]["text"]


def test_a_request_says_whether_placeholders_are_protected(server):
    assert counts(native(server, placeholders=True)) == [1, 1]
    assert native(server, placeholders=False) == native(server)
    assert counts(native(server, f"<p>{TEXT}</p>", format="html", placeholders=False)) != [1, 1]


def test_alternatives_continue_a_prefix_with_placeholders(server):
    text = "the small cat sleeps and {name} plays"
    body = {"text": text, **PAIR, "target_prefix": "die {name}", "placeholders": True, "count": 3}
    status, answer = server.post("/api/alternatives", body)
    assert status == 200, answer
    texts = [one["translation"]["text"] for one in answer["alternatives"]]
    assert len(texts) == 3
    assert all(one.startswith("die {name}") and one.count("{name}") == 1 for one in texts)


def test_words_that_the_model_cannot_read_are_kept(server):
    text = "the small cat Дмитрий sleeps"
    assert native(server, text, placeholders=True).count("Дмитрий") == 1
    assert "Дмитрий" not in native(server, text)


def test_branches_of_a_message_are_translated(server):
    message = "{n, plural, one {# cat sleeps} other {# cats sleep}}"
    assert re.fullmatch(r"\{n, plural, one \{.*#.*\} other \{.*#.*\}\}", native(server, message, placeholders=True))


def test_markup_and_files_are_protected_by_default(server):
    assert counts(native(server, f"<p>{TEXT}</p>", format="html")) == [1, 1]
    body = {"text": [f"<a>{TEXT}</a>"], "source_lang": "EN", "target_lang": "DE", "tag_handling": "xml"}
    assert counts(server.post("/v2/translate", body)[1]["translations"][0]["text"]) == [1, 1]
    file = {"file": ("a.txt", TEXT.encode())}
    url = requests.post(f"{server.url}/translate_file", PAIR, files=file, timeout=60).json()["translatedFileUrl"]
    assert counts(requests.get(url, timeout=60).text) == [1, 1]


@pytest.mark.parametrize(("setting", "is_protected"), [("always", True), ("never", False)])
def test_a_setting_protects_all_texts_or_none(tmp_path, setting, is_protected):
    with running_server(tmp_path, f"en-de={GOLDEN}", "--set", f"placeholders={setting}") as server:
        texts = server.post("/translate", {"q": [TEXT, f"{TEXT} "], **PAIR})[1]["translatedText"]
        html = server.post("/translate", {"q": f"<p>{TEXT}</p>", "format": "html", **PAIR})[1]["translatedText"]
        assert [counts(one) == [1, 1] for one in (*texts, html)] == [is_protected] * 3
        if is_protected:
            assert native(server, target_prefix="die").startswith("die")  # which excludes protection
        counted = 'dragoman:placeholders_total{interface="LibreTranslate",model_name="en-de"}'
        assert server.metrics()[counted] == (6 if is_protected else 0)
