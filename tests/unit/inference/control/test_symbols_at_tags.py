"""Symbols, quotation marks and placeholders next to tags: an independent parser judges translations by a model."""

import pytest

from benchmarks.markup.symbols import SENTENCES, Case, judge, make_cases, translate
from dragoman import load
from dragoman.data.tokenizers import BpeConfig
from dragoman.inference import Translator
from tests.untrained_runs import finished_run

pytestmark = pytest.mark.filterwarnings("ignore::dragoman.inference.TranslationWarning")


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    vocabulary = BpeConfig(vocab_size=300, byte_fallback=False)
    pairs = [(text, text.capitalize()) for text in (*SENTENCES, "0123456789 \"'()-...,:!?")]
    return load(
        finished_run(tmp_path_factory.mktemp("run") / "run", vocabulary=vocabulary, pairs=pairs).path, Translator
    )


@pytest.mark.parametrize("options", [{"max_length": 3}, {"max_length": 11, "beam_size": 1}, {}])
def test_symbols_at_tags_are_kept_outside_of_tags(translator: Translator, options) -> None:
    cases = make_cases(60, seed=7)
    for case, outcome in zip(cases, translate(translator, cases, **options), strict=True):
        verdict = judge(case, outcome.text)
        assert verdict.well_formed
        assert verdict.same_tags
        assert verdict.symbols
        assert verdict.tokens == ()
        # Tags of PO are placeholders.
        assert case.kind == "po" or verdict.emptied == () or outcome.problems


HEADING = '<h2>The long description<a class="headerlink" href="#y">¶</a></h2>'


def test_symbol_in_its_own_element_stays_there(translator: Translator) -> None:
    assert translator.translate(HEADING, markup="html", placeholders=True).text.endswith(
        '<a class="headerlink" href="#y">¶</a></h2>'
    )


def test_judge_sees_what_is_wrong() -> None:
    damaged = judge(Case("html", HEADING), '<h2>A descrição <a class="headerlink" ¶ href="#y">longa6510</a></h2>')
    assert not damaged.same_tags
    assert damaged.tokens == ("6510",)
    assert judge(Case("xml", "a <b>b</b>"), "a b<b></b>").emptied == ("<b>",)
    assert not judge(Case("xml", "a <b>b</b>"), "a <b>b").well_formed
