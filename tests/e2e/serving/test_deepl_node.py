"""The interface of DeepL, with its client for Node.js as it is published."""

import json
from pathlib import Path

import pytest

from tests.node_packages import node_folder, run_node
from tests.running_server import RunningServer
from tests.small_runs import dragoman

pytestmark = pytest.mark.slow
TEXT = "two dogs play ."


@pytest.fixture(scope="module")
def found(server: RunningServer, tmp_path_factory):
    """Return all answers of the client."""
    folder = node_folder(Path(__file__).parent / "node", tmp_path_factory.mktemp("node") / "scripts")
    return json.loads(run_node("deepl.mjs", server.url, folder, cwd=folder))


@pytest.fixture(scope="module")
def translation(models) -> str:
    return dragoman("translate", "en-de", "--text", TEXT, cwd=models).stdout.rstrip("\n")


def test_texts_are_translated_as_by_the_command_line(found, translation):
    assert (found["one"]["text"], found["one"]["detectedSourceLang"]) == (translation, "en")
    assert found["one"]["billedCharacters"] == len(TEXT)
    assert found["list"][0] == found["one"]
    assert found["detected"]["detectedSourceLang"] == "de"
    assert found["fast"]["modelTypeUsed"] == "latency_optimized"


def test_tags_stay(found):
    assert found["html"]["text"].startswith("<p>")
    assert found["html"]["text"].count(f"<code>{TEXT}</code>") == 1
    assert found["xml"]["text"].count(f"<x>{TEXT}</x>") == 1


def test_languages_and_usage(found):
    assert [one["code"] for one in found["sources"]] == ["de", "en"]
    assert [(one["code"], one["name"]) for one in found["targets"]] == [("de", "German"), ("fr", "French")]
    assert found["pairs"] == [{"sourceLang": "de", "targetLang": "fr"}, {"sourceLang": "en", "targetLang": "de"}]
    assert found["usage"]["character"]["count"] >= len(TEXT)


def test_glossaries_are_stored_changed_and_deleted(found):
    one, several = found["glossary"], found["multilingualGlossary"]
    assert all("Glossary not found" in found.pop("after")[1] for found in (one, several))
    assert one == {"name": "g", "count": 1, "entries": {"dog": "Hund"}, "listed": True}
    assert several == {"counts": [2, 1], "entries": {"Katze": "chat"}, "left": [["de", "fr"]]}


def test_a_file_is_translated(found, translation):
    assert found["document"] == {"status": "done", "billed": len(TEXT), "content": f"{translation}\n"}


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("language", "DeepLError", "target_lang: ja is not supported"),
        ("formality", "DeepLError", "formality is not supported"),
        ("glossary", "DeepLError", "ja is not supported"),
        ("file", "DocumentTranslationError", "its type is not supported"),
    ],
)
def test_errors_have_the_class_and_message_of_the_client(found, name, kind, message):
    assert found["errors"][name][0] == kind
    assert message in found["errors"][name][1]
