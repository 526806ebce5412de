"""A multilingual model, whose own codes of languages differ from those that clients send."""

import json
from collections.abc import Iterator

import deepl
import pytest

from tests.huggingface_models import write_nllb
from tests.running_server import RunningServer, running_server
from tests.small_runs import dragoman

pytestmark = pytest.mark.slow
TEXT = "the dog sleeps"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Folder with an import of a random NLLB."""
    folder = tmp_path_factory.mktemp("multilingual")
    (folder / "nllb").mkdir()
    write_nllb(folder / "nllb")
    done = dragoman("import", "nllb", "--output-dir", "many", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def server(folder) -> Iterator[RunningServer]:
    with running_server(folder, "many") as running:
        yield running


def test_short_codes_of_clients_choose_the_languages_of_the_model(server: RunningServer, folder):
    log_probs = set()
    for own, code in (("deu_Latn", "de"), ("zho_Hant", "zh-TW"), ("arb_Arab", "ar")):
        languages = ("--source-language", "eng_Latn", "--target-language", own, "--format", "jsonl")
        [expected] = json.loads(dragoman("translate", "many", "--text", TEXT, *languages, cwd=folder).stdout)[
            "translations"
        ]
        asked = {"source": "en", "target": code}
        assert server.post("/translate", {"q": TEXT, **asked}) == (200, {"translatedText": expected["text"]})
        _, answer = server.post("/api/translate", {"texts": TEXT, **asked})
        assert answer["results"][0]["translations"] == [expected]
        log_probs.add(expected["log_prob"])
    assert len(log_probs) == 3  # random weights may give two languages the same text


def test_languages_are_listed_by_short_codes(server: RunningServer):
    codes = {one["code"]: one["name"] for one in server.get("/languages")}
    assert len(codes) > 190
    assert codes.items() >= {"en": "English", "de": "German", "zh": "Chinese", "ar": "Arabic"}.items()
    client = deepl.DeepLClient("any", server_url=server.url)
    assert {"EN", "ZH", "ZH-HANT"} <= {one.code.upper() for one in client.get_target_languages()}
    assert client.translate_text(TEXT, source_lang="EN", target_lang="ZH-HANS").detected_source_lang == "EN"
