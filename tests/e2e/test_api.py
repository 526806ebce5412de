"""The Python API, from a text file to translations, scores and generated text."""

import asyncio
import importlib.metadata
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import dragoman
from dragoman import cpu_library
from dragoman.errors import ConfigError
from tests.small_runs import SMALLEST, write_corpus

SMALL: Mapping[str, Any] = SMALLEST | {"training.max_steps": 5}
SENTENCES = ["two dogs play .", "a man sleeps and the cats see the small house ."]
COMPUTE_TYPES = ["float32", *(["int8"] if cpu_library.is_installed() and cpu_library.unusable_reason() is None else [])]

pytestmark = pytest.mark.filterwarnings("ignore::dragoman.inference.TranslationWarning")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A translator trained for a few steps."""
    folder = tmp_path_factory.mktemp("api")
    source, target = write_corpus(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRAGOMAN_CACHE", str(folder / "cache"))
        yield dragoman.train(source=source, target=target, output_dir=folder / "run", preset="tiny", overrides=SMALL)


@pytest.fixture(scope="module", params=COMPUTE_TYPES)
def translator(run: Any, request: pytest.FixtureRequest) -> dragoman.Translator:
    return dragoman.load(run.path, dragoman.Translator, device="cpu", compute_type=request.param)


def test_public_names():
    assert {"Translator", "TranslationResult", "DragomanError", "evaluate", "load", "train"} < set(dragoman.__all__)
    assert dir(dragoman) == dragoman.__all__ == sorted(dragoman.__all__)
    for name in dragoman.__all__ * 2:  # the second access finds the modules that the first one imported
        assert name == "__version__" or callable(getattr(dragoman, name))
    assert dragoman.__version__ == importlib.metadata.version("dragoman")


def test_unknown_name_raises_attribute_error():
    with pytest.raises(AttributeError, match="lode"):
        dragoman.lode  # noqa: B018  # the access is what is tested


def test_import_loads_no_large_library():
    program = "import sys, dragoman; print(sorted({'torch', 'numpy', 'tokenizers', 'pydantic'} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"


def test_train_returns_the_finished_run(run):
    assert run.steps == 5
    assert (run.path / "model.safetensors").exists()
    assert isinstance(run.load(), dragoman.Translator)
    assert isinstance(run.load(dragoman.Translator), dragoman.Translator)


def test_translate_one_text_or_a_list(translator):
    results = translator.translate(SENTENCES, beam_size=5, n_best=3, length_penalty=1.0)
    assert [len(result.n_best) for result in results] == [3, 3]
    best = results[0]
    assert best.text == best.n_best[0].text
    assert best.score == best.n_best[0].score >= best.n_best[1].score
    assert all(isinstance(token, str) for token in best.n_best[1].tokens)
    one = translator.translate(SENTENCES[0], beam_size=5, n_best=3, length_penalty=1.0)
    assert one == results[0]


def test_results_print_readably(translator):
    [result] = translator.translate(SENTENCES[:1], n_best=2)
    assert str(result) == result.text
    assert repr(result) == f"TranslationResult(text={result.text!r}, score={result.score:.4f}, n_best=2)"
    assert repr(result.n_best[1]).startswith("Translation(text=")


def test_stream_and_async_equal_translate(translator):
    expected = translator.translate(SENTENCES, beam_size=2)
    assert list(translator.translate_stream(iter(SENTENCES), beam_size=2)) == expected

    async def translate_concurrently() -> list[Any]:
        return await asyncio.gather(*(translator.translate_async(text, beam_size=2) for text in SENTENCES))

    assert asyncio.run(translate_concurrently()) == expected


def test_score_equals_the_score_of_translate(translator):
    results = translator.translate(SENTENCES)
    scored = translator.score(SENTENCES, [result.text for result in results])
    for result, one in zip(results, scored, strict=True):
        if result.n_best[0].hypothesis.finished and len(one.tokens) == len(result.n_best[0].hypothesis.tokens):
            assert one.score == pytest.approx(result.score, abs=1e-4)


def test_evaluate_scores_a_run(run, tmp_path):
    source, target = write_corpus(tmp_path, pairs=17, name="test")
    bleu, chrf = dragoman.evaluate(run.path, source=source, reference=target, metrics=["bleu", "chrf"], beam_size=2)
    assert (bleu.metric, chrf.metric) == ("BLEU", "chrF2")
    assert 0 <= bleu.value <= 100
    with pytest.raises(ConfigError, match="blue"):
        dragoman.evaluate(run.path, source=source, reference=target, metrics=["blue"])


def test_language_model_generates_text(tmp_path, monkeypatch):
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    source, _ = write_corpus(tmp_path)
    small = {"model.d_model": 16, "model.num_heads": 2, "model.num_layers": 1, "model.d_ff": 32}
    overrides = small | {"training.max_steps": 3, "training.batch_tokens": 331}
    run = dragoman.train(text=source, output_dir=tmp_path / "run", preset="gpt-nano", overrides=overrides)
    generator = run.load(dragoman.Generator, device="cpu")
    prompts = ["two dogs", "a man"]
    completions = generator.generate(prompts, max_new_tokens=16, temperature=0.8, top_p=0.95)
    assert [len(one.tokens) <= 16 for one in completions] == [True, True]
    assert str(completions[0]) == completions[0].text
    assert repr(completions[0]).startswith("Completion(text=")
    assert completions == generator.generate(prompts, max_new_tokens=16, temperature=0.8, top_p=0.95)


def test_missing_source_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="No training data"):
        dragoman.train(output_dir=tmp_path / "run")
