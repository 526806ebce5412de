"""Fixtures that every room's tests may use."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real corpora beside the checkout, or `DRAGOMAN_DATA`; a checkout without it skips."""
    folder = Path(os.environ.get("DRAGOMAN_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no corpora at {folder}; set DRAGOMAN_DATA to their folder")
    return folder
