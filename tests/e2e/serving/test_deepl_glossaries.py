"""Glossaries in the interface of DeepL, with its client for Python as it is published."""

import deepl
import pytest
import requests
from deepl.api_data import MultilingualGlossaryDictionaryEntries

from tests.running_server import RunningServer, running_server
from tests.small_runs import dragoman

ENTRIES = {"dog": "Hund", "the sea": "das Meer", "A%=&": "B&=%", "\u0394\u3041": "\u6df1"}
MISSING = "96ab91fd-e715-41a1-adeb-5d701f84a483"


@pytest.fixture
def client(server: RunningServer) -> deepl.DeepLClient:
    return deepl.DeepLClient("any", server_url=server.url)


def several(**entries: dict[str, str]) -> list[MultilingualGlossaryDictionaryEntries]:
    """Return dictionaries by language pair, such as `en_de`."""
    return [MultilingualGlossaryDictionaryEntries(*name.upper().split("_"), one) for name, one in entries.items()]


def test_a_glossary_is_stored_listed_and_deleted(client):
    made = client.create_glossary("animals", "EN", "DE", ENTRIES)
    assert (made.name, made.source_lang, made.target_lang, made.entry_count, made.ready) == (
        "animals",
        "EN",
        "DE",
        len(ENTRIES),
        True,
    )
    assert client.get_glossary(made.glossary_id).creation_time == made.creation_time
    assert client.get_glossary_entries(made) == ENTRIES
    assert made.glossary_id in {one.glossary_id for one in client.list_glossaries()}
    client.delete_glossary(made)
    for call in (client.get_glossary, client.get_glossary_entries, client.delete_glossary):
        with pytest.raises(deepl.GlossaryNotFoundException):
            call(made.glossary_id)


def test_csv_may_name_the_languages(client):
    made = client.create_glossary_from_csv("csv", "EN", "DE", 'dog,Hund,en,de\n"a ""cat""",Katze,en,de\n')
    assert client.get_glossary_entries(made) == {"dog": "Hund", 'a "cat"': "Katze"}
    client.delete_glossary(made)


def test_several_dictionaries_are_changed_one_by_one(client):
    made = client.create_multilingual_glossary("all", several(en_de={"dog": "Hund"}, de_fr={"Hund": "chien"}))
    pairs = [(one.source_lang, one.target_lang, one.entry_count) for one in made.dictionaries]
    assert pairs == [("EN", "DE", 1), ("DE", "FR", 1)]
    with pytest.raises(deepl.DeepLException, match="Use /v3/glossaries"):
        client.get_glossary(made.glossary_id)
    [more] = several(en_de={"dog": "Köter", "cat": "Katze"})
    merged = client.update_multilingual_glossary_dictionary(made, more)
    assert [one.entry_count for one in merged.dictionaries] == [2, 1]
    assert client.update_multilingual_glossary_name(made, "new").name == "new"
    [other] = several(en_de={"bird": "Vogel"})
    assert client.replace_multilingual_glossary_dictionary(made, other).entry_count == 1
    [found] = client.get_multilingual_glossary_entries(made, "EN", "DE").dictionaries
    assert (found.entries, found.source_lang, found.target_lang) == ("bird\tVogel", "en", "de")
    client.delete_multilingual_glossary_dictionary(made, source_lang="EN", target_lang="DE")
    [left] = client.get_multilingual_glossary(made.glossary_id).dictionaries
    assert (left.source_lang, left.target_lang) == ("DE", "FR")
    with pytest.raises(deepl.GlossaryNotFoundException, match="no dictionary for en to de"):
        client.get_multilingual_glossary_entries(made, "EN", "DE")
    assert made.glossary_id in {one.glossary_id for one in client.list_glossaries()}  # it has one pair now
    client.delete_multilingual_glossary(made)
    assert made.glossary_id not in {one.glossary_id for one in client.list_multilingual_glossaries()}


@pytest.mark.parametrize(("source", "target"), [("EN", "XX"), ("EN", "EN"), ("EN", "FR")])
def test_a_pair_that_no_model_translates_is_refused(client, source, target):
    with pytest.raises(deepl.DeepLException, match="not supported"):
        client.create_glossary("any", source, target, {"dog": "Hund"})
    with pytest.raises(deepl.DeepLException, match="not supported"):
        client.create_multilingual_glossary("any", several(**{f"{source}_{target}": {"dog": "Hund"}}))


def test_language_pairs_are_those_of_single_models(client):
    found = [(one.source_lang, one.target_lang) for one in client.get_glossary_languages()]
    assert found == [("de", "fr"), ("en", "de")]


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/v2/glossaries", {"name": ""}, "name"),
        ("/v2/glossaries", {"entries": "dog\tHund\ndog\tHund"}, "row 2 has the source term 'dog' a second time"),
        ("/v2/glossaries", {"entries": "dog"}, "row 1 has 1 columns"),
        ("/v2/glossaries", {"entries_format": "xls"}, "entries_format"),
        ("/v2/glossaries", {"colour": "red"}, "colour: unknown parameter"),
    ],
)
def test_invalid_glossaries_are_refused(server: RunningServer, path, body, message):
    glossary = {"name": "a", "source_lang": "en", "target_lang": "de", "entries": "dog\tHund"} | body
    status, answer = server.post(path, glossary)
    assert status == 400
    assert message in answer["message"]


def test_entries_come_as_tab_separated_values_only(server: RunningServer, client):
    made = client.create_glossary("animals", "EN", "DE", ENTRIES)
    url = f"{server.url}/v2/glossaries/{made.glossary_id}/entries"
    answer = requests.get(url, headers={"Accept": "text/tab-separated-values"}, timeout=60)
    assert answer.headers["Content-Type"].startswith("text/tab-separated-values")
    assert requests.get(url, headers={"Accept": "application/json"}, timeout=60).status_code == 415
    client.delete_glossary(made)


def test_glossaries_belong_to_keys_and_survive_a_restart(models, tmp_path):
    names = ("anna", "bert")
    keys = tmp_path / "keys"
    anna, bert = (dragoman("serve", "--add-key", one, "--api-keys", keys, cwd=models).stdout.strip() for one in names)
    arguments = ("en-de=en-de", "--api-keys", keys, "--set", f"glossary_folder={tmp_path / 'glossaries'}")
    with running_server(models, *arguments, "--set", "limits.max_glossaries=1") as server:
        made = deepl.DeepLClient(anna, server_url=server.url).create_glossary("animals", "EN", "DE", ENTRIES)
        with pytest.raises(deepl.DeepLException, match="At most 1 glossaries"):
            deepl.DeepLClient(anna, server_url=server.url).create_glossary("more", "EN", "DE", ENTRIES)
        server.process.kill()
    with running_server(models, *arguments) as server:
        assert deepl.DeepLClient(anna, server_url=server.url).get_glossary_entries(made) == ENTRIES
        other = deepl.DeepLClient(bert, server_url=server.url)
        assert other.list_glossaries() == other.list_multilingual_glossaries() == []
        for call in (other.get_glossary, other.delete_glossary, other.get_multilingual_glossary):
            with pytest.raises(deepl.GlossaryNotFoundException):
                call(made.glossary_id)
        with pytest.raises(deepl.AuthorizationException):
            deepl.DeepLClient("wrong", server_url=server.url).list_glossaries()
