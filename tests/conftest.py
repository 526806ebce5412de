"""Fixtures for all tests."""

import os
from pathlib import Path

import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

from tests.corpora import corpora

# Tests are about what every machine gives, and the commands that they start choose a GPU where they see one.
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

# CI draws the same examples every time, so that a change fails for what it did; elsewhere every run looks further. How
# long an example takes says nothing on a machine that does other work too.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("elsewhere", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "elsewhere")

TENSOR_PACKAGES = ["nn", "models", "training", "decoding", "inference", "interpret"]
# jaxtyping decorates methods one by one, where beartype cannot tell which class `Self` is; any object passes there.
CHECKER = (
    "beartype.beartype(conf=beartype.BeartypeConf(hint_overrides=beartype.FrozenDict({beartype.typing.Self: object})))"
)
# Every annotation of a shape or type is checked whenever a test calls through it. The modules of the tests are imported
# after this one, and with them the rooms.
install_import_hook([f"dragoman.{package}" for package in TENSOR_PACKAGES], CHECKER)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of real corpora next to the checkout, or `DRAGOMAN_DATA`; skip the test if it is absent."""
    folder = corpora()
    if not folder.is_dir():
        pytest.skip(f"no corpora at {folder}; set DRAGOMAN_DATA to their folder")
    return folder
