"""Typography and labels: a model reads plain text, and translations look like their sources."""

import warnings

import pytest

from dragoman import load
from dragoman.data.tokenizers import BpeConfig
from dragoman.data.tokenizers.readable_text import PLAIN, ReadableTokenizer
from dragoman.inference import TranslationWarning, Translator
from dragoman.inference.typography import Typography
from tests.untrained_runs import finished_run

LETTERS = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ 0123456789 .,:;!?'\"-() áãçõé ÁÃÇÕÉ"


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    vocabulary = BpeConfig(vocab_size=300, byte_fallback=False)
    path = tmp_path_factory.mktemp("run") / "run"
    return load(finished_run(path, vocabulary=vocabulary, pairs=[(LETTERS, LETTERS)]).path, Translator)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("the “white” house", 'the "white" house'),
        ("don’t – ‘go’", "don't - 'go'"),
        ("a cat—black as night", "a cat - black as night"),
        ("soft\u00adware in 10\u00a0km", "software in 10 km"),
        ("SEE THE WHITE HOUSE", "See the white house"),
        ("DELETE", "Delete"),
        ("THE USB PORT", "The USB port"),
        ("Save as…", "Save as"),
        ("Save as...", "Save as"),
        ("OPEN “THE FILE”…", 'Open "the file"'),
    ],
)
def test_model_reads_plain_text_without_a_warning(translator: Translator, text: str, plain: str) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*not in the vocabulary", category=TranslationWarning)
        warnings.filterwarnings("ignore", message=".*length limit", category=TranslationWarning)
        found, expected = translator.translate([text, plain])
    assert found.tokens == expected.tokens
    assert found.text.endswith(text[-1]) == text.endswith(("…", "..."))
    if text.isupper():
        assert found.text == found.text.upper()


@pytest.mark.filterwarnings("ignore:.*length limit:dragoman.inference.TranslationWarning")
def test_symbols_that_are_lost_still_warn(translator: Translator) -> None:
    with pytest.warns(TranslationWarning, match="not in the vocabulary: €"):
        translator.translate("10 € – “cheap”")


@pytest.mark.parametrize(
    "text", ["NASA", "See the House", "He waits. Then he goes on and on...", "...", "a b c d e f..."]
)
def test_acronyms_and_sentences_are_read_as_they_are(translator: Translator, text: str) -> None:
    side = translator.tokenizer.source
    assert ReadableTokenizer(side, labels=True).encode(text) == side.encode(text)


@pytest.mark.parametrize(
    ("source", "written", "restored"),
    [
        ("I don’t know “him”.", 'Não sei "dele" d\'ele.', "Não sei “dele” d’ele."),
        ("‘a’ and “b”", "\"a\" e 'b'", "‘a’ e “b”"),
        ("«Yes», she said", '"Sim", ela disse', "«Sim», ela disse"),
        ("“one” and “two”", 'um "e dois"', "um “e dois”"),
        ('“one” and "two"', '"um" dois', '"um" dois'),
        ("Wait – and see", "Espere - e veja", "Espere – e veja"),
        ("cat—black—slept", "gato - preto - dormiu", "gato—preto—dormiu"),
        ("Pages 10–20, well-known", "Páginas 10-20, bem-conhecido", "Páginas 10–20, bem-conhecido"),
        ("one… two", "um... dois", "um… dois"),
        ("VISA APPLICATION", "formulação", "FORMULAÇÃO"),
        ("Cut…", "Cortar.", "Cortar…"),
        ("Plain text", "\"a\" - 'b'...", "\"a\" - 'b'..."),
    ],
)
def test_translation_has_the_typography_of_its_source(
    translator: Translator, source: str, written: str, restored: str
) -> None:
    assert Typography(translator.tokenizer).restore(source, written) == restored


def test_offsets_are_those_of_the_typographic_text(translator: Translator) -> None:
    tokenizer = ReadableTokenizer(translator.tokenizer.source, labels=True)
    for text in ["a “b”—c\u00ad d", "THE “WHITE” HOUSE…", *(f"a{one}b c" for one in PLAIN)]:
        ids, spans = tokenizer.encode_with_offsets(text)
        assert ids == tokenizer.encode(text)
        assert all(list(places) == sorted(places) for places in zip(*spans, strict=True))
        assert all(any(begin <= place < end for begin, end in spans) for place, one in enumerate(text) if one.isalnum())
