"""Requests of Weblate, OmegaT, Mastodon and Immersive Translate, as their sources build them."""

import pytest
import requests

from tests.running_server import RunningServer
from tests.small_runs import dragoman

TEXTS = ["two dogs play .", "the sea"]


@pytest.fixture(scope="module")
def translations(models) -> list[str]:
    """Translations by the command line."""
    options = [part for text in TEXTS for part in ("--text", text)]
    return dragoman("translate", "en-de", *options, cwd=models).stdout.split("\n")[:-1]


def test_weblate_with_deepl(server: RunningServer, translations):
    """The setting is the address with `/v2`; placeholders are elements that are not translated."""
    headers = {"Accept": "application/json", "Authorization": "DeepL-Auth-Key any", "User-Agent": "Weblate/5.17"}

    def get(path, **options):
        found = requests.get(f"{server.url}/v2/{path}", headers=headers, timeout=60, **options)
        assert found.status_code == 200
        return found.json()

    beta = {"enable_beta_languages": "1"}
    assert {one["language"] for one in get("languages", params={**beta, "type": "source"})} == {"DE", "EN"}
    targets = get("languages", params={**beta, "type": "target"})
    assert {one["language"] for one in targets} == {"DE", "FR"}
    assert not any(one["supports_formality"] for one in targets)  # Weblate then offers no formal variants
    pairs = [{"source_lang": "de", "target_lang": "fr"}, {"source_lang": "en", "target_lang": "de"}]
    assert get("glossary-language-pairs")["supported_languages"] == pairs
    body = {
        "text": [*TEXTS, f'{TEXTS[0]}<x id="16"></x>'],
        "source_lang": "EN",
        "target_lang": "DE",
        "formality": "default",
        "tag_handling": "xml",
        "ignore_tags": ["x"],
        "model_type": "prefer_quality_optimized",
    }
    found = requests.post(f"{server.url}/v2/translate", json=body, headers=headers, timeout=60)
    expected = [*translations, f'{translations[0]}<x id="16"></x>']
    assert [one["text"] for one in found.json()["translations"]] == expected


@pytest.mark.parametrize("is_list", [True, False])
def test_weblate_with_libretranslate(server: RunningServer, translations, is_list):
    """The key is empty where none is set; one text may be a text or a list."""
    assert [one["code"] for one in requests.get(f"{server.url}/languages", timeout=60).json()] == ["de", "en"]
    body = {"api_key": "", "q": TEXTS if is_list else TEXTS[0], "source": "en", "target": "de"}
    found = requests.post(f"{server.url}/translate", json=body, timeout=20)
    assert found.json() == {"translatedText": translations if is_list else translations[0]}


def test_omegat(server: RunningServer, translations):
    """The setting of its LibreTranslate plugin is the whole address; the body is a form without a key."""
    body = {"q": TEXTS[0], "source": "en", "target": "de"}
    found = requests.post(f"{server.url}/translate", data=body, timeout=60)
    assert found.json() == {"translatedText": translations[0]}


@pytest.mark.parametrize("is_list", [True, False])
def test_mastodon(server: RunningServer, translations, is_list):
    """A post is HTML; without a key, `api_key` is null. Mastodon reads the targets of each language."""
    languages = requests.get(f"{server.url}/languages", timeout=60).json()
    assert {one["code"]: one["targets"] for one in languages} == {"de": ["fr"], "en": ["de", "fr"]}
    texts = [f'<p>{text} <a href="https://example.org/" class="mention">@ann</a></p>' for text in TEXTS]
    body = {"q": texts if is_list else texts[0], "source": "auto", "target": "de", "format": "html", "api_key": None}
    answer = requests.post(f"{server.url}/translate", json=body, timeout=60).json()
    found = answer["translatedText"] if is_list else [answer["translatedText"]]
    detected = answer["detectedLanguage"] if is_list else [answer["detectedLanguage"]]
    for text, language in zip(found, detected, strict=True):
        assert text.startswith("<p>")
        assert text.count('<a href="https://example.org/" class="mention">') == text.count("</a>") == 1
        assert text.endswith("</p>")
        assert language["language"] in ("de", "en")


@pytest.mark.parametrize("source", ["auto", "en"])
def test_immersive_translate(server: RunningServer, translations, source):
    """The address is the setting `/imme`, with `?token=KEY` where keys are needed."""
    body = {"source_lang": source, "target_lang": "de", "text_list": [TEXTS[0], "The cat sleeps in the house."]}
    found = requests.post(f"{server.url}/imme?token=any", json=body, timeout=60).json()
    assert found["translations"][0] == {"detected_source_lang": "en", "text": translations[0]}
    assert found["translations"][1]["detected_source_lang"] == "en"
