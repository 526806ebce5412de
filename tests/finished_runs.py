"""Runs that look finished without having been trained: a random network in a folder."""

from pathlib import Path
from typing import Any

import torch

from dragoman.config import merge
from dragoman.data.tokenizer import Tokenizer, Words
from dragoman.experiment.build import task_of
from dragoman.experiment.config import to_experiment
from dragoman.experiment.run import RunFolder
from dragoman.models.weights import save_tensors, weights

PAIRS = [("two dogs play .", "zwei Hunde spielen ."), ("a cat sits by the sea", "eine Katze sitzt am Meer")]
MODEL = {"size": 12, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "feed_forward": 17}


def finished_run(path: Path, changed: dict[str, Any] | None = None) -> RunFolder:
    """A run of translation whose vocabulary is the words of `PAIRS`; the configuration is laid over a small one."""
    corpus = {"kind": "files", "source": "/home/somebody/train.en", "target": "/home/somebody/train.de"}
    tree = {"tokenizer": {"kind": "words"}, "model": MODEL, "data": {"train": corpus}}
    experiment = to_experiment(merge(tree, changed or {}))
    folder = RunFolder(path)
    folder.begin()
    folder.write_config(experiment)
    Tokenizer.train(lambda: PAIRS, Words()).save(folder.tokenizer)
    network = task_of(experiment).network(folder, device=torch.device("cpu"))
    save_tensors(folder.weights, weights(network))
    folder.card.write_text("# run\n\nA translation model.\n", encoding="utf-8")
    return folder
