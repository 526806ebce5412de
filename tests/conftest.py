"""Fixtures for all tests."""

import os
from pathlib import Path

import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

from tests.corpora import corpora
from tests.property_settings import examples

# Tests must not depend on a GPU, which the commands they start would use.
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

# CI draws the same examples every time, so that failures come from changes; other runs draw new examples.
# Deadlines fail on busy machines.
settings.register_profile("dragoman", examples(100), deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("dragoman")

TENSOR_PACKAGES = ["nn", "models", "training", "decoding", "inference", "interpret", "interop"]
# jaxtyping decorates single methods, for which beartype cannot resolve `Self`; any object is accepted.
CHECKER = (
    "beartype.beartype(conf=beartype.BeartypeConf(hint_overrides=beartype.FrozenDict({beartype.typing.Self: object})))"
)
# Tests check every annotated shape and type. Test modules, and with them the packages, are imported after this module.
install_import_hook([f"dragoman.{package}" for package in TENSOR_PACKAGES], CHECKER)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of real corpora next to the checkout, or `DRAGOMAN_DATA`; skip the test if it is absent."""
    folder = corpora()
    if not folder.is_dir():
        pytest.skip(f"no corpora at {folder}; set DRAGOMAN_DATA to their folder")
    return folder
