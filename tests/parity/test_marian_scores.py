"""Greedy outputs and scores of random models next to Marian's own."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dragoman.data.tokenizers import BOS, EOS, PAD, UNK
from dragoman.interop.imported_model import ImportedModel, ImportOptions
from dragoman.interop.marian.binary_format import read_binary
from dragoman.interop.marian.read_model import read
from dragoman.interop.marian.write_model import write
from dragoman.interop.self_check import forward, loaded_network
from tests.marian_students import PAIRS, student, write_npz

pytestmark = pytest.mark.slow

pymarian = pytest.importorskip("pymarian", reason="needs Marian: pip install pymarian (600 MB)")
TEXTS = [*(source for source, _ in PAIRS[:2]), "a dog", "the sea plays by a cat ."]
LENGTH_FACTOR = 2


def write_random_model(changed: dict[str, Any], folder: Path) -> None:
    """Write a random model in float32 whose norms and biases matter."""
    model = student({**changed, "d_model": 32, "num_heads": 4})
    generator = np.random.default_rng(1)
    weights = {
        name: (array + generator.normal(0, 0.3, array.shape) * (array.ndim == 1)).astype(np.float32)
        for name, array in model.weights.items()
    }
    write(replace(model, weights=weights), folder)


def marian_outputs(model: Path, vocabularies: Sequence[Path]) -> list[tuple[str, float]]:
    """Return the greedy output of each text and its log-probability."""
    marian = pymarian.Translator(
        models=[str(model)],
        vocabs=[str(path) for path in vocabularies],
        beam_size=1,
        normalize=0,
        cpu_threads=1,
        n_best="",
        quiet="",
        max_length_factor=LENGTH_FACTOR,
        mini_batch=1,
    )
    lines = [line.split(" ||| ") for line in marian.translate("\n".join(TEXTS)).splitlines()]
    return [(line[1], float(line[2].split()[-1])) for line in lines]


def our_outputs(model: ImportedModel) -> list[tuple[str, float]]:
    network = loaded_network(model)
    found = []
    for text in TEXTS:
        source, target, total = [*model.tokenizer.source.encode(text), EOS], [BOS], 0.0
        while len(target) <= LENGTH_FACTOR * len(source):
            logits = forward(network, model.network, source, target)[-1].astype(np.float64)
            log_probs = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
            best = int(np.where(np.isin(np.arange(len(logits)), [PAD, UNK, BOS]), -np.inf, logits).argmax())
            total += float(log_probs[best])
            if best == EOS:
                break
            target.append(best)
        found.append((model.tokenizer.target.decode(target[1:]), total))
    return found


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"activation": "silu"},
        {"norm_position": "pre", "norm_embedding": True},
        {"decoder_layer": "self_attention"},
        {"decoder_layer": "self_attention", "tie_embeddings": "target"},
        {"decoder_layer": "self_attention", "tie_embeddings": "none"},
    ],
)
@pytest.mark.parametrize("archive", [False, True])
def test_outputs_and_scores_equal_those_of_marian(tmp_path: Path, changed: dict[str, Any], archive: bool) -> None:
    write_random_model(changed, tmp_path)
    model = tmp_path / "model.float32.bin"
    if archive:
        write_npz(tmp_path / "model.npz", read_binary(model))
        (tmp_path / "decoder.yml").unlink()
        model = tmp_path / "model.npz"
    files = sorted(tmp_path.glob("*.spm"))
    found, expected = our_outputs(read(model, ImportOptions())), marian_outputs(model, [files[0], files[-1]])
    assert [text for text, _ in found] == [text for text, _ in expected]
    assert [score for _, score in found] == pytest.approx([score for _, score in expected], rel=1e-5)
