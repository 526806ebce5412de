"""No beam finds a translation that scores worse than that of greedy search."""

import itertools
import json

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from dragoman.cli import main
from tests.untrained_runs import PAIRS, finished_run

pytestmark = pytest.mark.filterwarnings("ignore:.*cut off at its length limit")
WORDS = sorted({word for pair in PAIRS for text in pair for word in text.split()})
TEXTS = [" ".join(words) for words in itertools.permutations(WORDS[:8], 2)]


@pytest.mark.parametrize("seed", range(3))
def test_translations_score_at_least_as_greedy_ones(seed, tmp_path, capsys):
    torch.manual_seed(seed)
    folder = finished_run(tmp_path / "run")
    sharper = {name: array * 2.5 for name, array in load_file(folder.weights).items()}
    save_file(sharper, folder.weights)
    (tmp_path / "texts").write_text("\n".join(TEXTS) + "\n")
    scores = {}
    for beam in (1, 2, 5):
        options = ["--beam-size", beam, "--format", "jsonl", "--max-length", 9, "--cut-off", "ranked"]
        arguments = ["translate", folder.path, "--input", tmp_path / "texts", *options]
        assert main.run([str(argument) for argument in arguments], debug=False) == 0
        records = map(json.loads, capsys.readouterr().out.splitlines())
        scores[beam] = np.array([record["translations"][0]["score"] for record in records])
    for beam in (2, 5):
        assert np.all(scores[beam] >= scores[1] - 1e-5)
    assert np.any(scores[5] > scores[1] + 0.1)
