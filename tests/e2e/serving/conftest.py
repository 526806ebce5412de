"""A server with small models of random weights, for all tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.running_server import RunningServer, running_server
from tests.untrained_runs import finished_encoder, finished_language_model, finished_run

ENCODERS = {"mood": "classification", "words": "tagging", "reader": "question_answering", "vectors": "masked_lm"}
"""Names and tasks of the encoder-only models."""


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of runs: translators en-de and de-fr, a language model, and one model of each other task."""
    folder = tmp_path_factory.mktemp("models")
    finished_run(folder / "en-de")
    finished_run(folder / "de-fr")
    finished_language_model(folder / "story")
    for name, task in ENCODERS.items():
        finished_encoder(folder / name, task)
    return folder


@pytest.fixture(scope="session")
def server(models: Path) -> Iterator[RunningServer]:
    with running_server(models, "en-de=en-de", "de-fr=de-fr", "story", *ENCODERS) as running:
        yield running
