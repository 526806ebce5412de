"""The interface of DeepL, with its client for Python as it is published."""

import re

import deepl
import pytest

from tests.archive_documents import docx, member, run
from tests.running_server import RunningServer, running_server
from tests.small_runs import dragoman

TEXTS = ["two dogs play .", "a cat sits by the sea", "the sea"]


@pytest.fixture(scope="module")
def translations(models) -> list[str]:
    """Translations by the command line."""
    options = [part for text in TEXTS for part in ("--text", text)]
    return dragoman("translate", "en-de", *options, cwd=models).stdout.split("\n")[:-1]


@pytest.fixture
def client(server: RunningServer) -> deepl.DeepLClient:
    return deepl.DeepLClient("any", server_url=server.url)


def test_texts_are_translated_as_by_the_command_line(client, translations):
    found = client.translate_text(TEXTS, source_lang="EN", target_lang="DE")
    assert [one.text for one in found] == translations
    assert {one.detected_source_lang for one in found} == {"EN"}


def test_languages_are_detected(client):
    found = client.translate_text("Die Katze schläft in dem Haus am Meer.", target_lang="FR")
    assert found.detected_source_lang == "DE"
    assert found.billed_characters == len("Die Katze schläft in dem Haus am Meer.")


@pytest.mark.parametrize("handling", ["html", "xml"])
def test_tags_stay_and_ignored_texts_are_not_translated(client, handling):
    text = f'<p>{TEXTS[0]}<X id="7">{TEXTS[1]}</X></p>'
    options = {"source_lang": "EN", "target_lang": "DE", "tag_handling": handling}
    options |= {"ignore_tags": ["x" if handling == "html" else "X"], "splitting_tags": ["p"]}
    found = client.translate_text(text, **options)
    assert found.text.startswith("<p>")
    assert found.text.endswith("</p>")
    assert found.text.count(f'<X id="7">{TEXTS[1]}</X>') == 1


def test_blocks_split_a_text_and_inline_tags_do_not(client, translations):
    text = f"<d><a>{TEXTS[0]}</a><a>{TEXTS[1]}</a></d>"
    options = {"source_lang": "EN", "target_lang": "DE", "tag_handling": "xml"}
    split = f"<d><a>{translations[0]}</a><a>{translations[1]}</a></d>"
    assert client.translate_text(text, **options).text == split
    options |= {"outline_detection": False}
    assert client.translate_text(text, splitting_tags=["a"], **options).text == split
    whole = client.translate_text(f"{TEXTS[0]} {TEXTS[1]}", source_lang="EN", target_lang="DE", split_sentences="0")
    unsplit = client.translate_text(text.replace("</a><a>", "</a> <a>"), split_sentences="0", **options).text
    assert re.sub("<[^>]*>", "", unsplit).split() == whole.text.split()


def test_a_translation_without_delay_is_greedy(client, models):
    greedy = dragoman("translate", "en-de", "--text", TEXTS[0], "--beam", 1, cwd=models).stdout.rstrip("\n")
    found = client.translate_text(TEXTS[0], source_lang="EN", target_lang="DE", model_type="latency_optimized")
    assert (found.text, found.model_type_used) == (greedy, "latency_optimized")


@pytest.mark.parametrize(
    "options",
    [
        {"formality": "more"},
        {"non_splitting_tags": ["a"]},
        {"outline_detection": False},
        {"ignore_tags": ["a"]},
        {"splitting_tags": ["a"]},
        {"custom_instructions": ["be kind"]},
        {"extra_body_parameters": {"souce_lang": "EN"}},
    ],
)
def test_parameters_without_effect_are_refused(client, options):
    with pytest.raises(deepl.DeepLException, match=r"supported|no effect|souce_lang"):
        client.translate_text(TEXTS[0], source_lang="EN", target_lang="DE", **options)


def test_formality_that_is_only_preferred_is_accepted(client, translations):
    found = client.translate_text(TEXTS[0], source_lang="EN", target_lang="DE", formality="prefer_more")
    assert found.text == translations[0]


def test_an_unknown_language_is_an_error(client):
    with pytest.raises(deepl.DeepLException, match="target_lang: JA is not supported"):
        client.translate_text(TEXTS[0], target_lang="JA", source_lang="EN")


@pytest.mark.parametrize(("source", "target"), [("en", "de"), ("eN", "dE"), ("EN", "DE-DE"), ("en-us", "De")])
def test_codes_of_languages_have_any_case(client, translations, source, target):
    found = client.translate_text(TEXTS[0], source_lang=source, target_lang=target)
    assert (found.text, found.detected_source_lang) == (translations[0], "EN")


def test_a_text_in_the_target_language_stays(client):
    text = "Die Katze schläft in dem Haus am Meer."
    assert client.translate_text(text, target_lang="DE").text == text


