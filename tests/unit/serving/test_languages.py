import py3langid
import pytest
from py3langid.langid import MODEL_FILE, LanguageIdentifier

from dragoman.serving.translation.languages import LanguageDetector, find_language, short_code, short_codes

TEXTS = ["Die Katze schläft in dem Haus am Meer.", "The cat sleeps.", "Le chat dort.", "7", "", "a" * 10_000]


@pytest.fixture(scope="module")
def detector() -> LanguageDetector:
    return LanguageDetector()


@pytest.mark.parametrize("text", TEXTS)
def test_probabilities_are_those_of_the_package_for_the_given_languages(detector, text):
    reference = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    reference.set_languages(["de", "en", "fr"])
    found = {one.code: one.probability for one in detector.detect(text, ["fr", "de", "en"])}
    assert found == pytest.approx(dict(reference.rank(text)), abs=1e-6)


def test_codes_with_a_region_are_recognized_by_their_language(detector):
    found = detector.detect("The cat sleeps in the house by the sea.", ["pt-BR", "en_US", "tlh"])
    assert [one.code for one in found] == ["en_US", "pt-BR"]


def test_languages_that_cannot_be_recognized_have_no_probability(detector):
    assert [(one.code, one.probability) for one in detector.detect("nuqneH", ["tlh"])] == [("tlh", 0.0)]
    assert py3langid.classify("nuqneH")[0] != "tlh"


@pytest.mark.parametrize(
    ("code", "short"),
    [
        *(("eng_Latn", "en"), ("deu_Latn", "de"), ("arb_Arab", "ar"), ("nob_Latn", "nb"), ("zho_Hans", "zh")),
        *(("zho_Hant", "zh-Hant"), ("zh_CN", "zh"), ("en_XX", "en"), ("pt-BR", "pt"), ("pt-PT", "pt-PT")),
        *(("sr-Latn", "sr-Latn"), ("kas_Deva", "ks-Deva"), ("tlh", "tlh"), ("de", "de"), ("", "")),
    ],
)
def test_short_codes_are_those_that_clients_know(code, short):
    assert short_code(code) == short


def test_two_languages_never_have_the_same_short_code():
    assert short_codes(["pes_Arab", "prs_Arab"]) == {"fa": "pes_Arab", "prs-Arab": "prs_Arab"}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        *(("zh-Hans", "zh"), ("zh-TW", "zh-Hant"), ("ZH_CN", "zh"), ("zt", "zh-Hant"), ("eng_Latn", "en")),
        *(("EN-GB", "en"), ("no", "nb"), ("pt-BR", None), ("", None)),
    ],
)
def test_codes_of_clients_find_known_ones(given, found):
    assert find_language(given, ["en", "nb", "zh", "zh-Hant"]) == found
