"""Glossaries in translations: terms that the search meets, and terms that the model reads in its source."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from dragoman import Constraint, Glossary, Term, load
from dragoman.data.terminology.target_forms import check_terms, required_forms
from dragoman.data.tokenizers.reserved_symbols import TERM_SYMBOLS, add_reserved_symbols
from dragoman.errors import ConfigError, DataError
from dragoman.inference import TranslationWarning, Translator
from dragoman.inference.control.glossary_terms import MAX_TERMS, GlossaryControl
from dragoman.models.special_symbols import EOS
from tests.untrained_runs import finished_run

SOURCE = "The dog sees the sea."
pytestmark = pytest.mark.filterwarnings("ignore:.*length limit:dragoman.inference.TranslationWarning")


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    return load(finished_run(tmp_path_factory.mktemp("run") / "run").path, Translator)


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def test_terms_of_the_source_appear(translator: Translator) -> None:
    pairs = {"dog": "Hund|Hunde", "sea": "Meer", "cat": "Katze"}
    found = translator.translate([SOURCE, "The cat."], glossary=pairs)
    assert {"Hund", "Hunde"} & set(words(found[0].text))
    assert "Meer" in words(found[0].text)
    assert "Katze" in words(found[1].text)
    assert "Meer" not in words(found[1].text)
    same = translator.translate(SOURCE, glossary=Glossary.from_pairs(pairs), glossary_mode="hard")
    assert same.text == found[0].text


def test_terms_belong_to_segments(translator: Translator) -> None:
    pairs = {"dog": "Hunde", "sea": "Meer"}
    found = translator.translate("The dog. The sea.", split="sentences", glossary=pairs)
    alone = [translator.translate(one, glossary=pairs).text for one in ("The dog.", "The sea.")]
    assert found.text == " ".join(alone)


def test_untranslated_and_forbidden_terms(translator: Translator) -> None:
    free = translator.translate(SOURCE).text
    unwanted = words(free)[0]
    glossary = Glossary((Term(("sea",)), Term(("dog",), forbidden=(unwanted,))))
    text = translator.translate(SOURCE, glossary=glossary).text
    assert "sea" in words(text)
    assert unwanted not in words(text)
    everywhere = Glossary((Term((), forbidden=(unwanted,)),))
    assert unwanted not in words(translator.translate("Other text", glossary=everywhere).text)


def test_soft_terms_are_preferred(translator: Translator) -> None:
    free = translator.translate(SOURCE)
    found = translator.translate(SOURCE, glossary={"sea": "Meer"}, glossary_mode="soft")
    assert found[0].unmet == ()
    assert found.score <= free.score  # of the words alone, without bonus
    constraint = Constraint(("Meer",), kind="preferred")
    assert found.text == translator.translate(SOURCE, constraints=[constraint]).text


def test_texts_without_terms_are_as_before(translator: Translator) -> None:
    texts = ["Two dogs", SOURCE, "A horse"]
    free = translator.translate(texts)
    found = translator.translate(texts, glossary={"sea": "Meer"})
    assert [found[place].text for place in (0, 2)] == [free[place].text for place in (0, 2)]
    streamed = translator.translate_stream(iter(texts), glossary={"sea": "Meer"})
    assert [one.text for one in streamed] == [one.text for one in found]


def test_terms_that_the_model_cannot_write_are_unmet(translator: Translator) -> None:
    with pytest.warns(TranslationWarning, match="does not meet the constraints on '蜃'"):
        result = translator.translate(SOURCE, glossary={"sea": "蜃"})
    assert result[0].unmet == ("蜃",)


def test_terms_above_the_limit_are_unmet(translator: Translator) -> None:
    names = [f"n{number}" for number in range(MAX_TERMS + 2)]
    targets = map(" ".join, product(("zwei", "Hunde", "eine", "Katze", "sitzt", "am", "Meer", "spielen"), repeat=2))
    pairs = dict(zip(names, targets, strict=False))
    step = control(translator, pairs, "hard").step(" ".join(names))
    first = replace(translator.translate(SOURCE)[0], parts=((step.text, pairs[names[-1]]),))
    assert step.restore(first).unmet == (pairs[names[-2]],)


def test_alternatives_meet_terms(translator: Translator) -> None:
    for one in translator.alternatives(SOURCE, count=3, glossary={"sea": "Meer"}):
        assert "Meer" in words(one.translation.text)


def test_calls_agree_on_terms(translator: Translator) -> None:
    texts = [SOURCE, "A dog.", "The sea and the sea", "a cat"]
    options: Any = {"glossary": {"sea": "Meer", "dog": "Hunde|Katze"}}
    found = translator.translate(texts, **options)
    alone = [translator.translate(one, **options) for one in texts]
    streamed = list(translator.translate_stream(iter(texts), chunk=3, **options))
    concurrent = asyncio.run(translator.translate_async(texts, **options))
    for others in (alone, streamed, concurrent):
        assert [one.text for one in others] == [one.text for one in found]
        assert [one.score for one in others] == pytest.approx([one.score for one in found], abs=1e-4)


def test_scores_are_those_of_the_translations(trained: Translator) -> None:
    texts = ["the small cat sleeps in the house", "two dogs play"]
    found = trained.translate(texts, glossary={"cat": "Mann", "dogs": "Haus", "house": "hund"})
    targets = [[*one[0].hypothesis.tokens, EOS] for one in found]
    sources = trained.tokenizer.source.encode_batch(texts)
    scored = trained.backend.score(sources, targets, penalty=trained.config.penalty)
    assert [one.score for one in scored] == pytest.approx([one.score for one in found], abs=1e-4)
    assert all(one[0].unmet == () for one in found)


def test_invalid_options_are_refused(translator: Translator) -> None:
    with pytest.raises(ConfigError, match="no effect without a glossary"):
        translator.translate(SOURCE, glossary_mode="hard")
    with pytest.raises(ConfigError, match="was not trained with terms"):
        translator.translate(SOURCE, glossary={"sea": "Meer"}, glossary_mode="annotated")
    with pytest.raises(ConfigError, match="renormalize has no effect"):
        translator.translate(SOURCE, glossary={"sea": "Meer"}, beam_size=1, renormalize=True)


def control(translator: Translator, pairs: Mapping[str, str], mode) -> GlossaryControl:
    tokenizer = add_reserved_symbols(translator.tokenizer, TERM_SYMBOLS)
    return GlossaryControl(Glossary.from_pairs(pairs), mode, tokenizer)


def test_annotated_terms_are_written_into_the_source(translator: Translator) -> None:
    step = control(translator, {"sea": "Meer|Meere", "dog": ""}, "annotated").step(SOURCE)
    begin, middle, end = TERM_SYMBOLS
    assert step.text == f"The {begin} dog {middle} dog {end} sees the {begin} sea {middle} Meer {end} ."
    assert step.constraints(step.text) == []
    result = translator.translate(SOURCE)[0]
    assert step.restore(result) == result


def test_a_segment_has_a_bounded_number_of_terms(translator: Translator) -> None:
    names = [f"n{number}" for number in range(MAX_TERMS + 7)]
    found = control(translator, dict.fromkeys(names, "Meer"), "hard").constraints(" ".join(names))
    assert len(found) == 1
    words = ("zwei", "Hunde", "eine", "Katze", "sitzt", "am", "Meer", "spielen")
    targets = map(" ".join, product(words, repeat=2))
    found = control(translator, dict(zip(names, targets, strict=False)), "hard").constraints(" ".join(names))
    assert len(found) == MAX_TERMS


def test_forms_follow_the_case_of_the_source() -> None:
    glossary = Glossary((Term(("sea",), ("mer", "mers")), Term(("OS",), ("système",), case="exact"), Term(("Mac",))))
    forms = {match.text: required_forms(match) for match in glossary.find("Sea, SEA, OS and Mac")}
    assert forms["Sea"] == ("mer", "mers", "Mer", "Mers")
    assert forms["SEA"] == ("mer", "mers", "Mer", "Mers", "MER", "MERS")
    assert forms["OS"] == ("système",)
    assert forms["Mac"] == ("Mac",)


def test_a_hyphenated_word_is_one_word() -> None:
    glossary = Glossary((Term(("Firefox",)), Term(("red hair",), ("rot-haarig", "Rot-Haar"))))
    checks = check_terms(glossary, "Firefox and red hair", "der Firefox-Browser, rot-haarige")
    assert [one.is_met for one in checks] == [False, False]
    checks = check_terms(glossary, "Firefox and red hair", "„Firefox“ (Rot-Haar)")
    assert [one.is_met for one in checks] == [True, True]
    assert [one.text for one in glossary.find("a Firefox-like browser, Firefox")] == ["Firefox"]


def test_terms_of_a_translation_are_checked() -> None:
    glossary = Glossary((Term(("dog",), ("Hund", "Hunde")), Term(("sea",), ("Meer",), ("See",)), Term(("Mac",))))
    checks = check_terms(glossary, "dogs at the sea with a Mac", "Die hunde am Meer, der See, mit einem Rechner")
    assert [(one.match.text, one.is_met) for one in checks] == [("dogs", True), ("sea", False), ("Mac", False)]


def test_plurals_without_a_form_are_named(trained: Translator) -> None:
    with pytest.warns(TranslationWarning, match=r"cats \(no plural in the glossary\)"):
        found = trained.translate("two cats play", glossary={"cat": "hund"})
    assert "unmet" in found[0].quality.kinds
    given = trained.translate("two cats play", glossary={"cat": "hund|hunde"})
    assert given[0].unmet == ()


def test_symbols_are_replaced_where_they_are(trained: Translator) -> None:
    control = GlossaryControl(Glossary.from_pairs({"&": "und", "→": "->", "™": ""}), "hard", trained.tokenizer)
    assert control.required("cats & dogs → house ™") == []
    assert control.replace_symbols("a & b → c", "a & b, c → d") == "a und b, c -> d"
    step = control.step("the cat → the house")
    translation = replace(trained.translate("the cat")[0], text="x → y", parts=((step.text, "x → y"),))
    assert (step.restore(translation).text, step.restore(translation).unmet) == ("x -> y", ())


def test_a_term_whose_target_is_forbidden_leaves_the_ordinary_translation(trained: Translator) -> None:
    glossary = Glossary((Term(("cat",), ("Katze",), ("Katze",)),))
    with pytest.warns(TranslationWarning, match="does not meet the constraints"):
        found = trained.translate("the small cat sleeps", glossary=glossary)
    assert found.text == trained.translate("the small cat sleeps").text
    assert "Katze" in " ".join(found[0].unmet)


def test_each_text_has_its_own_glossary(translator: Translator) -> None:
    texts = [SOURCE] * 3
    found = translator.translate(texts, glossary=[{"sea": "Katze"}, None, Glossary.from_pairs({"dog": "Hunde"})])
    assert "Katze" in words(found[0].text)
    assert found[1].text == translator.translate(SOURCE).text
    assert found[2].text == translator.translate(SOURCE, glossary={"dog": "Hunde"}).text
    assert [
        one.text for one in translator.translate_stream(texts, glossary=[{"sea": "Katze"}, None, {"dog": "Hunde"}])
    ] == [one.text for one in found]
    with pytest.raises(DataError, match="3 texts but 1 of `glossary`"):
        translator.translate(texts, glossary=[None])


@pytest.fixture(scope="module")
def trained() -> Translator:
    """A translator that has learned a few words and can write all of the tests below."""
    return load(Path(__file__).parents[3] / "golden" / "run-1", Translator)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cat", "hund"),
        (" cat\n", "hund"),
        ("a cat", None),
        ("cat cat", None),
        ("cats", None),  # a variant
        ("sea", "sea"),  # untranslated
        ("man", None),  # two forms
        ("house", None),  # forbidden everywhere
    ],
)
def test_a_text_that_is_a_term_has_its_translation(trained: Translator, text: str, expected: str | None) -> None:
    rows = [Term(("cat",), ("hund",)), Term(("sea",)), Term(("man",), ("Mann", "Katze")), Term(("house",), ("Haus",))]
    glossary = Glossary((*rows, Term((), forbidden=("Haus",))))
    assert GlossaryControl(glossary, "hard", trained.tokenizer).translation(text) == expected
    assert GlossaryControl(glossary, "soft", trained.tokenizer).translation(text) is None
    if expected is not None:
        found = trained.translate(text, glossary=glossary)
        assert (found.text.strip(), found.log_prob, found[0].hypothesis.finished) == (expected, 0, True)
        assert trained.translate(text, glossary=glossary, beam_size=1).text == found.text


def test_a_term_alone_begins_with_a_capital_as_its_source_does(trained: Translator) -> None:
    control = GlossaryControl(Glossary.from_pairs({"cat": "hund"}), "hard", trained.tokenizer)
    assert control.translation("Cat") == "Hund"
    exact = Glossary((Term(("Cat",), ("hund",), case="exact"),))
    assert GlossaryControl(exact, "hard", trained.tokenizer).translation("Cat") == "hund"


def test_the_best_of_several_translations_has_unlikely_terms_in_their_places(trained: Translator) -> None:
    texts = ["the small cat sleeps in the house", "two dogs play in the house"]
    glossary = {"house": "Mann", "cat": "Hund"}
    several = trained.translate(texts, glossary=glossary, n_best=3, beam_size=5)
    best = trained.translate(texts, glossary=glossary, beam_size=5)
    assert [one.text for one in several] == [one.text for one in best]
    assert all(len({one.text for one in row}) == len(row) == 3 for row in several)


def test_terms_alone_are_translated_among_other_texts(trained: Translator) -> None:
    texts = ["the small cat sleeps in the house", "cat", "two dogs play", "house"]
    options: Any = {"glossary": {"cat": "Hund", "house": "Mann"}, "n_best": 3, "beam_size": 4}
    found = trained.translate(texts, **options)
    assert [found[1].text, found[3].text] == ["Hund", "Mann"]
    alone = [trained.translate(one, **options) for one in texts]
    assert [[one.text for one in row] for row in found] == [[one.text for one in row] for row in alone]
    assert found[2].text == trained.translate(texts[2], n_best=3, beam_size=4).text
    prefixed = trained.translate("cat", glossary={"cat": "Hund"}, target_prefix="eine")
    assert prefixed.text.startswith("eine")
    assert prefixed.text.endswith("Hund")  # the search goes on
