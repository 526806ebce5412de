"""A translation does not depend on its batch, in each compute type and instruction set, from files, API and engine."""

import os
import random
import shutil
import warnings
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file

pytest.importorskip("dragoman_cpu", reason="the CPU library is not installed")

from dragoman.cpu_library import INSTRUCTION_SET
from dragoman.data.readers.line_reader import read_lines
from dragoman.decoding import DecodingConfig
from dragoman.errors import ConfigError
from dragoman.inference import TranslationWarning
from dragoman.inference.backends.cpu_backend import THREADS, instruction_sets
from dragoman.runs.load import load
from tests import batch_invariance
from tests.corpora import corpora

pytestmark = pytest.mark.slow

STORED = Path(__file__).parents[1] / "golden" / "run-1"
SHORT = DecodingConfig(beam_size=5, max_length_ratio=0.5)
WAYS = 6


@pytest.fixture(autouse=True)
def silently():
    """Ignore the warning about the length limit, which is irrelevant here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TranslationWarning)
        yield


@pytest.fixture
def sharp(tmp_path) -> Path:
    """Return the stored run with weights scaled by 1.5, so that log-probabilities of candidates lie closer together."""
    run = Path(shutil.copytree(STORED, tmp_path / "run"))
    arrays = {
        name: array * 1.5 if array.ndim == 2 else array for name, array in load_file(run / "model.safetensors").items()
    }
    save_file(arrays, run / "model.safetensors")
    return run


def made_up(count: int) -> list[str]:
    generator = random.Random(3)
    words = ["two", "dogs", "the", "cat", "a", "man", "small", "sees", "sleeps", "in", "plays", "with", "zebra"]
    return [" ".join(generator.choices(words, k=generator.randint(0, 17))) for _ in range(count)]


def real(count: int) -> list[str]:
    """Return sentences of the corpora next to the checkout, if present."""
    path = corpora() / "multi30k" / "test_2016_flickr.en.gz"
    return [text for _, text in read_lines(path)][:: 1000 // count] if path.exists() else []


@pytest.mark.timeout(900)  # 100 seconds of processor time
def test_translations_do_not_depend_on_the_batch(sharp):
    results = list(batch_invariance.compare_everywhere(sharp, [*made_up(43), *real(25)], SHORT))
    assert [(one["compute_type"], one["instruction_set"]) for one in results] == [
        (compute_type, name) for compute_type in ("float32", "int8") for name in instruction_sets()
    ]
    for result in results:
        assert len(result["different"]) == WAYS
        assert set(result["different"].values()) == {0}, result


def test_bfloat16_translations_do_not_depend_on_the_batch(sharp):
    """With the best instruction set only: a comparison takes seconds, and the kernels have tests of their own."""
    different = batch_invariance.count_differences(sharp, made_up(29), SHORT, compute_type="bfloat16")
    assert len(different) == WAYS
    assert set(different.values()) == {0}, different


def test_batch_dependence_is_detected(sharp, monkeypatch):
    """A model that reads the rest of the batch fails the comparison in every way of batching."""
    translator = load(sharp, device="cpu")
    whole = translator.backend.top_k

    def swayed(tokens, memory, state, **options):
        log_probs, ids, after = whole(tokens, memory, state, **options)
        return log_probs * (1 + 1e-6 * (len(tokens) - 1)), ids, after

    texts = [text for text in made_up(31) if text]
    alone = batch_invariance.in_batches(translator, texts, SHORT, size=1)
    assert batch_invariance.in_batches(translator, texts, SHORT, size=7) == alone
    monkeypatch.setattr(translator.backend, "top_k", swayed)
    assert batch_invariance.in_batches(translator, texts, SHORT, size=1) == alone
    for found in (
        batch_invariance.in_batches(translator, texts, SHORT, size=7),
        batch_invariance.in_random_order(translator, texts, SHORT),
        batch_invariance.in_engine(translator, texts, SHORT),
    ):
        assert sum(one != other for one, other in zip(alone, found, strict=True)) > len(texts) // 2


def test_instruction_set_comes_from_the_environment(sharp, monkeypatch):
    for name in instruction_sets():
        monkeypatch.setenv(INSTRUCTION_SET, name)
        assert load(sharp, device="cpu").backend.instruction_set == name
    monkeypatch.setenv(INSTRUCTION_SET, "sse9")
    with pytest.raises(ConfigError, match=rf"{INSTRUCTION_SET} = sse9 .* choose one of .*portable, or unset it"):
        load(sharp, device="cpu")


def test_thread_count_comes_from_the_environment(sharp, monkeypatch):
    for threads in (1, 3):
        monkeypatch.setenv(THREADS, str(threads))
        assert load(sharp, device="cpu").backend.threads == threads
    for wrong in ("0", "many", "-1", str(4 * (os.cpu_count() or 1) + 1), "1.5", "9" * 5000):
        monkeypatch.setenv(THREADS, wrong)
        with pytest.raises(ConfigError, match=f"{THREADS} = {wrong} is not a number of threads from 1 to"):
            load(sharp, device="cpu")
