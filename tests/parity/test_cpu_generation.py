"""Generation by the CPU library equals generation by PyTorch, from the same run folder; needs `dragoman-cpu`."""

import math

import pytest

import dragoman
from dragoman.decoding import DecodingConfig, SamplingConfig
from dragoman.inference import Completion, GenerationWarning, Generator
from dragoman.inference.backends.cpu_backend import CpuBackend
from dragoman.runs.export import export
from dragoman.runs.load import load_torch_model
from tests.untrained_runs import PAIRS, finished_language_model

pytestmark = pytest.mark.slow

pytest.importorskip("dragoman_cpu", reason="the CPU library is not installed")

PROMPTS = ["two dogs", "", "a cat sits by the sea and the dogs play", "s"]
TEXTS = [text for pair in PAIRS for text in pair] + ["two cats sit by the sea and the dog plays by the other sea"]
MODELS = {
    "as in the paper": {"norm_position": "post", "positions": {"kind": "sinusoidal"}},
    "as nowadays": {"norm": "rms", "gated": True, "activation": "silu", "positions": {"kind": "rotary"}, "bias": False},
    "learned places": {"positions": {"kind": "learned", "max_length": 23}, "num_kv_heads": 1, "tie_embeddings": False},
    "biases of distances": {"positions": {"kind": "alibi"}},
}
DRAWN = [
    SamplingConfig(seed=3),
    SamplingConfig(temperature=0),
    SamplingConfig(temperature=1.7, top_k=5, repetition_penalty=1.3, seed=1),
    SamplingConfig(top_p=0.8, no_repeat_ngram_size=2, min_length=9, seed=2),
    SamplingConfig(min_p=0.05, typical_p=0.9, seed=4),
]
SEARCHED = [
    DecodingConfig(beam_size=1),
    DecodingConfig(beam_size=3, n_best=2, length_penalty_kind="gnmt", allow_unk=False),
]
LONG = 41
"""More tokens than the networks look at: the oldest have to go."""


def both(run) -> tuple[Generator, Generator]:
    fast, slow = dragoman.load(run, device="cpu", batch_tokens=97), load_torch_model(run, device="cpu")
    assert isinstance(fast.model, CpuBackend)
    return fast, slow


def assert_alike(mine: list[list[Completion]], theirs: list[list[Completion]]) -> None:
    for some, others in zip(mine, theirs, strict=True):
        assert [one.text for one in some] == [one.text for one in others]
        assert [one.finish_reason for one in some] == [one.finish_reason for one in others]
        for one, other in zip(some, others, strict=True):
            assert one.hypothesis.tokens == other.hypothesis.tokens
            assert one.hypothesis.token_log_probs == pytest.approx(other.hypothesis.token_log_probs, abs=1e-4)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_samples_and_beams_equal_pytorch(tmp_path, model):
    fast, slow = both(finished_language_model(tmp_path / "run", {"model": model}).path)
    for settings in DRAWN:
        asked = {"max_new_tokens": LONG, "stop": ["sea"], "num_samples": 1 if settings.temperature == 0 else 2}
        assert_alike(*(one.generate_n_best(PROMPTS, settings, **asked) for one in (fast, slow)))
    for settings in SEARCHED:
        with pytest.warns(GenerationWarning, match=r"prompts\[2\]: .* shorten the prompt or lower max_new_tokens"):
            assert_alike(*(one.generate_n_best(PROMPTS, settings, max_new_tokens=11) for one in (fast, slow)))
    assert (
        "".join(fast.stream_text(PROMPTS[0], DRAWN[0], max_new_tokens=LONG))
        == slow.generate(PROMPTS[:1], DRAWN[0], max_new_tokens=LONG)[0].text
    )


@pytest.mark.parametrize("overlap", [0, 7])
@pytest.mark.parametrize("pairs", [False, True])
def test_perplexity_equals_pytorch(tmp_path, overlap, pairs):
    files = {"kind": "files", "source": "a", "target": "b"}
    data = {"kind": "pairs", "train": files, "max_source_length": 70, "max_target_length": 70}
    run = finished_language_model(tmp_path / "run", data=data if pairs else None).path
    prompts = {"prompts": TEXTS[::-1]} if pairs else {}
    mine, theirs = (one.score(TEXTS, overlap=overlap, **prompts) for one in both(run))
    for one, other in zip(mine, theirs, strict=True):
        assert one.tokens == other.tokens
        assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-4)
    fast, slow = (one.perplexity(TEXTS, overlap=overlap, **prompts) for one in both(run))
    assert math.isclose(fast.perplexity, slow.perplexity, rel_tol=1e-5)
    assert (fast.tokens, fast.bytes) == (slow.tokens, slow.bytes)


@pytest.mark.parametrize("compute", ["bfloat16", "int8", "int8_int16"])
def test_export_equals_run_in_its_compute_type(tmp_path, compute):
    run = finished_language_model(tmp_path / "run").path
    export(run, tmp_path / "model", compute_type=compute)
    loaded, exported = (
        dragoman.load(run, device="cpu", compute_type=compute),
        dragoman.load(tmp_path / "model", device="cpu"),
    )
    assert exported.model.instruction_set == loaded.model.instruction_set
    together = loaded.generate_n_best(PROMPTS, DRAWN[2], max_new_tokens=LONG, num_samples=3)
    assert exported.generate_n_best(PROMPTS, DRAWN[2], max_new_tokens=LONG, num_samples=3) == together
    for number, prompt in enumerate(PROMPTS):
        assert loaded.generate_n_best([prompt], DRAWN[2], max_new_tokens=LONG, num_samples=3, first=number) == [
            together[number]
        ]
    whole = dragoman.load(run, device="cpu").perplexity(TEXTS)
    less = exported.perplexity(TEXTS)
    assert less.nats != whole.nats
    assert less.nats_per_token == pytest.approx(whole.nats_per_token, abs=0.1)
