"""Translations by the CPU library equal translations by PyTorch, from the same run folder; needs `dragoman-cpu`."""

import asyncio
import random
import warnings
from pathlib import Path

import pytest

import dragoman
from dragoman.data.shortlist import Shortlist, ShortlistConfig
from dragoman.decoding import DecodingConfig
from dragoman.inference import TranslationWarning, Translator
from dragoman.inference.backends.cpu_backend import CpuBackend
from dragoman.inference.engine_thread import Engine
from dragoman.inference.scheduler import Request
from dragoman.runs.export import export
from dragoman.runs.load import apply_shortlist, load_torch_model
from tests.untrained_runs import PAIRS, finished_run, write_pairs

pytest.importorskip("dragoman_cpu", reason="the CPU library is not installed")

WORDS = " ".join(PAIRS[0] + PAIRS[1]).split()
MODELS = {
    "as in the paper": {"norm_position": "post"},
    "as nowadays": {"norm": "rms", "gated": True, "activation": "silu", "positions": {"kind": "rotary"}, "bias": False},
    "learned places": {"positions": {"kind": "learned", "max_length": 19}, "num_kv_heads": 1},
    "biases of distances": {"positions": {"kind": "alibi"}, "decoder_layers": 2},
    "recurrent decoder": {"decoder_layer": "ssru", "decoder_layers": 2, "norm_position": "post", "norm_epsilon": 1e-6},
}
SETTINGS = [
    DecodingConfig(beam_size=1),
    DecodingConfig(beam_size=3, n_best=3, min_length=2, max_length_ratio=1, max_length_offset=5),
    DecodingConfig(beam_size=5, length_penalty_kind="gnmt", allow_unk=False, max_length_ratio=1, max_length_offset=5),
]


def texts(count: int) -> list[str]:
    generator = random.Random(5)
    return [" ".join(generator.choices(WORDS, k=generator.randint(0, 13))) for _ in range(count)]


