"""One model of two directions learns from the tag of the target language what to write."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dragoman
from dragoman.data.tokenizers import DirectionWarning
from dragoman.errors import ConfigError
from dragoman.inference import Translator

pytestmark = pytest.mark.slow

NUMBERS = {
    "en": ["one", "two", "three", "four", "five", "six"],
    "de": ["eins", "zwei", "drei", "vier", "fünf", "sechs"],
    "fr": ["un", "deux", "trois", "quatre", "cinq", "six"],
}


def write(folder: Path, target: str, *, seed: int, count: int) -> dict[str, Any]:
    """Write random English numbers with their translations."""
    generator = np.random.default_rng(seed)
    rows = [generator.integers(0, 6, size=generator.integers(1, 5)) for _ in range(count)]
    paths = [folder / f"{seed}.{code}" for code in ("en", target)]
    for path, code in zip(paths, ("en", target), strict=True):
        lines = (" ".join(NUMBERS[code][number] for number in row) + "\n" for row in rows)
        path.write_text("".join(lines), encoding="utf-8")
    languages = {"source_language": "en", "target_language": target}
    return {"kind": "files", "source": str(paths[0]), "target": str(paths[1]), **languages}


def test_model_of_two_directions_writes_the_language_of_the_tag(tmp_path: Path) -> None:
    german, french = (write(tmp_path, code, seed=seed, count=300) for seed, code in ((1, "de"), (2, "fr")))
    data = {"train": german, "extra_corpora": [{"corpus": french}], "cleaning": {"remove_leaks": False}}
    data |= {"valid": write(tmp_path, "fr", seed=3, count=30), "test": write(tmp_path, "de", seed=4, count=30)}
    dropout = {"embedding": 0.0, "residual": 0.0}
    stack = {"d_model": 32, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1, "d_ff": 64, "dropout": dropout}
    training = {"max_steps": 250, "validate_every": 250, "batch_tokens": 500, "label_smoothing": 0.0, "seed": 1}
    training |= {"optimizer": {"kind": "adam", "learning_rate": 0.005}, "schedule": {"kind": "constant", "warmup": 20}}
    config = {"data": data, "tokenizer": {"kind": "words"}, "model": stack, "training": training}
    dragoman.train(config, output_dir=tmp_path / "run", device="cpu")
    translator = dragoman.load(tmp_path / "run", Translator)
    text = "two three one"
    assert translator.translate(text, target_language="de").text == "zwei drei eins"
    assert translator.translate(text, source_language="en", target_language="fr").text == "deux trois un"
    with pytest.raises(ConfigError, match=r"target_language is missing. Give one of en, de, fr"):
        translator.translate(text)
    with pytest.raises(ConfigError, match=r"target_language: en has no tag. Choose one of de, fr"):
        translator.translate(text, target_language="en")
    with pytest.warns(DirectionWarning, match="de to fr was not trained; the model knows en to de, en to fr"):
        translator.translate(text, source_language="de", target_language="fr")
