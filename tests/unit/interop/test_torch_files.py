"""Checkpoints of PyTorch from strangers."""

import argparse
import os
import resource
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dragoman.errors import DataError
from dragoman.interop.torch_files import float_arrays, is_torch_file, read_torch_file

CONTENT = {"args": argparse.Namespace(layers=2, words=["a"]), "model": OrderedDict(w=torch.arange(6.0).view(2, 3))}


class Payload:
    """Object whose pickle calls a function when it is read."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


@pytest.fixture
def path(tmp_path: Path) -> Path:
    torch.save(CONTENT, tmp_path / "model.pt")
    return tmp_path / "model.pt"


def rewrite(path: Path, change: Callable[[str, bytes], bytes], *, compression: int = zipfile.ZIP_STORED) -> None:
    """Write the archive again, with the changed content of each member."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, change(name, content))


def test_tensors_and_settings_are_read(path: Path) -> None:
    tree = read_torch_file(path)
    assert vars(tree["args"]) == {"layers": 2, "words": ["a"]}
    arrays, formats = float_arrays(path, tree["model"])
    assert np.array_equal(arrays["w"], np.arange(6, dtype=np.float32).reshape(2, 3))
    assert formats == {}


def test_numbers_of_numpy_and_plain_containers_are_read(tmp_path: Path) -> None:
    content = {"best": np.float64(3.5), "steps": np.int64(7), "set": {1}, "meters": [("loss", {"sum": torch.ones(1)})]}
    torch.save(content, tmp_path / "model.pt")
    assert read_torch_file(tmp_path / "model.pt")["best"] == 3.5


def test_integers_are_left_out_and_half_precision_is_named(path: Path) -> None:
    arrays, formats = float_arrays(path, {"steps": torch.tensor(3), "half": torch.ones(2, dtype=torch.bfloat16)})
    assert list(arrays) == ["half"]
    assert formats == {"half": "bfloat16"}


@pytest.mark.parametrize(
    "payload",
    [
        Payload(os.system, "touch executed"),
        Payload(eval, "open('executed', 'w')"),
        Payload(bytearray, 10**11),
        Payload(torch.empty, 10**11),
        Payload(torch.load, "other.pt"),
        Payload(getattr, "a", "join"),
    ],
    ids=["os.system", "eval", "bytearray", "torch.empty", "torch.load", "getattr"],
)
def test_calls_in_pickles_are_refused(payload: Payload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"model": {"w": payload}}, "model.pt")
    with pytest.raises(DataError, match="holds objects of Python"):
        read_torch_file(Path("model.pt"))
    assert os.listdir(tmp_path) == ["model.pt"]  # noqa: PTH208


@pytest.mark.parametrize("protocol", [0, 1, 3, 4, 5])
def test_payloads_of_every_protocol_are_refused(protocol: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"w": Payload(os.system, "touch executed")}, "model.pt", pickle_protocol=protocol)
    with pytest.raises(DataError):
        read_torch_file(Path("model.pt"))
    assert os.listdir(tmp_path) == ["model.pt"]  # noqa: PTH208


def test_claims_of_many_numbers_are_refused(path: Path) -> None:
    """The pickle says 10 million numbers, and the archive has six."""
    many = b"J" + (10_000_000).to_bytes(4, "little")
    rewrite(path, lambda name, content: content.replace(b"K\x06t", many + b"t") if "pkl" in name else content)
    with pytest.raises(DataError, match="damaged"):
        float_arrays(path, read_torch_file(path)["model"])


def test_tensors_larger_than_their_numbers_are_refused(path: Path) -> None:
    torch.save({"w": torch.ones(1).expand(10**9)}, path)
    with pytest.raises(DataError, match="'w' is larger than its numbers"):
        float_arrays(path, read_torch_file(path))


def test_sparse_tensors_are_refused(path: Path) -> None:
    with pytest.raises(DataError, match="'w' is no tensor"):
        float_arrays(path, {"w": torch.eye(3).to_sparse()})


def test_compressed_archives_are_refused(path: Path) -> None:
    rewrite(path, lambda _, content: content + bytes(10**6), compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(DataError, match="its members are compressed"):
        read_torch_file(path)


@pytest.mark.parametrize("kept", [0, 1, 100, 500, -1, -30])
def test_files_that_are_cut_off_are_refused(path: Path, kept: int) -> None:
    path.write_bytes(path.read_bytes()[:kept])
    assert not is_torch_file(path)
    with pytest.raises(DataError, match="damaged"):
        read_torch_file(path)


def test_files_of_older_versions_are_read(path: Path) -> None:
    torch.save(CONTENT, path, _use_new_zipfile_serialization=False)
    assert is_torch_file(path)
    assert torch.equal(read_torch_file(path)["model"]["w"], CONTENT["model"]["w"])


@pytest.mark.parametrize("function", [os.system, bytearray])
def test_calls_in_files_of_older_versions_are_refused(function: Any, path: Path) -> None:
    torch.save({"w": Payload(function, 10**9)}, path, _use_new_zipfile_serialization=False)
    with pytest.raises(DataError, match="holds objects of Python"):
        read_torch_file(path)


def test_claims_of_files_of_older_versions_take_no_memory(path: Path) -> None:
    torch.save({"w": torch.ones(5)}, path, _use_new_zipfile_serialization=False)
    many = b"J" + (2_000_000_000).to_bytes(4, "little")
    content = path.read_bytes()
    assert content.count(b"K\x05N") == 1
    path.write_bytes(content.replace(b"K\x05N", many + b"N"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DataError, match="damaged"):
        float_arrays(path, read_torch_file(path))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000, "kilobytes"


def test_pickle_in_front_of_an_archive_is_read_alone(path: Path) -> None:
    """PyTorch looks at the first bytes, and an archive is found by its last ones."""
    archive = path.read_bytes()
    torch.save({"w": Payload(os.system, "true")}, path, _use_new_zipfile_serialization=False)
    path.write_bytes(path.read_bytes() + archive)
    with pytest.raises(DataError, match="holds objects of Python"):
        read_torch_file(path)


def test_links_are_refused(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link.pt").symlink_to(path)
    with pytest.raises(DataError, match="symbolic link"):
        read_torch_file(tmp_path / "link.pt")
