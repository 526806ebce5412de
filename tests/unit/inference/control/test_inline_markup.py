"""Inline tags in translations by a model: every tag once and well-formed, whatever the model writes."""

import asyncio
from xml.etree import ElementTree

import pytest

from dragoman import load
from dragoman.data.markup import MarkupRules
from dragoman.errors import DataError
from dragoman.inference import Translator
from tests.untrained_runs import finished_run

SOURCE = 'The <b>dog <i>sees</i></b> the <x id="1"/> sea &amp; sky.'
PLAIN = "The dog sees the sea & sky."
pytestmark = pytest.mark.filterwarnings("ignore:.*length limit:dragoman.inference.TranslationWarning")


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    return load(finished_run(tmp_path_factory.mktemp("run") / "run").path, Translator)


def texts(content: str) -> str:
    return "".join(ElementTree.fromstring(f"<r>{content}</r>").itertext())


@pytest.mark.parametrize("split", [None, "sentences"])
def test_translation_is_that_of_the_text_with_tags(translator: Translator, split: None) -> None:
    result = translator.translate([SOURCE, PLAIN], markup=["xml", None], split=split, n_best=2)
    for one, plain in zip(*result, strict=True):
        assert "".join(texts(one.text).split()) == "".join(plain.text.split())
        assert [one.text.count(tag) for tag in ("<b>", "<i>", "</i>", "</b>", '<x id="1"/>')] == [1] * 5
        assert one.parts[0][0] == PLAIN
        assert one.to_dict().get("markup_problems", []) == list(one.markup_problems)


def test_stream_and_concurrent_calls_agree(translator: Translator) -> None:
    expected = translator.translate([SOURCE, f"<p>{SOURCE}</p>"], markup="html")
    streamed = list(translator.translate_stream([SOURCE, f"<p>{SOURCE}</p>"], markup=["html", "html"]))
    together = asyncio.run(translator.translate_async([SOURCE, f"<p>{SOURCE}</p>"], markup=MarkupRules()))
    assert [one.text for one in streamed] == [one.text for one in expected] == [one.text for one in together]
    assert expected[1].text == f"<p>{expected[0].text}</p>"


def test_malformed_markup_is_reported(translator: Translator) -> None:
    [result] = translator.translate("The <b>dog", markup="xml")
    assert result.markup_problems[0] == "<b> has no end tag"
    assert result.text.count("<b>") == 1


def test_markup_is_for_each_text(translator: Translator) -> None:
    with pytest.raises(DataError, match=r"1 text but 2 of `markup`"):
        translator.translate(["a"], markup=["xml", None])
