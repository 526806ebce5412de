"""Prefixes of translations, and the alternatives after them."""

import asyncio
import math
from pathlib import Path

import pytest

from dragoman import load
from dragoman.decoding.config import DecodingConfig
from dragoman.errors import ConfigError, DataError
from dragoman.inference import Translator
from dragoman.runs.load import load_torch_model
from tests.untrained_runs import PAIRS, finished_run

TEXT, PREFIX = "two dogs play .", "zwei Hunde"
pytestmark = pytest.mark.filterwarnings("ignore::dragoman.inference.TranslationWarning")


@pytest.fixture(scope="module", params=["cpu library", "pytorch"])
def translator(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Translator:
    path: Path = finished_run(tmp_path_factory.mktemp("run") / "run").path
    return load(path, Translator) if request.param == "cpu library" else load_torch_model(path, Translator)


def test_a_prefix_begins_the_translation_and_costs_nothing(translator: Translator):
    found = translator.translate(TEXT, target_prefix=PREFIX, n_best=3, allow_unk=False, max_length=7)
    for one in found:
        assert one.tokens[:2] == ("▁zwei", "▁Hunde")
        assert one.hypothesis.token_log_probs[:2] == (0, 0)
    [scored] = translator.score([TEXT], [found.text])
    own, forced = found[0].hypothesis.token_log_probs, scored.token_log_probs
    assert own[2:] == pytest.approx(forced[2 : len(own)], abs=1e-4)


def test_each_text_has_its_own_prefix(translator: Translator):
    texts = [source for source, _ in PAIRS]
    together = translator.translate(texts, target_prefix=["zwei", ""])
    assert together[0].text == translator.translate(texts[0], target_prefix="zwei").text
    assert together[1].text == translator.translate(texts[1]).text


def test_alternatives_are_the_most_probable_tokens(translator: Translator):
    found = translator.alternatives(TEXT, target_prefix=PREFIX, count=100)
    probabilities = [one.probability for one in found]
    assert probabilities == sorted(probabilities, reverse=True)
    assert sum(probabilities) < 1
    for one in found[:5]:
        if one.token == "<eos>":
            [scored] = translator.score([TEXT], [PREFIX])
        else:
            [scored] = translator.score([TEXT], [f"{PREFIX} {one.token.removeprefix('▁')}"])
        assert math.exp(scored.token_log_probs[2]) == pytest.approx(one.probability, rel=1e-3)


def test_an_alternative_goes_on_as_a_translation_with_its_prefix(translator: Translator):
    for one in translator.alternatives(TEXT, target_prefix=PREFIX, count=5):
        if one.token != "<eos>":
            longer = f"{PREFIX} {one.token.removeprefix('▁')}"
            assert one.translation.text == translator.translate(TEXT, target_prefix=longer).text
        else:
            assert one.translation.text == PREFIX


def test_alternatives_of_concurrent_calls_are_those_alone(translator: Translator):
    prefixes = ["", "zwei", PREFIX, "eine Katze"]

    async def together():
        return await asyncio.gather(*(translator.alternatives_async(TEXT, target_prefix=one) for one in prefixes))

    crowd = asyncio.run(together())
    for prefix, found in zip(prefixes, crowd, strict=True):
        alone = translator.alternatives(TEXT, target_prefix=prefix)
        assert [one.translation.text for one in found] == [one.translation.text for one in alone]


def test_a_prefix_that_cannot_be_continued_is_refused(translator: Translator):
    with pytest.raises(DataError, match="several segments"):
        translator.translate("Two dogs play. A cat sits.", target_prefix="zwei", split="sentences")
    with pytest.raises(DataError, match="give one for each"):
        translator.translate([TEXT, TEXT], target_prefix=["zwei"])
    with pytest.raises(DataError, match="not empty"):
        translator.alternatives("")
    with pytest.raises((ConfigError, ValueError, DataError), match="count"):
        translator.alternatives(TEXT, count=0)
    assert translator.translate(TEXT, DecodingConfig(max_length=1), target_prefix=PREFIX).text.startswith(PREFIX)
