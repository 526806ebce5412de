"""The imported spelling-to-phoneme model of the package g2p-en gives the package's own phonemes."""

import gzip
import importlib
import re
import sys
from pathlib import Path
from unittest.mock import MagicMock, patch

import numpy as np
import pytest

from dragoman.errors import DataError
from dragoman.interop import g2p_en
from dragoman.interop.imported_model import ImportOptions
from dragoman.runs.import_model import import_model

pytestmark = [
    pytest.mark.skipif(not importlib.util.find_spec("g2p_en"), reason="the package g2p-en is not installed"),
    pytest.mark.filterwarnings("ignore:Exception ignored:pytest.PytestUnraisableExceptionWarning"),  # its open files
]
INVENTED = ["activationist", "dragoman", "zzyzx", "a", "q", "rhythm", "x" * 30, "don't"]


@pytest.fixture(scope="module")
def package():
    """The package's own model; its dictionaries and number words, which need downloads, are not used for one word."""
    with patch.dict(sys.modules, {name: MagicMock() for name in ("nltk", "nltk.corpus", "nltk.tokenize", "inflect")}):
        yield importlib.import_module("g2p_en").G2p()


@pytest.fixture(scope="module")
def checkpoint():
    return Path(importlib.util.find_spec("g2p_en").submodule_search_locations[0])


@pytest.fixture(scope="module")
def run(checkpoint, tmp_path_factory):
    folder = tmp_path_factory.mktemp("imported") / "phonemes"
    return import_model(checkpoint, folder).load()


def test_phonemes_equal_those_of_the_package(package, run):
    assert [result.text for result in run.translate(INVENTED)] == [" ".join(package.predict(one)) for one in INVENTED]


@pytest.mark.slow
def test_phonemes_of_common_words_equal_those_of_the_package(package, run, shared_data):
    with gzip.open(shared_data / "multi30k" / "tok" / "train.en.gz", "rt", encoding="utf-8") as file:
        common = dict.fromkeys(word for line in file for word in re.findall(r"(?<!\S)[a-z]+(?!\S)", line))
    asked = list(common)[:1000]
    found = [result.text for result in run.translate(asked)]
    assert found == [" ".join(package.predict(word)) for word in asked]


def test_order_of_symbols_is_that_of_the_package(package):
    assert list(g2p_en.LETTERS) == package.graphemes
    assert list(g2p_en.PHONEMES) == package.phonemes


def test_texts_are_read_as_the_package_reads_them(run):
    """Letters are lower-cased and lose their accents."""
    assert run.translate("Café") == run.translate("cafe")


def test_checkpoint_of_another_shape_is_refused(checkpoint, tmp_path):
    arrays = dict(np.load(checkpoint / "checkpoint20.npz"))
    arrays["enc_emb"] = arrays["enc_emb"][:20]
    np.savez(tmp_path / "checkpoint20.npz", **arrays)
    with pytest.raises(DataError, match="has 20 rows, and the vocabulary 29 symbols"):
        g2p_en.read(tmp_path, ImportOptions())
