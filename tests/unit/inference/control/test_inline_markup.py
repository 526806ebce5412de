"""Inline tags in translations by a model: every tag once and well-formed, whatever the model writes."""

import asyncio
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest

from dragoman import load
from dragoman.data.markup import MarkupRules
from dragoman.errors import DataError
from dragoman.inference import TranslationWarning, Translator
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


def test_blocks_in_one_text_are_translated_one_by_one(translator: Translator) -> None:
    blocks = [f"<p>{SOURCE}</p>", "<li>The dog", "<li>The dog sees <i>it</i>."]
    together = translator.translate("\n".join(blocks), markup="html", n_best=2)
    alone = translator.translate(blocks, markup="html", n_best=2)
    for rank in range(2):
        assert together[rank].text == "\n".join(one[rank].text for one in alone)
    assert together.segments == 3
    assert together[0].markup_problems == tuple(dict.fromkeys(name for one in alone for name in one[0].markup_problems))


@pytest.mark.parametrize("size", [1, 3, 4096])
def test_stream_places_tags_in_chunks(translator: Translator, size: int) -> None:
    sources = [SOURCE, PLAIN, "<i>The</i> sea", "", "The <b>sky</b>", "<b>The dog</b> sees."]
    expected = [one.text for one in translator.translate(sources, markup="xml")]

    def lines() -> Iterator[str]:
        yield from sources
        raise DataError("the disk is gone")

    found = []
    with pytest.raises(DataError, match="the disk is gone"):
        found.extend(one.text for one in translator.translate_stream(lines(), chunk=size, markup="xml"))
    assert found == expected


def test_malformed_markup_is_reported(translator: Translator) -> None:
    with pytest.warns(TranslationWarning, match=r"texts\[1\]: places of tags are guesses: <b> has no end tag"):
        _, result = (one[0] for one in translator.translate([SOURCE, "The <b>dog"], markup="xml"))
    assert result.markup_problems[0] == "<b> has no end tag"
    assert result.text.count("<b>") == 1


def test_markup_is_for_each_text(translator: Translator) -> None:
    with pytest.raises(DataError, match=r"1 text but 2 of `markup`"):
        translator.translate(["a"], markup=["xml", None])
