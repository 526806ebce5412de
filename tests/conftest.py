"""Fixtures for all tests."""

import os
import signal
import threading
from pathlib import Path

import jaxtyping
import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

from tests.corpora import corpora
from tests.property_settings import FULL, examples

# Tests must not depend on a GPU, which the commands they start would use.
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

# A shell that starts the tests in the background ignores Ctrl-C. Processes that tests start would ignore it, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

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


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out the checks in slow tests, where they take half of the time, except in the full tier."""
    unchecked = item.get_closest_marker("slow") is not None and not FULL
    jaxtyping.config.update("jaxtyping_disable", unchecked)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of real corpora next to the checkout, or `DRAGOMAN_DATA`; skip the test if it is absent."""
    folder = corpora()
    if not folder.is_dir():
        pytest.skip(f"no corpora at {folder}; set DRAGOMAN_DATA to their folder")
    return folder