def test_languages_and_usage(client):
    assert [one.code for one in client.get_source_languages()] == ["DE", "EN"]
    assert [(one.code, one.name) for one in client.get_target_languages()] == [("DE", "German"), ("FR", "French")]
    before = client.get_usage().character.count
    client.translate_text("abc", source_lang="EN", target_lang="DE")
    assert client.get_usage().character.count == before + 3


@pytest.mark.parametrize(
    ("name", "begin", "end"), [("a.txt", "", "\n"), ("b.html", "<html><body><p>", "</p></body></html>")]
)
def test_files(client, translations, tmp_path, name, begin, end):
    (tmp_path / name).write_text(begin + TEXTS[0] + end, encoding="utf-8")
    client.translate_document_from_filepath(tmp_path / name, tmp_path / "out", source_lang="EN", target_lang="DE")
    assert (tmp_path / "out").read_text(encoding="utf-8") == begin + translations[0] + end


def test_a_word_file_comes_back_with_its_parts(client, translations, tmp_path):
    (tmp_path / "a.docx").write_bytes(docx(f"<w:p>{run(TEXTS[0])}</w:p><w:p>{run('12')}</w:p>"))
    client.translate_document_from_filepath(
        tmp_path / "a.docx", tmp_path / "b.docx", source_lang="EN", target_lang="DE"
    )
    text = member((tmp_path / "b.docx").read_bytes(), "word/document.xml")
    assert f'<w:t xml:space="preserve">{translations[0]}</w:t>' in text
    assert run("12") in text


def test_a_damaged_file_is_an_error(client, tmp_path):
    (tmp_path / "a.docx").write_bytes(b"PK")
    with pytest.raises(deepl.DeepLException, match="damaged archive"):
        client.translate_document_from_filepath(tmp_path / "a.docx", tmp_path / "out", target_lang="DE")
    assert not (tmp_path / "out").exists()


def test_a_file_of_another_type_is_an_error(client, tmp_path):
    (tmp_path / "a.exe").write_bytes(b"MZ")
    with pytest.raises(deepl.DeepLException, match="its type is not supported"):
        client.translate_document_from_filepath(tmp_path / "a.exe", tmp_path / "out", target_lang="DE")


def test_a_file_is_given_to_the_owner_of_its_key_only(client, server, tmp_path):
    (tmp_path / "a.txt").write_text(TEXTS[0], encoding="utf-8")
    with (tmp_path / "a.txt").open("rb") as file:
        handle = client.translate_document_upload(file, source_lang="EN", target_lang="DE")
    other = deepl.DocumentHandle(handle.document_id, "0" * 64)
    with pytest.raises(deepl.DeepLException, match="Document not found"):
        client.translate_document_get_status(other)


def test_keys(models):
    key = dragoman("serve", "--add-key", "weblate", "--api-keys", "keys", cwd=models).stdout.strip()
    with running_server(models, "en-de=en-de", "--api-keys", "keys") as server:
        assert deepl.DeepLClient(key, server_url=server.url).get_usage().character.count == 0
        for wrong in (key[:-1], "dgm_"):
            with pytest.raises(deepl.AuthorizationException):
                deepl.DeepLClient(wrong, server_url=server.url).get_usage()


def test_quotas(models):
    key = dragoman("serve", "--add-key", "small", "--api-keys", "quotas", cwd=models).stdout.strip()
    path = models / "quotas"
    path.write_text(path.read_text().rstrip("\n") + " 20\n")
    arguments = ("en-de=en-de", "--api-keys", "quotas", "--set", "usage_file=usage.json")
    for spent in (0, 12):  # a restart continues
        with running_server(models, *arguments) as server:
            client = deepl.DeepLClient(key, server_url=server.url)
            assert (client.get_usage().character.count, client.get_usage().character.limit) == (spent, 20)
            with pytest.raises(deepl.QuotaExceededException, match="Quota exceeded"):
                client.translate_text("a" * 21, source_lang="EN", target_lang="DE")
            if not spent:
                client.translate_text("a" * 12, source_lang="EN", target_lang="DE")
            with pytest.raises(deepl.QuotaExceededException):
                client.translate_document_upload(b"a" * 9, filename="a.txt", source_lang="EN", target_lang="DE")
            body = {"q": "a" * 9, "source": "en", "target": "de", "api_key": key}
            status, answer = server.post("/translate", body)
            assert status == 429
            assert "Quota exceeded: 12 of 20 characters" in answer["error"]
            assert client.get_usage().character.count == 12
            server.stop()


def test_immersive_translate(server: RunningServer, translations):
    status, answer = server.post("/imme", {"source_lang": "en", "target_lang": "de", "text_list": TEXTS})
    assert status == 200
    assert answer == {"translations": [{"detected_source_lang": "en", "text": one} for one in translations]}
