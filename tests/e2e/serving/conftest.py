"""A server with small models of random weights, for all tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.running_server import RunningServer, running_server
from tests.untrained_runs import finished_language_model, finished_run


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of runs: translators en-de and de-fr, and a language model."""
    folder = tmp_path_factory.mktemp("models")
    finished_run(folder / "en-de")
    finished_run(folder / "de-fr")
    finished_language_model(folder / "story")
    return folder


@pytest.fixture(scope="session")
def server(models: Path) -> Iterator[RunningServer]:
    with running_server(models, "en-de=en-de", "de-fr=de-fr", "story") as running:
        yield running