@pytest.fixture(autouse=True)
def silently():
    """Ignore the warning about the length limit, which random models often reach."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TranslationWarning)
        yield


def assert_alike(fast: Translator, slow: Translator) -> None:
    """Assert equal translations with equal scores, and equal scores of given targets."""
    lines = texts(17)
    for wanted in SETTINGS:
        for mine, theirs in zip(fast.translate(lines, wanted), slow.translate(lines, wanted), strict=True):
            assert [one.hypothesis.tokens for one in mine] == [one.hypothesis.tokens for one in theirs]
            scores = [one.hypothesis.score for one in theirs]
            assert [one.hypothesis.score for one in mine] == pytest.approx(scores, abs=1e-4)
    forced = [translator.score(lines, lines[::-1]) for translator in (fast, slow)]
    assert [one.score for one in forced[0]] == pytest.approx([one.score for one in forced[1]], abs=1e-4)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_translations_and_scores_equal_pytorch(tmp_path, model):
    run = finished_run(
        tmp_path / "run", {"model": model, "data": {"max_source_length": 18, "max_target_length": 18}}
    ).path
    fast = dragoman.load(run, device="cpu", batch_tokens=41)
    slow = load_torch_model(run, device="cpu")
    assert isinstance(fast.model, CpuBackend)
    assert_alike(fast, slow)


@pytest.mark.parametrize("compute", ["float32", "bfloat16", "int8", "int8_int16"])
def test_translations_do_not_depend_on_the_batch(tmp_path, compute):
    run = finished_run(tmp_path / "run", {"model": {"decoder_layers": 2}}).path
    export(run, tmp_path / "model", compute_type=compute)
    translator: Translator = dragoman.load(tmp_path / "model", device="cpu", batch_tokens=37)
    lines = [line for line in texts(23) if line]
    together = translator.translate(lines, SETTINGS[1])
    order = random.Random(7).sample(range(len(lines)), len(lines))
    mixed = translator.translate([lines[row] for row in order], SETTINGS[1])
    for place, row in enumerate(order):
        assert mixed[place] == together[row]  # to the last bit
    assert [translator.translate([line], SETTINGS[1])[0] for line in lines] == together


@pytest.mark.parametrize("compute", ["float32", "bfloat16", "int8", "int8_int16"])
def test_translations_do_not_depend_on_other_requests(tmp_path, compute):
    run = finished_run(tmp_path / "run", {"model": {"decoder_layers": 2}}).path
    translator: Translator = dragoman.load(run, device="cpu", compute_type=compute)
    ids = [tuple(row) for row in translator.tokenizer.source.encode_batch([line for line in texts(29) if line])]
    requests = [Request(row, SETTINGS[place % 3], 11) for place, row in enumerate(ids)]
    with Engine(translator.model, max_tokens=10_000) as engine:
        alone = [engine.submit(request).result(timeout=60) for request in requests]
    generator = random.Random(11)
    with Engine(translator.model, max_tokens=43) as engine:
        again = [Request(one.ids, one.config, one.limit) for one in generator.sample(requests, len(requests))]
        answers = {request: engine.submit(request) for request in again}
        for request in generator.sample(again, len(again) // 4):
            answers[request].cancel()
    expected = {(one.ids, one.config): found for one, found in zip(requests, alone, strict=True)}
    answered = {request: answer.result() for request, answer in answers.items() if not answer.cancelled()}
    assert answered
    for request, found in answered.items():
        assert found == expected[request.ids, request.config]  # to the last bit


@pytest.mark.parametrize("compute", ["bfloat16", "int8", "int8_int16"])
def test_export_equals_run_in_its_compute_type(tmp_path, compute):
    """Export and loading round the weights in the same way."""
    run = finished_run(tmp_path / "run").path
    export(run, tmp_path / "model", compute_type=compute)
    lines = texts(11)
    loaded = dragoman.load(run, device="cpu", compute_type=compute), dragoman.load(tmp_path / "model", device="cpu")
    mine, theirs = (translator.translate(lines, SETTINGS[1]) for translator in loaded)
    assert mine == theirs


def exported_with_shortlist(tmp_path: Path, compute: str, **sizes: int) -> Path:
    """Export a random run with a shortlist from the pairs of its vocabulary."""
    run = finished_run(tmp_path / "run", {"model": {"decoder_layers": 2}}).path
    shortlist, corpus = ShortlistConfig(**sizes), write_pairs(tmp_path)
    sides = {"source": corpus.source, "target": corpus.target}
    export(run, tmp_path / "model", compute_type=compute, shortlist=shortlist, **sides)
    return tmp_path / "model"


def test_shortlist_equals_pytorch(tmp_path):
    """Whole batches in PyTorch, and continuous batching in the CPU library."""
    model = exported_with_shortlist(tmp_path, "float32", frequent=1, per_token=2)
    fast = dragoman.load(model, device="cpu", batch_tokens=41, shortlist=True)
    shortlist = Shortlist.load(model / "shortlist.safetensors")
    slow = apply_shortlist(load_torch_model(model, device="cpu"), shortlist)
    lines = texts(17)
    for wanted in SETTINGS:
        for line, mine, theirs in zip(lines, fast.translate(lines, wanted), slow.translate(lines, wanted), strict=True):
            assert [one.hypothesis.tokens for one in mine] == [one.hypothesis.tokens for one in theirs]
            scores = [one.hypothesis.score for one in theirs]
            assert [one.hypothesis.score for one in mine] == pytest.approx(scores, abs=1e-4)
            candidates = {*shortlist.tokens_for(fast.tokenizer.source.encode(line)).tolist()}
            assert all(candidates.issuperset(one.hypothesis.tokens) for one in mine)
    forced = [translator.score(lines, lines[::-1]) for translator in (fast, load_torch_model(model, device="cpu"))]
    assert [one.score for one in forced[0]] == pytest.approx([one.score for one in forced[1]], abs=1e-4)


@pytest.mark.parametrize("compute", ["float32", "bfloat16", "int8", "int8_int16"])
def test_shortlist_depends_only_on_its_text(tmp_path, compute):
    model = exported_with_shortlist(tmp_path, compute, frequent=0, per_token=3)
    translator: Translator = dragoman.load(model, device="cpu", batch_tokens=37, shortlist=True)
    lines = [line for line in texts(23) if line]
    together = translator.translate(lines, SETTINGS[1])
    assert [translator.translate([line], SETTINGS[1])[0] for line in lines] == together  # to the last bit
    assert asyncio.run(translator.translate_async(lines[::-1], SETTINGS[1])) == together[::-1]
