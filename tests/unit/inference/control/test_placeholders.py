"""Placeholders in translations: each exactly once, whatever the model would write."""

import asyncio
from collections import Counter

import pytest

from dragoman import load
from dragoman.data.markup import Markup
from dragoman.data.placeholders.recognition import find_placeholders
from dragoman.data.placeholders.rules import PlaceholderRules
from dragoman.data.tokenizers import BpeConfig, Tokenizer
from dragoman.data.tokenizers.reserved_symbols import PLACEHOLDER_SYMBOLS, add_reserved_symbols
from dragoman.errors import ConfigError, DataError
from dragoman.inference import Translator
from dragoman.inference.control.placeholders import PlaceholderControl
from dragoman.runs.load import load_torch_model
from tests.untrained_runs import PAIRS, finished_run

TEXTS = [
    "two dogs %s",
    "%1$s plays with %2$s by the sea .",
    "a cat {name} ({size:.2f}MB) sits",
    "no placeholder",
    "<b>two</b> dogs",
    "%s",
    "",
]
pytestmark = pytest.mark.filterwarnings("ignore::dragoman.inference.TranslationWarning")


@pytest.fixture(scope="module", params=["cpu library", "pytorch"])
def translator(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Translator:
    short = {"decoding": {"max_length": 19}}
    path = finished_run(tmp_path_factory.mktemp("run") / "run", short, vocabulary=BpeConfig(vocab_size=300)).path
    return load(path, Translator) if request.param == "cpu library" else load_torch_model(path, Translator)


def placeholders(text: str) -> Counter[str]:
    return Counter(one.text for one in find_placeholders(text))


@pytest.mark.parametrize("options", [{}, {"beam_size": 1}, {"beam_size": 6, "n_best": 3}, {"max_length": 7}])
def test_each_placeholder_appears_once(translator: Translator, options) -> None:
    found = translator.translate(TEXTS, placeholders=True, **options)
    for text, result in zip(TEXTS, found, strict=True):
        assert all(placeholders(one.text) >= placeholders(text) for one in result)
        assert all(one.text.count(name) == 1 for one in result for name in placeholders(text))


def test_search_writes_placeholders_that_the_model_would_not(translator: Translator) -> None:
    # The model is untrained, so that no translation has a stand-in by itself.
    assert [one[0].unmet for one in translator.translate(TEXTS, placeholders=True)] == [()] * len(TEXTS)


def test_placeholders_that_do_not_fit_are_named(translator: Translator) -> None:
    with pytest.warns(match="does not meet the constraints on '%s'"):
        found = translator.translate("two dogs %s", placeholders=True, max_length=2)
    assert found[0].unmet == ("%s",)
    assert found.text.count("%s") == 1


def test_texts_without_placeholders_are_translated_as_before(translator: Translator) -> None:
    assert translator.translate("two dogs", placeholders=True).text == translator.translate("two dogs").text


def test_streams_and_concurrent_calls_give_the_same(translator: Translator) -> None:
    found = [one.text for one in translator.translate(TEXTS, placeholders=True)]
    assert [one.text for one in translator.translate_stream(TEXTS, placeholders=True)] == found
    together = asyncio.run(translator.translate_async(TEXTS, placeholders=True))
    assert [one.text for one in together] == found


def test_branches_of_icu_messages_are_translated_one_by_one(translator: Translator) -> None:
    text = "{n, plural, =0 {no dogs} one {# dog of {owner}} other {# dogs of {owner}}}"
    found = translator.translate(text, placeholders=True).text
    head, *branches = found.replace("}}", "}").split(" {", 3)
    assert head == "{n, plural, =0"
    assert "#" not in branches[0]
    assert [branch.count("#") for branch in branches[1:]] == [1, 1]
    assert [branch.count("{owner}") for branch in branches] == [0, 1, 1]
    plain = translator.translate("no dogs").text
    assert branches[0].startswith(plain[:5])


def test_placeholders_belong_to_segments(translator: Translator) -> None:
    found = translator.translate("two dogs %s. a cat %d.", placeholders=True, split="sentences").text
    assert found.index("%s") < found.index("%d")


def test_terms_of_a_glossary_appear_next_to_placeholders(translator: Translator) -> None:
    found = translator.translate("a cat %s", placeholders=True, glossary={"cat": "Katze"})
    assert "Katze" in found.text
    assert found.text.count("%s") == 1


def test_prefix_with_placeholders_of_the_text_is_continued(translator: Translator) -> None:
    found = translator.translate("a cat {a} ({b})", placeholders=True, target_prefix="ein ({b})").text
    assert found.startswith("ein ({b})")
    assert [found.count(one) for one in ("{a}", "{b}")] == [1, 1]


def test_alternatives_after_a_prefix_with_placeholders(translator: Translator) -> None:
    found = translator.alternatives("a cat %s", placeholders=True, target_prefix="%s ein", count=3)
    texts = [one.translation.text for one in found]
    assert all(text.startswith("%s ein") and text.count("%s") == 1 for text in texts)
    assert len({one.token for one in found}) == 3


@pytest.mark.parametrize("prefix", ["ein %d", "ein %s %s"])
def test_prefix_with_other_placeholders_is_refused(translator: Translator, prefix: str) -> None:
    with pytest.raises(ConfigError, match="target_prefix"):
        translator.translate("a %s", placeholders=True, target_prefix=prefix)


def test_translation_begins_with_prefix_before_placeholders(translator: Translator) -> None:
    found = translator.translate("%s: a cat <b>sits</b>", placeholders=True, target_prefix="ein hund").text
    assert found.startswith("ein hund")
    assert [found.count(one) for one in ("%s", "<b>", "</b>")] == [1, 1, 1]


def test_each_text_has_its_own_rules(translator: Translator) -> None:
    texts = ["a _cat sits", "a _cat sits", "a cat %s"]
    rules = [PlaceholderRules(accelerator="_"), None, True]
    found = [one.text for one in translator.translate(texts, placeholders=rules)]
    assert found[0].count("_") == 1
    assert found[0].startswith(translator.translate("a cat sits").text)  # which has no letters
    assert found[1] == translator.translate(texts[1]).text
    assert found[2].count("%s") == 1
    assert [one.text for one in translator.translate_stream(texts, placeholders=rules, chunk=1)] == found
    with pytest.raises(DataError, match="placeholders"):
        translator.translate(texts, placeholders=rules[:2])


def test_alternatives_have_placeholders(translator: Translator) -> None:
    found = translator.alternatives("two dogs %s", count=3, placeholders=True)
    assert len(found) == 3
    assert [one.translation.text.count("%s") for one in found] == [1, 1, 1]


def test_message_has_the_plural_categories_of_a_language(translator: Translator) -> None:
    rules = PlaceholderRules(plural_language="pl")
    text = "{n, plural, one {# dog} other {# dogs}}"
    found = translator.translate(text, placeholders=rules).text
    assert [found.count(f"{name} {{") for name in ("one", "few", "many", "other")] == [1, 1, 1, 1]
    assert found.count("#") == 4


def test_choice_that_is_no_message_stays_as_it_is(translator: Translator) -> None:
    text = "a cat {n, plural, one {# dog} other {# {dogs}"
    assert text[6:] in translator.translate(text, placeholders=True).text


def test_model_without_stand_ins_translates_texts_without_placeholders() -> None:
    tokenizer = Tokenizer.train(lambda: [("ä ö", "ö ä")], BpeConfig(vocab_size=300, byte_fallback=False))
    control = PlaceholderControl(tokenizer)
    assert control.step("ä ö").text == "ä ö"
    with pytest.raises(ConfigError, match="neither digits nor letters"):
        control.step("ä %s")


def test_stand_ins_are_reserved_symbols_where_the_model_has_them() -> None:
    tokenizer = Tokenizer.train(lambda: PAIRS, BpeConfig(vocab_size=300))
    words = list(PlaceholderControl(tokenizer).written)
    assert not set(words) & set(PLACEHOLDER_SYMBOLS)
    symbols = PlaceholderControl(add_reserved_symbols(tokenizer, PLACEHOLDER_SYMBOLS)).written
    assert list(symbols)[: len(PLACEHOLDER_SYMBOLS)] == list(PLACEHOLDER_SYMBOLS)
    assert all(symbols[one] == one for one in PLACEHOLDER_SYMBOLS)


def test_placeholder_may_follow_a_mark_that_the_model_cannot_write() -> None:
    tokenizer = Tokenizer.train(
        lambda: [("a 1234567890", "b 9876543210")], BpeConfig(vocab_size=300, byte_fallback=False)
    )
    step = PlaceholderControl(tokenizer).step("a “%s b” a")
    [constraint] = step.constraints(step.text)
    assert len(constraint.texts) == 1


@pytest.mark.parametrize("markup", ["html", "xml"])
def test_placeholders_of_blocks_do_not_depend_on_other_blocks(translator: Translator, markup: Markup) -> None:
    blocks = ["<p>two dogs {dog} <b>a</b> cat</p>", "<p>a cat %s is the <i>{sky}</i> sea</p>"]
    together = translator.translate("".join(blocks), markup=markup, placeholders=True)
    alone = [translator.translate(block, markup=markup, placeholders=True) for block in blocks]
    assert together.text == "".join(result.text for result in alone)
    assert together[0].placeholders == ("{dog}", "%s", "{sky}")


def test_branches_of_a_message_stay_together(translator: Translator) -> None:
    message = "{n, plural, one {<p>a dog</p>} other {<p># dogs</p>}}"
    result = translator.translate(message, markup="html", placeholders=True)
    assert result[0].placeholders == (message,)
    assert result.text.startswith("{n, plural, one {<p>")


def test_terms_and_placeholders_are_reported_by_their_places(translator: Translator) -> None:
    text = "two {dog} and the dog %s sea"
    result = translator.translate(text, glossary={"dog": "hund", "sea": "See"}, placeholders=True)
    assert [(term.start, term.end, term.text) for term in result[0].terms] == [(18, 21, "dog"), (25, 28, "sea")]
    assert result[0].placeholders == ("{dog}", "%s")
