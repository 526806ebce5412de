"""Shards of an optimizer state: damaged headers are refused with one message."""

import json
import struct
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from dragoman.errors import RunError
from dragoman.training.config import TrainingConfig
from dragoman.training.distributed import SINGLE_WORKER
from dragoman.training.fsdp import read_shards, write_shards
from tests.tiny_training import build_run, train_small

INFO = "DCP_SHARDING_INFO"
NAME = "encoder.0.attention.query.weight/exp_avg"
Header = dict[str, Any]


def rename(header: Header) -> None:
    header["unknown/exp_avg"] = header.pop(NAME)


def rename_everywhere(header: Header) -> None:
    rename(header)
    change_info(header, lambda info: info | {"unknown/exp_avg": info.pop(NAME)})


def change_info(header: Header, change: Callable[[Header], Any]) -> None:
    info = change(json.loads(header["__metadata__"][INFO]))
    header["__metadata__"][INFO] = json.dumps(info)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a run after two steps, and the folder of its optimizer state."""
    folder, config = tmp_path_factory.mktemp("shards"), TrainingConfig(max_steps=2)
    run = build_run(folder, config)
    train_small(run, config)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # PyTorch warns where there is a single worker
        write_shards(run.model, run.optimizer, SINGLE_WORKER, folder / "optimizer")
    return run, folder / "optimizer"


@pytest.mark.parametrize(
    "change",
    [
        rename,
        rename_everywhere,
        lambda header: change_info(header, lambda info: info | {NAME: None}),
        lambda header: change_info(header, lambda info: info | {NAME: {"saved_offsets": [2**62, 0]}}),
        lambda header: change_info(header, lambda info: []),
        lambda header: header["__metadata__"].update({INFO: "{"}),
    ],
)
def test_damaged_headers_of_shards_are_refused(place, change):
    run, folder = place
    [path] = folder.iterdir()
    content = path.read_bytes()
    (size,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8 : 8 + size])
    change(header)
    new = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(new)) + new + content[8 + size :])
    try:
        with pytest.raises(
            RunError, match=r"optimizer: damaged optimizer state \(.*\)\. Delete its checkpoint"
        ) as caught:
            read_shards(folder, run.model, run.optimizer)
    finally:
        path.write_bytes(content)
    assert len(str(caught.value).splitlines()) == 1
    read_shards(folder, run.model, run.optimizer)
