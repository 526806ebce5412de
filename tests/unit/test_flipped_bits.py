"""Flipped bits in weights, checkpoints, stores and records of runs are noticed or harmless, never silent."""

import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from dragoman.data.datasets.parallel import TokenStore
from dragoman.data.shortlist import Shortlist
from dragoman.errors import DragomanError
from dragoman.evaluation import Score
from dragoman.models.weight_quantization import ComputeType, load_arrays, quantize_weights, save_arrays
from dragoman.models.weight_storage import check_tensors, get_weights, parameter_shapes, save_tensors
from dragoman.runs.export import export
from dragoman.runs.folder import RunFolder
from dragoman.runs.model_card import TrainingResult, write_environment, write_scores
from dragoman.training.config import TrainingConfig
from dragoman.training.optimizers import check_optimizer_tensors
from tests.property_settings import FAST
from tests.tiny_training import PAIRS, VOCABULARY, build_run, train_small
from tests.untrained_runs import finished_run

PLACES = 40 if FAST else 200
Content = dict[str, Any]


def weights(folder: Path, compute_type: ComputeType) -> Callable[[], Content]:
    model = build_run(folder.with_name("run"), TrainingConfig(max_steps=1)).model
    path = folder / "model.safetensors"
    save_tensors(path, get_weights(model))
    save_arrays(path, quantize_weights(load_arrays(path), compute_type))
    return lambda: {name: one.tobytes() for name, one in load_arrays(path, parameter_shapes(model)).items()}


def checkpoint(folder: Path) -> Callable[[], Content]:
    """Return a function that reads the only checkpoint as a resumed training does."""
    config = TrainingConfig(max_steps=2, ema_decay=0.9)
    run = build_run(folder.with_name("run"), config)
    train_small(run, config)
    (run.checkpoints.folder / "000000002").rename(folder / "000000002")
    run.checkpoints.folder = folder

    def check(found):
        for tensors in (found.model, found.ema):
            check_tensors(run.model, tensors, where="checkpoint")
        check_optimizer_tensors(run.optimizer, run.model, found.optimizer)

    def read() -> Content:
        found = run.checkpoints.load_latest(check)
        parts = {"model": found.model, "optimizer": found.optimizer, "ema": found.ema or {}}
        tensors = {
            f"{part}/{name}": one.numpy().tobytes() for part, some in parts.items() for name, one in some.items()
        }
        return tensors | {"progress": found.progress}

    return read


def store(folder: Path) -> Callable[[], Content]:
    TokenStore.build(folder / "tokens", PAIRS, vocab_size=VOCABULARY)

    def read() -> Content:
        found = TokenStore.open_verified(folder / "tokens")
        rows = [[side.row(row).tolist() for row in range(len(found))] for side in (found.source, found.target)]
        return {"rows": rows, "origins": found.origins.tolist(), "fingerprint": found.fingerprint}

    return read


def shortlist(folder: Path) -> Callable[[], Content]:
    path = folder / "shortlist.safetensors"
    always, values, lengths = np.arange(5), np.arange(60) % 17, np.full(20, 3)
    Shortlist(*(array.astype(np.int32) for array in (always, values, lengths))).save(path)
    return lambda: {name: one.tobytes() for name, one in vars(Shortlist.load(path)).items() if one is not None}


def records(folder: Path) -> Callable[[], Content]:
    """Return a function that reads scores, environment and origin of a run."""
    run, copy = finished_run(folder.with_name("run")), RunFolder(folder)
    score = Score("bleu", 31.25, "nrefs:1", "", higher_is_better=True)
    write_scores(run, TrainingResult(run.path, "best", {"valid": [score]}, seconds=9.5, steps=70, tokens=900))
    facts: Any = SimpleNamespace(tokenizer=run.read_tokenizer(), fingerprints={"train.en": "1a", "train.de": "2b"})
    write_environment(run, facts, seed=7, device=torch.device("cpu"), num_workers=1)
    export(run.path, folder.with_name("export"), compute_type="int8")
    for path in (run.scores, run.environment, folder.with_name("export") / "export.json"):
        path.rename(folder / path.name)
    return lambda: {"scores": copy.read_scores(), "facts": copy.read_environment(), "origin": copy.read_export()}


SUBJECTS: dict[str, Callable[[Path], Callable[[], Content]]] = {
    "float32": lambda folder: weights(folder, "float32"),
    "bfloat16": lambda folder: weights(folder, "bfloat16"),
    "int8": lambda folder: weights(folder, "int8"),
    "checkpoint": checkpoint,
    "store": store,
    "shortlist": shortlist,
    "records": records,
}


@pytest.mark.parametrize("subject", SUBJECTS)
def test_flipped_bits_are_noticed_or_harmless(tmp_path, subject):
    folder, draw = tmp_path / "files", random.Random(7)
    folder.mkdir()
    read = SUBJECTS[subject](folder)
    expected, files = read(), [path for path in sorted(folder.rglob("*")) if path.is_file()]
    noticed = 0
    for _ in range(PLACES):
        path = draw.choice(files)
        content = path.read_bytes()
        start = 0 if draw.random() < 0.5 else max(0, len(content) - 2000)  # headers are longer than tiny tensors
        place = draw.randrange(start, min(start + 2000, len(content)))
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << draw.randrange(8)]) + content[place + 1 :])
        try:
            assert read() == expected, f"bit of byte {place} of {path.name} is flipped, and nothing notices it"
        except DragomanError:
            noticed += 1
        path.write_bytes(content)
    assert noticed > PLACES / 2
    assert read() == expected
