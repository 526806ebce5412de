"""What the compiled core writes beside what PyTorch writes, from the same folder; needs `dragoman-cpu`."""

import math

import pytest

import dragoman
from dragoman.decoding import Gnmt, SamplingSettings, SearchSettings
from dragoman.inference import Completion, GenerationWarning, Generator
from dragoman.inference.backends.cpu_decoder_only import CompiledPredicting
from dragoman.runs.export import export
from dragoman.runs.load import load_in_pytorch
from tests.finished_runs import PAIRS, finished_writer

pytest.importorskip("dragoman_cpu", reason="the compiled core is not installed")

PROMPTS = ["two dogs", "", "a cat sits by the sea and the dogs play", "s"]
TEXTS = [text for pair in PAIRS for text in pair] + ["two cats sit by the sea and the dog plays by the other sea"]
MODELS = {
    "as in the paper": {"norm_position": "post", "positions": {"kind": "sinusoidal"}},
    "as nowadays": {"norm": "rms", "gated": True, "activation": "silu", "positions": {"kind": "rotary"}, "bias": False},
    "learned places": {"positions": {"kind": "learned", "length": 23}, "key_value_heads": 1, "tie": False},
    "biases of distances": {"positions": {"kind": "alibi"}},
}
DRAWN = [
    SamplingSettings(seed=3),
    SamplingSettings(temperature=0),
    SamplingSettings(temperature=1.7, top_k=5, repetition_penalty=1.3, seed=1),
    SamplingSettings(top_p=0.8, no_repeat_ngram=2, minimum_length=9, seed=2),
    SamplingSettings(min_p=0.05, typical=0.9, seed=4),
]
SEARCHED = [SearchSettings(beam=1), SearchSettings(beam=3, best=2, normalisation=Gnmt(), allow_unknown=False)]
LONG = 41
"""More tokens than the networks look at: the oldest have to go."""


def both(run) -> tuple[Generator, Generator]:
    fast, slow = dragoman.load(run, device="cpu", batch_tokens=97), load_in_pytorch(run, device="cpu")
    assert isinstance(fast.model, CompiledPredicting)
    return fast, slow


def assert_alike(mine: list[list[Completion]], theirs: list[list[Completion]]) -> None:
    for some, others in zip(mine, theirs, strict=True):
        assert [one.text for one in some] == [one.text for one in others]
        assert [one.ending for one in some] == [one.ending for one in others]
        for one, other in zip(some, others, strict=True):
            assert one.hypothesis.tokens == other.hypothesis.tokens
            assert one.hypothesis.token_log_probs == pytest.approx(other.hypothesis.token_log_probs, abs=1e-4)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_the_same_is_drawn_and_found_with_the_same_scores(tmp_path, model):
    fast, slow = both(finished_writer(tmp_path / "run", {"model": model}).path)
    for settings in DRAWN:
        asked = {"tokens": LONG, "stop": ["sea"], "samples": 1 if settings.temperature == 0 else 2}
        assert_alike(*(one.completions(PROMPTS, settings, **asked) for one in (fast, slow)))
    for settings in SEARCHED:
        with pytest.warns(GenerationWarning, match=r"prompt 3: .* shorten the prompt or ask for fewer tokens"):
            assert_alike(*(one.completions(PROMPTS, settings, tokens=11) for one in (fast, slow)))
    assert (
        "".join(fast.stream(PROMPTS[0], DRAWN[0], tokens=LONG))
        == slow.generate(PROMPTS[:1], DRAWN[0], tokens=LONG)[0].text
    )


@pytest.mark.parametrize("overlap", [0, 7])
@pytest.mark.parametrize("pairs", [False, True])
def test_texts_cost_the_same(tmp_path, overlap, pairs):
    files = {"kind": "files", "source": "a", "target": "b"}
    data = {"kind": "pairs", "train": files, "longest_source": 70, "longest_target": 70}
    run = finished_writer(tmp_path / "run", data=data if pairs else None).path
    prompts = {"prompts": TEXTS[::-1]} if pairs else {}
    mine, theirs = (one.score(TEXTS, overlap=overlap, **prompts) for one in both(run))
    for one, other in zip(mine, theirs, strict=True):
        assert one.tokens == other.tokens
        assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-4)
    fast, slow = (one.perplexity(TEXTS, overlap=overlap, **prompts) for one in both(run))
    assert math.isclose(fast.perplexity, slow.perplexity, rel_tol=1e-5)
    assert (fast.tokens, fast.bytes) == (slow.tokens, slow.bytes)


@pytest.mark.parametrize("compute", ["bfloat16", "int8"])
def test_an_exported_model_is_the_run_in_that_precision_and_nobody_depends_on_company(tmp_path, compute):
    run = finished_writer(tmp_path / "run").path
    export(run, tmp_path / "model", compute=compute)
    loaded, exported = (
        dragoman.load(run, device="cpu", compute=compute),
        dragoman.load(tmp_path / "model", device="cpu"),
    )
    assert exported.model.core.instruction_set == loaded.model.core.instruction_set
    together = loaded.completions(PROMPTS, DRAWN[2], tokens=LONG, samples=3)
    assert exported.completions(PROMPTS, DRAWN[2], tokens=LONG, samples=3) == together
    for number, prompt in enumerate(PROMPTS):
        assert loaded.completions([prompt], DRAWN[2], tokens=LONG, samples=3, first=number) == [together[number]]
    whole = dragoman.load(run, device="cpu").perplexity(TEXTS)
    less = exported.perplexity(TEXTS)
    assert less.nats != whole.nats
    assert less.nats_per_token == pytest.approx(whole.nats_per_token, abs=0.1)
