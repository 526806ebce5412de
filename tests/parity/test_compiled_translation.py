"""Whole translations by the compiled core beside those by PyTorch, from the same folder; needs `dragoman-cpu`."""

import random
import warnings
from pathlib import Path

import pytest

import dragoman
from dragoman.data.shortlist import Shortlist, ShortlistSettings
from dragoman.decoding import Gnmt, LengthLimit, SearchSettings
from dragoman.inference import TranslationWarning, Translator
from dragoman.inference.backends.cpu_backend import Compiled
from dragoman.inference.engine import Engine, Request
from dragoman.runs.export import export
from dragoman.runs.load import load_in_pytorch
from dragoman.runs.shortlist import shortlisted
from tests.finished_runs import PAIRS, finished_run, written_pairs

pytest.importorskip("dragoman_cpu", reason="the compiled core is not installed")

WORDS = " ".join(PAIRS[0] + PAIRS[1]).split()
MODELS = {
    "as in the paper": {"norm_position": "post"},
    "as nowadays": {"norm": "rms", "gated": True, "activation": "silu", "positions": {"kind": "rotary"}, "bias": False},
    "learned places": {"positions": {"kind": "learned", "length": 19}, "key_value_heads": 1},
    "biases of distances": {"positions": {"kind": "alibi"}, "decoder_layers": 2},
}
SETTINGS = [
    SearchSettings(beam=1),
    SearchSettings(beam=3, best=3, minimum_length=2, maximum_length=LengthLimit(factor=1, offset=5)),
    SearchSettings(beam=5, normalisation=Gnmt(), allow_unknown=False, maximum_length=LengthLimit(factor=1, offset=5)),
]


def texts(count: int) -> list[str]:
    generator = random.Random(5)
    return [" ".join(generator.choices(WORDS, k=generator.randint(0, 13))) for _ in range(count)]


