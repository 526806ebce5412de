"""Words that translations must have, or may not."""

import asyncio
import re
from dataclasses import replace

import numpy as np
import pytest

from dragoman import Constraint, load
from dragoman.data.shortlist import Shortlist
from dragoman.data.tokenizers import CharacterConfig, Tokenizer
from dragoman.data.tokenizers.normalization import SPACE
from dragoman.decoding.constraints.phrase_automaton import BOUNDARY, HYPHEN, INSIDE
from dragoman.errors import ConfigError, DataError
from dragoman.inference import Translation, TranslationWarning, Translator
from dragoman.inference.control.prepared_text import PreparedText
from dragoman.inference.control.text_constraints import token_edges
from dragoman.inference.translation_result import EMPTY
from dragoman.models.special_symbols import EOS
from dragoman.runs.load import apply_shortlist, build_ensemble, load_torch_model
from tests.untrained_runs import PAIRS, finished_run

TEXTS = [source for source, _ in PAIRS]
pytestmark = pytest.mark.filterwarnings("ignore:.*length limit:dragoman.inference.TranslationWarning")


@pytest.fixture(scope="module", params=["cpu library", "pytorch"])
def translator(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Translator:
    path = finished_run(tmp_path_factory.mktemp("run") / "run").path
    return load(path, Translator) if request.param == "cpu library" else load_torch_model(path, Translator)


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def test_required_words_appear(translator: Translator):
    found = translator.translate(TEXTS, constraints=[Constraint("Meer"), Constraint("zwei Hunde")])
    for one in found:
        assert "Meer" in words(one.text)
        assert "zwei Hunde" in one.text
        assert one[0].unmet == ()


def test_one_of_several_forms_suffices(translator: Translator):
    found = translator.translate(TEXTS[0], constraints=[Constraint(["Meer", "Katze"])])
    assert {"Meer", "Katze"} & set(words(found.text))


def test_words_appear_once_or_never(translator: Translator):
    free = translator.translate(TEXTS[0])
    unwanted = words(free.text)[0]
    found = translator.translate(
        TEXTS[0], constraints=[Constraint("Meer", kind="once"), Constraint(unwanted, kind="forbidden")]
    )
    assert words(found.text).count("Meer") == 1
    assert unwanted not in words(found.text)


def test_preferred_words_appear_with_a_large_bonus_only(translator: Translator):
    free = translator.translate(TEXTS[0])
    assert "Meer" not in words(free.text)
    found = [
        translator.translate(TEXTS[0], constraints=[Constraint("Meer", "preferred", bonus=n)]) for n in (0.0, 900.0)
    ]
    assert [one.text == free.text for one in found] == [True, False]
    assert "Meer" in words(found[1].text)
    assert found[1][0].hypothesis.log_prob < free[0].hypothesis.log_prob


@pytest.mark.parametrize(("kind", "bonus"), [("required", 1.0), ("preferred", -1.0), ("preferred", float("nan"))])
def test_invalid_bonuses_are_refused(kind, bonus):
    with pytest.raises(ConfigError, match="bonus"):
        Constraint("Meer", kind, bonus=bonus)


def test_words_of_constraints_join_the_shortlist(translator: Translator):
    side = translator.tokenizer.target
    always = np.array([EOS, *side.encode("Hunde")], dtype=np.int32)
    empty = np.zeros(len(translator.tokenizer.source), dtype=np.int32)
    few = apply_shortlist(translator, Shortlist(np.unique(always), empty[:0], empty))
    free, found = few.translate(TEXTS), few.translate(TEXTS, constraints=[[Constraint("Meer")], []])
    assert not {"Meer"} & {*words(free[0].text), *words(free[1].text)}
    assert "Meer" in words(found[0].text)
    assert found[1].text == free[1].text
    assert set(found[0][0].hypothesis.tokens) <= {*always.tolist(), *side.encode("Meer")}


def test_ensembles_meet_constraints(translator: Translator):
    together = build_ensemble(["one", "two"], [translator, translator])
    constraints = [[Constraint("Meer"), Constraint(["Katze", "Hunde"], kind="once")], []]
    found = together.translate(TEXTS, constraints=constraints)
    assert "Meer" in words(found[0].text)
    assert sum(map(words(found[0].text).count, ["Katze", "Hunde"])) == 1
    assert found[1].text == together.translate(TEXTS[1]).text


def test_one_of_several_forms_continues_a_prefix(translator: Translator):
    forms = Constraint(["Meer", "Katze"])
    found = translator.translate(TEXTS[0], target_prefix="eine", constraints=[forms])
    first, *others = words(found.text)
    assert first == "eine"
    assert {"Meer", "Katze"} & {*others}


def test_each_text_has_its_own_constraints_and_others_are_as_before(translator: Translator):
    free = translator.translate(TEXTS)
    together = translator.translate(TEXTS, constraints=[[Constraint("Meer")], []])
    assert "Meer" in words(together[0].text)
    assert together[1].text == free[1].text
    assert together[0].text == translator.translate(TEXTS[0], constraints=[Constraint("Meer")]).text


def test_concurrent_calls_meet_their_constraints(translator: Translator):
    async def together():
        needed = ["Meer", "Katze", "Hunde"]
        return needed, await asyncio.gather(
            *(translator.translate_async(TEXTS[0], constraints=[Constraint(one)]) for one in needed)
        )

    needed, found = asyncio.run(together())
    assert all(one in words(result.text) for one, result in zip(needed, found, strict=True))


def test_greedy_search_takes_a_beam_for_texts_with_constraints(translator: Translator):
    free = translator.translate(TEXTS, beam_size=1)
    found = translator.translate(TEXTS, beam_size=1, constraints=[[Constraint("Meer")], []])
    assert found[0].text == translator.translate(TEXTS[0], beam_size=5, constraints=[Constraint("Meer")]).text
    assert found[1].text == free[1].text


def test_what_cannot_be_met_is_named(translator: Translator):
    rules = [Constraint("Meer"), Constraint("Meer", kind="forbidden")]
    with pytest.warns(TranslationWarning, match="constraints on 'Meer'"):
        found = translator.translate(TEXTS[0], constraints=rules)
    assert found[0].unmet in {("Meer",), ("Meer", "Meer")}
    assert set(found[0].to_dict()["unmet"]) == {"Meer"}


def test_a_prefix_with_a_forbidden_word_is_continued(translator: Translator):
    free = translator.translate(TEXTS[0], target_prefix="das Meer")
    with pytest.warns(TranslationWarning, match="constraints on 'Meer'"):
        found = translator.translate(
            TEXTS[0], target_prefix="das Meer", constraints=[Constraint("Meer", kind="forbidden")]
        )
    assert found.text.startswith("das Meer") or free.text == found.text
    assert found[0].unmet == ("Meer",)


@pytest.mark.parametrize(
    ("constraints", "options", "error", "message"),
    [
        ([Constraint("Meer")], {"beam_size": 1, "renormalize": True}, ConfigError, "renormalize has no effect"),
        ([Constraint("")], {}, DataError, "is empty"),
        ([Constraint("猫")], {}, DataError, "cannot write"),
        ([Constraint(("Meer", ""))], {}, DataError, "is empty"),
        ([Constraint([])], {}, DataError, "Give 1 to"),
        ([Constraint("Meer")] * 63, {}, DataError, "at most 62"),
        ([[Constraint("Meer")], []], {}, DataError, "give one for each"),
        (["Meer"], {}, TypeError, "Constraint"),
    ],
)
def test_invalid_constraints_are_refused(translator: Translator, constraints, options, error, message):
    with pytest.raises(error, match=message):
        translator.translate(TEXTS[0], constraints=constraints, **options)


def test_a_text_of_several_segments_takes_forbidden_words_only(translator: Translator):
    text = "Two dogs play. A cat sits by the sea."
    with pytest.raises(DataError, match="several segments"):
        translator.translate(text, split="sentences", constraints=[Constraint("Meer")])
    found = translator.translate(text, split="sentences", constraints=[Constraint("Meer", kind="forbidden")])
    assert "Meer" not in words(found.text)


@pytest.mark.parametrize("chunk", [1, 2, 100])
def test_a_stream_has_the_constraints_and_prefixes_of_its_texts(translator: Translator, chunk):
    texts = TEXTS * 2
    each = [[Constraint("Meer")], [], [Constraint("Hunde")], []] * (len(texts) // 4)
    prefixes = ["eine", "", "zwei", ""] * (len(texts) // 4)
    expected = translator.translate(texts, constraints=each, target_prefix=prefixes)
    found = list(translator.translate_stream(texts, constraints=each, target_prefix=prefixes, chunk=chunk))
    assert [one.text for one in found] == [one.text for one in expected]
    assert all(one.text.startswith(prefix) for one, prefix in zip(found, prefixes, strict=True))


def test_a_stream_needs_constraints_of_all_its_texts(translator: Translator):
    for count in (len(TEXTS) - 1, len(TEXTS) + 1):
        with pytest.raises(DataError, match="give one for each"):
            list(translator.translate_stream(TEXTS, constraints=[[Constraint("Meer")]] * count))


def test_steps_are_undone_in_reverse_order():
    class Spell:
        def __init__(self, text: str, old: str, new: str) -> None:
            self.text, self._old, self._new = text.replace(old, new), old, new

        def constraints(self, segment: str) -> list[Constraint]:
            return [Constraint(self._new)] if self._new in segment else []

        def restore(self, translation: Translation) -> Translation:
            return replace(translation, text=translation.text.replace(self._new, self._old))

    first = Spell("ab", "a", "b")
    second = Spell(first.text, "b", "c")
    text = PreparedText("ab", (first, second), given=(Constraint("x"),))
    assert text.text == "cc"
    assert [one.forms for one in text.constraints("c")] == ["x", "c"]
    assert text.restore(replace(EMPTY, text="c")).text == "a"


def test_hyphens_are_no_word_boundaries():
    side = Tokenizer.train(lambda: [("a", "Jacke-Hose, ein Mantel")], CharacterConfig()).target
    starts, ends = token_edges(side)
    effects = dict(
        zip(side.ids_to_tokens(range(len(side))), zip(starts.tolist(), ends.tolist(), strict=True), strict=True)
    )
    assert effects["-"] == (HYPHEN, False)
    assert effects[","] == effects[SPACE] == (BOUNDARY, True)
    assert effects["e"] == (INSIDE, False)
