"""The interface of LibreTranslate, with its clients as they are published."""

import pytest
import requests
from deep_translator import LibreTranslator
from libretranslatepy import LibreTranslateAPI

from tests.running_server import RunningServer
from tests.small_runs import dragoman

TEXTS = ["two dogs play .", "a cat sits by the sea", "", "the sea"]


@pytest.fixture(scope="module")
def translations(models) -> list[str]:
    """Translations by the command line."""
    (models / "texts").write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
    return dragoman("translate", "en-de", "--input", "texts", cwd=models).stdout.split("\n")[:-1]


def test_libretranslatepy_translates_as_the_command_line(server: RunningServer, translations):
    client = LibreTranslateAPI(server.url + "/")
    assert [client.translate(text, "en", "de") for text in TEXTS if text] == [one for one in translations if one]


def test_libretranslatepy_lists_and_detects_languages(server: RunningServer):
    client = LibreTranslateAPI(server.url + "/")
    assert client.languages() == [
        {"code": "de", "name": "German", "targets": ["fr"]},
        {"code": "en", "name": "English", "targets": ["de", "fr"]},
    ]
    assert [one["language"] for one in client.detect("Die Katze schläft in dem Haus am Meer.")] == ["de", "en"]


def test_deep_translator_translates_as_the_command_line(server: RunningServer, translations):
    client = LibreTranslator(source="en", target="de", custom_url=server.url + "/", api_key="any")
    assert client.translate(TEXTS[0]) == translations[0]


def test_a_list_is_translated_in_its_order(server: RunningServer, translations):
    status, answer = server.post("/translate", {"q": TEXTS, "source": "en", "target": "de"})
    assert (status, answer) == (200, {"translatedText": translations})


def test_each_text_of_a_list_has_its_own_language(server: RunningServer):
    texts = ["The cat sleeps in the house by the sea.", "Die Katze schläft in dem Haus am Meer."]
    status, answer = server.post("/translate", {"q": texts, "source": "auto", "target": "fr"})
    assert status == 200
    assert [one["language"] for one in answer["detectedLanguage"]] == ["en", "de"]


def test_alternatives_are_the_n_best_list_of_the_command_line(server: RunningServer, models):
    run = dragoman("translate", "en-de", "--text", TEXTS[0], "--n-best", 3, "--beam", 5, cwd=models)
    expected = [line.split(" ||| ")[1] for line in run.stdout.splitlines()]
    _, answer = server.post("/translate", {"q": TEXTS[0], "source": "en", "target": "de", "alternatives": 2})
    assert [answer["translatedText"], *answer["alternatives"]] == expected


def test_html_keeps_its_tags(server: RunningServer, translations):
    body = {"q": f'<p class="a&amp;b"> {TEXTS[0]}<br></p>', "source": "en", "target": "de", "format": "html"}
    _, answer = server.post("/translate", body)
    assert answer["translatedText"] == f'<p class="a&amp;b"> {translations[0]}<br></p>'


def test_a_third_language_is_between_two_without_a_model(server: RunningServer, models):
    middle = dragoman("translate", "en-de", "--text", TEXTS[0], cwd=models).stdout.rstrip("\n")
    last = dragoman("translate", "de-fr", "--text", middle, cwd=models).stdout.rstrip("\n")
    _, answer = server.post("/translate", {"q": TEXTS[0], "source": "en", "target": "fr"})
    assert answer["translatedText"] == last


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"source": "en", "target": "de"}, "Invalid request: missing q parameter"),
        ({"q": "a", "target": "de"}, "Invalid request: missing source parameter"),
        ({"q": "a", "source": "en"}, "Invalid request: missing target parameter"),
        ({"q": "a", "source": "en", "target": "tlh"}, "tlh is not supported"),
        ({"q": "a", "source": "fr", "target": "de"}, "fr is not supported"),
        ({"q": 7, "source": "en", "target": "de"}, "Invalid request: q."),
        ({"q": "a", "source": "en", "target": "de", "format": "pdf"}, "Invalid request: format: "),
        ({"q": "a", "source": "en", "target": "de", "alternatives": 99}, "Invalid request: at most 10 "),
        (["q"], "The body is not a JSON object."),
        (b'{"q": "a"', "The body is not valid JSON: "),
        (b'{"q": "\xff"}', "The body is not valid JSON: "),
    ],
)
def test_an_invalid_request_gets_a_message(server: RunningServer, body, message):
    status, answer = server.post("/translate", body)
    assert status == 400
    assert answer.keys() == {"error"}
    assert answer["error"].startswith(message)


def test_settings_of_web_pages(server: RunningServer):
    settings = server.get("/frontend/settings")
    assert settings["language"]["source"] == {"code": "de", "name": "German"}
    assert settings["keyRequired"] is False


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=b"])
def test_an_invalid_form_gets_a_message(server: RunningServer, kind):
    status, answer = server.post("/translate", b"\xff\0--b\r\n=%%", **{"Content-Type": kind})
    assert (status, answer.keys()) == (400, {"error"})


def test_a_file_is_translated_and_fetched_once(server: RunningServer, translations):
    parts = {"source": "en", "target": "de"}
    files = {"file": ("my text.txt", f"{TEXTS[0]}\n{TEXTS[1]}\n".encode())}
    answer = requests.post(server.url + "/translate_file", data=parts, files=files, timeout=60).json()
    found = requests.get(answer["translatedFileUrl"], timeout=60)
    assert found.text == f"{translations[0]}\n{translations[1]}\n"
    assert "my%20text.txt" in found.headers["Content-Disposition"]
    assert requests.get(answer["translatedFileUrl"], timeout=60).status_code == 404
    _, key, _ = answer["translatedFileUrl"].rpartition("/")[2].split(".", 2)
    assert any(one.get("path") == "/download_file/{name}" for one in server.records())
    assert key not in server.log.read_text(encoding="utf-8")


def test_texts_in_the_target_language_stay(server: RunningServer):
    texts = ["The cat sleeps in the house by the sea.", "Die Katze schläft in dem Haus am Meer."]
    status, answer = server.post("/translate", {"q": texts, "source": "auto", "target": "de", "alternatives": 1})
    assert status == 200
    assert answer["translatedText"][0] != texts[0]
    assert answer["translatedText"][1] == texts[1]
    assert answer["alternatives"][1] == []
    same = server.post("/translate", {"q": texts[1], "source": "de", "target": "DE"})
    assert same == (200, {"translatedText": texts[1]})