@pytest.fixture(autouse=True)
def silently():
    """What random networks write often reaches its limit, which these tests are not about."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TranslationWarning)
        yield


def assert_alike(fast: Translator, slow: Translator) -> None:
    """They find the same translations with the same scores, and score others alike."""
    lines = texts(17)
    for wanted in SETTINGS:
        for mine, theirs in zip(fast.hypotheses(lines, wanted), slow.hypotheses(lines, wanted), strict=True):
            assert [one.hypothesis.tokens for one in mine] == [one.hypothesis.tokens for one in theirs]
            scores = [one.hypothesis.score for one in theirs]
            assert [one.hypothesis.score for one in mine] == pytest.approx(scores, abs=1e-4)
    forced = [translator.score(lines, lines[::-1]) for translator in (fast, slow)]
    assert [one.score for one in forced[0]] == pytest.approx([one.score for one in forced[1]], abs=1e-4)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_the_same_translations_with_the_same_scores(tmp_path, model):
    run = finished_run(tmp_path / "run", {"model": model, "data": {"longest_source": 18, "longest_target": 18}}).path
    fast = dragoman.load(run, device="cpu", batch_tokens=41)
    slow = load_in_pytorch(run, device="cpu")
    assert isinstance(fast.model, Compiled)
    assert_alike(fast, slow)


@pytest.mark.parametrize("compute", ["float32", "bfloat16", "int8"])
def test_a_translation_does_not_depend_on_its_company(tmp_path, compute):
    run = finished_run(tmp_path / "run", {"model": {"decoder_layers": 2}}).path
    export(run, tmp_path / "model", compute=compute)
    translator: Translator = dragoman.load(tmp_path / "model", device="cpu", batch_tokens=37)
    lines = [line for line in texts(23) if line]
    together = translator.hypotheses(lines, SETTINGS[1])
    order = random.Random(7).sample(range(len(lines)), len(lines))
    mixed = translator.hypotheses([lines[row] for row in order], SETTINGS[1])
    for place, row in enumerate(order):
        assert mixed[place] == together[row]  # to the last bit
    assert [translator.hypotheses([line], SETTINGS[1])[0] for line in lines] == together


@pytest.mark.parametrize("compute", ["float32", "int8"])
def test_nor_on_who_joins_and_leaves_the_engine_meanwhile(tmp_path, compute):
    run = finished_run(tmp_path / "run", {"model": {"decoder_layers": 2}}).path
    translator: Translator = dragoman.load(run, device="cpu", compute=compute)
    ids = [tuple(row) for row in translator.tokenizer.source.encode_batch([line for line in texts(29) if line])]
    requests = [Request(row, SETTINGS[place % 3], 11) for place, row in enumerate(ids)]
    with Engine(translator.model, room=10_000) as engine:
        alone = [engine.submit(request).result(timeout=60) for request in requests]
    generator = random.Random(11)
    with Engine(translator.model, room=43, waiting=53) as engine:
        again = [Request(one.ids, one.settings, one.limit) for one in generator.sample(requests, len(requests))]
        answers = {request: engine.submit(request) for request in again}
        for request in generator.sample(again, len(again) // 4):
            answers[request].cancel()
    expected = {(one.ids, one.settings): found for one, found in zip(requests, alone, strict=True)}
    answered = {request: answer.result() for request, answer in answers.items() if not answer.cancelled()}
    assert answered
    for request, found in answered.items():
        assert found == expected[request.ids, request.settings]  # to the last bit


@pytest.mark.parametrize("compute", ["bfloat16", "int8"])
def test_an_exported_model_is_the_run_in_that_precision(tmp_path, compute):
    """What the exporter rounds is what the core rounds when it loads."""
    run = finished_run(tmp_path / "run").path
    export(run, tmp_path / "model", compute=compute)
    lines = texts(11)
    loaded = dragoman.load(run, device="cpu", compute=compute), dragoman.load(tmp_path / "model", device="cpu")
    mine, theirs = (translator.hypotheses(lines, SETTINGS[1]) for translator in loaded)
    assert mine == theirs


def exported_with_shortlist(tmp_path: Path, compute: str, **sizes: int) -> Path:
    """The model of a random run, with a shortlist of the pairs that its words are from."""
    run = finished_run(tmp_path / "run", {"model": {"decoder_layers": 2}}).path
    shortlist = ShortlistSettings(**sizes)
    export(run, tmp_path / "model", compute=compute, shortlist=shortlist, corpus=written_pairs(tmp_path))
    return tmp_path / "model"


def test_a_shortlist_means_the_same_to_the_core_and_to_pytorch(tmp_path):
    """In whole batches of PyTorch, and beside others that join and leave in the core."""
    model = exported_with_shortlist(tmp_path, "float32", frequent=1, each=2)
    fast = dragoman.load(model, device="cpu", batch_tokens=41, shortlist=True)
    shortlist = Shortlist.load(model / "shortlist.safetensors")
    slow = shortlisted(load_in_pytorch(model, device="cpu"), shortlist)
    lines = texts(17)
    for wanted in SETTINGS:
        for line, mine, theirs in zip(
            lines, fast.hypotheses(lines, wanted), slow.hypotheses(lines, wanted), strict=True
        ):
            assert [one.hypothesis.tokens for one in mine] == [one.hypothesis.tokens for one in theirs]
            scores = [one.hypothesis.score for one in theirs]
            assert [one.hypothesis.score for one in mine] == pytest.approx(scores, abs=1e-4)
            candidates = {*shortlist.candidates(fast.tokenizer.source.encode(line)).tolist()}
            assert all(candidates.issuperset(one.hypothesis.tokens) for one in mine)
    forced = [translator.score(lines, lines[::-1]) for translator in (fast, load_in_pytorch(model, device="cpu"))]
    assert [one.score for one in forced[0]] == pytest.approx([one.score for one in forced[1]], abs=1e-4)


@pytest.mark.parametrize("compute", ["float32", "bfloat16", "int8"])
def test_a_shortlist_is_a_matter_of_each_text_alone(tmp_path, compute):
    model = exported_with_shortlist(tmp_path, compute, frequent=0, each=3)
    translator: Translator = dragoman.load(model, device="cpu", batch_tokens=37, shortlist=True)
    lines = [line for line in texts(23) if line]
    together = translator.hypotheses(lines, SETTINGS[1])
    assert [translator.hypotheses([line], SETTINGS[1])[0] for line in lines] == together  # to the last bit
    with translator.shared() as shared:
        assert shared.hypotheses(lines[::-1], SETTINGS[1]) == together[::-1]
