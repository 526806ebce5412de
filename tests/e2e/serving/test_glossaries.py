"""Glossaries in requests, and those that the server always applies, in all interfaces of translation."""

from pathlib import Path

import deepl
import pytest
import requests

from tests.running_server import RunningServer, running_server
from tests.small_runs import dragoman
from tests.untrained_runs import finished_run

GOLDEN = Path(__file__).parents[2] / "golden" / "run-1"
TEXT = "the small cat sleeps in the house"
PLAIN = "die kleine Katze schläft in dem Haus"
PAIR = {"source": "en", "target": "de"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("terms")
    finished_run(path / "de-fr")
    (path / "always.tsv").write_text("source\ttarget\nhouse\tMann\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def server(folder):
    """A server whose translator en-de has learned a few words."""
    with running_server(folder, f"en-de={GOLDEN}", "de-fr=de-fr") as running:
        yield running


@pytest.fixture(scope="module")
def server_with_glossary(folder):
    """The same, with a glossary that always applies."""
    with running_server(folder, f"en-de={GOLDEN}", "de-fr=de-fr", "--glossary", "en-de=always.tsv") as running:
        yield running


def translate(server: RunningServer, text: str = TEXT, entries=(), **options):
    """Translate with the native interface; return the result."""
    glossary = {"glossary": {"entries": [list(one) for one in entries]}} if entries else {}
    status, answer = server.post("/api/translate", {"texts": text, **PAIR, **glossary, **options})
    assert status == 200, answer
    return answer["results"][0]


def test_terms_of_a_request_are_met_and_shown(server):
    found = translate(server, entries=[("cat", "Hund|Hunde"), ("dog", "Kater")])
    assert {"Hund", "Hunde"} & set(found["translations"][0]["text"].split())
    assert found["terms"] == [{"start": 10, "end": 13, "text": "cat", "targets": ["Hund", "Hunde"]}]
    assert found["unmet"] == []
    assert translate(server)["translations"][0]["text"] == PLAIN


def test_a_term_belongs_to_its_sentence(server):
    text = f"{TEXT}. a man sees two dogs. {TEXT}."
    found = translate(server, text, entries=[("cat", "Hund")])["translations"][0]["text"]
    assert found.count("Hund ") == 2


def test_an_empty_target_leaves_the_source(server):
    assert "cat" in translate(server, entries=[("cat", "")])["translations"][0]["text"].split()


def test_forbidden_words_are_avoided(server):
    found = translate(server, entries=[("cat", "", "Katze|Katzen")])
    assert "Katze" not in found["translations"][0]["text"]


def test_terms_that_exclude_each_other_are_named(server):
    found = translate(server, entries=[("cat", "Mann"), ("house", "", "Mann")])
    assert found["unmet"] == found["translations"][0]["unmet"] != []


def test_markup_has_terms_in_its_texts(server):
    found = translate(server, f"<p>{TEXT}</p><p>a man sees two dogs</p>", entries=[("cat", "Hund")], format="html")
    assert "Hund" in found["translations"][0]["text"]
    assert found["terms"] is None
    assert found["unmet"] == []


@pytest.mark.parametrize(
    ("glossary", "message"),
    [
        ({"entries": [["cat"]]}, "glossary.entries.0"),
        ({"entries": [["cat", 3]]}, "glossary.entries.0"),
        ({"entries": [["", "Hund"]]}, "source phrase"),
        ({"entries": [["cat", "Hund"]], "mode": "always"}, "glossary.mode"),
        ({"entries": [["cat", "Hund"]], "case": "any"}, "unknown parameter"),
        ({"entries": [["cat", "Hund"]] * 10_001}, "more than 10,000 terms"),
    ],
)
def test_invalid_glossaries_are_refused(server, glossary, message):
    status, answer = server.post("/api/translate", {"texts": TEXT, **PAIR, "glossary": glossary})
    assert status == 400
    assert message in answer["error"]["message"]


def test_terms_need_a_model_of_their_language_pair(server):
    body = {"texts": TEXT, "source": "en", "target": "fr", "glossary": {"entries": [["cat", "chien"]]}}
    status, answer = server.post("/api/translate", body)
    assert status == 400
    assert "no model translates it directly" in answer["error"]["message"]


def test_terms_and_unmet_words_are_counted(server):
    def counts():
        labels = '{interface="Native",model_name="en-de"}'
        metrics = server.metrics()
        names = ("terms", "unmet_constraints")
        return [metrics.get(f"dragoman:{name}_total{labels}", 0.0) for name in names]

    terms, unmet = counts()
    translate(server, entries=[("cat", "Hund"), ("small", "Hunde")])
    assert counts() == [terms + 2, unmet]
    translate(server, entries=[("cat", "Mann"), ("house", "", "Mann")])
    assert counts()[1] > unmet


def test_stored_glossaries_translate_texts_and_files(server, tmp_path):
    client = deepl.DeepLClient("any", server_url=server.url)
    first = client.create_glossary("first", "EN", "DE", {"cat": "Hund"})
    second = client.create_glossary("second", "EN", "DE", {"cat": "Hunde", "house": "Mann"})
    options = {"source_lang": "EN", "target_lang": "DE"}
    found = client.translate_text(TEXT, glossary=first, **options).text
    assert found == translate(server, entries=[("cat", "Hund")])["translations"][0]["text"]
    fast = client.translate_text(TEXT, glossary=first, model_type="latency_optimized", **options).text
    assert "Hund" in fast
    both = client.translate_text(TEXT, glossary_ids=[first, second], **options).text
    assert both == translate(server, entries=[("cat", "Hund"), ("house", "Mann")])["translations"][0]["text"]
    (tmp_path / "a.txt").write_text(TEXT)
    client.translate_document_from_filepath(tmp_path / "a.txt", tmp_path / "b.txt", glossary=first, **options)
    assert (tmp_path / "b.txt").read_text() == found


def test_a_glossary_has_to_suit_the_languages(server):
    made = deepl.DeepLClient("any", server_url=server.url).create_glossary("a", "EN", "DE", {"cat": "Hund"})
    body = {"text": [TEXT], "source_lang": "EN", "target_lang": "DE", "glossary_id": made.glossary_id}
    for changed, status, message in (
        ({"source_lang": None}, 400, "source_lang is required"),
        ({"source_lang": "DE", "target_lang": "FR"}, 400, "no dictionary for the language pair de to fr"),
        ({"glossary_ids": [made.glossary_id]}, 400, "exclude each other"),
        ({"glossary_id": "96ab91fd-e715-41a1-adeb-5d701f84a483"}, 404, "Glossary not found"),
        ({"glossary_id": None, "glossary_ids": [made.glossary_id] * 6}, 400, "glossary_ids"),
    ):
        found, answer = server.post("/v2/translate", body | changed)
        assert (found, message in answer["message"]) == (status, True), answer


def test_a_file_in_the_target_language_is_an_error_of_deepl(server):
    client = deepl.DeepLClient("any", server_url=server.url)
    text = "Die Katze schläft in dem Haus am Meer.".encode()
    handle = client.translate_document_upload(text, filename="a.txt", target_lang="DE")
    client.translate_document_wait_until_done(handle)
    assert client.translate_document_get_status(handle).error_message == "Source and target language are equal."


def test_a_glossary_of_the_server_applies_in_all_interfaces(server_with_glossary):
    server = server_with_glossary
    found = translate(server)
    text = found["translations"][0]["text"]
    assert "Mann" in text
    assert [one["targets"] for one in found["terms"]] == [["Mann"]]
    assert server.post("/translate", {"q": TEXT, **PAIR})[1] == {"translatedText": text}
    imme = {"text_list": [TEXT], "source_lang": "en", "target_lang": "de"}
    assert server.post("/imme", imme)[1]["translations"][0]["text"] == text
    client = deepl.DeepLClient("any", server_url=server.url)
    assert client.translate_text(TEXT, source_lang="EN", target_lang="DE").text == text
    file = {"file": ("a.txt", TEXT.encode())}
    url = requests.post(f"{server.url}/translate_file", PAIR, files=file, timeout=60).json()["translatedFileUrl"]
    assert requests.get(url, timeout=60).text == text


def test_terms_of_a_request_precede_those_of_the_server(server_with_glossary):
    found = translate(server_with_glossary, entries=[("house", "Hunde"), ("cat", "Hund")])
    words = set(found["translations"][0]["text"].split())
    assert {"Hunde", "Hund"} <= words
    assert "Mann" not in words


def test_a_glossary_of_the_server_applies_to_its_model_of_two(server_with_glossary):
    found = translate(server_with_glossary, target="fr")
    assert found["models"] == ["en-de", "de-fr"]
    assert found["terms"] == []  # those of the last model


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("en-fr=always.tsv", "no model translates en to fr directly"),
        ("always.tsv", "does not name a language pair"),
        ("en-de=none.tsv", "none.tsv"),
        ("en-de=bad.tsv", "bad.tsv, line 2"),
        ("{path: always.tsv, source_language: en, target_language: de, mode: maybe}", "mode"),
        ("en-de=always.tsv, en-de=always.tsv", "has a glossary already"),
    ],
)
def test_invalid_glossaries_of_the_server_are_errors_at_the_start(folder, setting, message):
    (folder / "bad.tsv").write_text("source\ttarget\n\tHund\n", encoding="utf-8")
    done = dragoman("serve", f"en-de={GOLDEN}", "--port", 0, "--set", f"glossaries=[{setting}]", cwd=folder)
    assert done.returncode == 2
    assert message in done.stderr
