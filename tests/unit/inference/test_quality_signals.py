"""Quality signals of translations: confidence, and warnings about their texts."""

import json
import math

import pytest

from dragoman import load
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.inference import Translation, Translator
from dragoman.inference.quality_signals import ModelTexts, mean_probability, quality_signals
from tests.untrained_runs import PAIRS, finished_run

pytestmark = pytest.mark.filterwarnings("ignore:.*length limit:dragoman.inference.TranslationWarning")


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    return load(finished_run(tmp_path_factory.mktemp("run") / "run").path, Translator)


def hypothesis(*log_probs: float, finished: bool = True) -> Hypothesis:
    return Hypothesis((), math.fsum(log_probs), 0.0, log_probs, finished)


def test_confidence_is_the_mean_probability_of_free_tokens(translator: Translator):
    assert mean_probability([math.log(0.5), math.log(0.125)]) == pytest.approx(0.3125)
    assert mean_probability([]) == mean_probability([0.0]) == 1.0
    free = translator.translate(PAIRS[0][0], target_prefix="zwei Hunde")[0]
    chosen = free.hypothesis.token_log_probs[2:]
    assert free.hypothesis.token_log_probs[:2] == (0.0, 0.0)
    assert free.quality.confidence == pytest.approx(sum(map(math.exp, chosen)) / len(chosen))


def test_tokens_that_are_certain_count():
    sure = Translation("zwei Hunde", hypothesis(0.0, 0.0, math.log(0.5)), ("zwei", "Hunde"))
    assert sure.quality.confidence == pytest.approx(2.5 / 3)


def test_signals_name_each_problem():
    texts = ModelTexts("Two dogs play in the snow.", "Two dogs play in the snow.")
    found = quality_signals(texts, [-1.0], finished=False, unmet=["Hund", "Katze"])
    assert [one.kind for one in found.warnings] == ["copied", "cut_off", "unmet", "unmet"]
    assert "“Katze”" in found.warnings[-1].message
    assert found.kinds == {"copied", "cut_off", "unmet"}
    assert found.confidence == pytest.approx(math.exp(-1))


def test_translations_have_their_signals(translator: Translator):
    sources = [source for source, _ in PAIRS]
    for source, result in zip(sources, translator.translate(sources, beam_size=2, n_best=2), strict=True):
        assert result.quality == result[0].quality
        for one in result:
            assert one.model_texts == ModelTexts(source, one.text)
            free = one.hypothesis.token_log_probs
            assert one.quality.confidence == pytest.approx(sum(map(math.exp, free)) / len(free))
            assert ("cut_off" in one.quality.kinds) == one.truncated
            assert json.loads(json.dumps(one.to_dict()))["quality"] == one.quality.to_dict()


def test_empty_texts_and_translations_made_by_hand_have_no_warning(translator: Translator):
    assert translator.translate("").quality.warnings == ()
    assert Translation("", hypothesis(), ()).quality.warnings == ()
    assert Translation("Haus", hypothesis(-0.1), ("Haus",)).quality.warnings == ()


def test_segments_are_checked_as_one_text(translator: Translator):
    pytest.importorskip("sentencex")
    result = translator.translate("Two dogs play. Two dogs play.", split="sentences")
    assert result.segments == 2
    assert result[0].model_texts == ModelTexts("Two dogs play. Two dogs play.", result.text)
