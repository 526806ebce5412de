"""Files and folders are there whole or not at all."""

import errno
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dragoman.atomic import (
    file_lock,
    new_folder,
    new_text_file,
    open_or_build,
    require_writable,
    unique_names,
    write_atomically,
    write_text,
)
from dragoman.errors import DataError, RunError


def names(folder) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def fill_and_fail(folder):
    with new_folder(folder) as beside:
        (beside / "a").write_bytes(b"2")
        raise KeyError


def write_and_fail(path):
    with new_text_file(path) as file:
        file.write("half")
        raise KeyError


def test_a_file_is_replaced(tmp_path):
    write_atomically(tmp_path / "a.json", b"one")
    write_atomically(tmp_path / "a.json", "zwö")
    assert (tmp_path / "a.json").read_bytes() == "zwö".encode()
    assert names(tmp_path) == ["a.json"]


def test_a_full_disk_leaves_what_was_there_and_says_so(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    path, folder = tmp_path / "a.json", tmp_path / "store"
    write_atomically(path, b"old")
    with new_folder(folder) as beside:
        (beside / "a").write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match=r"a\.json: cannot be written \(No space left on device\); free some space"):
        write_atomically(path, b"new")
    with pytest.raises(RunError, match=r"store: cannot be written .*free some space"), new_folder(folder) as beside:
        (beside / "a").write_bytes(b"new")
    assert path.read_bytes() == (folder / "a").read_bytes() == b"old"
    assert names(tmp_path) == ["a.json", "store"]


def test_a_folder_takes_its_place_only_when_it_is_whole(tmp_path):
    folder = tmp_path / "store"
    with new_folder(folder) as beside:
        (beside / "a").write_bytes(b"1")
        assert not folder.exists()
    with pytest.raises(KeyError):
        fill_and_fail(folder)
    assert (folder / "a").read_bytes() == b"1"
    with new_folder(folder) as beside:
        (beside / "b").write_bytes(b"3")
        (beside / "inside").mkdir()
    assert names(folder) == ["b", "inside"]
    assert names(tmp_path) == ["store"]


def test_a_text_file_takes_its_place_only_when_it_is_whole(tmp_path):
    path = tmp_path / "out.de"
    with new_text_file(path) as file:
        file.write("grün\n")
        assert not path.exists()
    with pytest.raises(KeyError):
        write_and_fail(path)
    assert path.read_bytes() == "grün\n".encode()
    assert names(tmp_path) == ["out.de"]


def test_a_device_is_written_to_as_it_is():
    with new_text_file(Path(os.devnull)) as file:
        assert file.write("text") == 4


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(RunError, match=r"x: cannot be written \(.+\); check the path"):
        write_atomically(tmp_path / "file" / "x", b"1")


@pytest.mark.parametrize("place", ["file/x", "no-such-folder/x", "folder"])
def test_it_is_named_before_there_is_anything_to_write(tmp_path, place):
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    with pytest.raises(RunError, match=r"cannot be written \(.+\); check the path"):
        require_writable(tmp_path / place)


def test_asking_leaves_nothing_behind_and_what_is_there_as_it_was(tmp_path):
    (tmp_path / "old").write_bytes(b"1")
    for name in ("old", "new"):
        require_writable(tmp_path / name)
    assert names(tmp_path) == ["old"]
    assert (tmp_path / "old").read_bytes() == b"1"


def test_one_after_the_other_where_many_want_the_same(tmp_path):
    inside, most = [], []

    def work(number: int) -> None:
        with file_lock(tmp_path / "cache" / ".lock"):
            inside.append(number)
            time.sleep(0.01)
            most.append(len(inside))
            inside.remove(number)

    with ThreadPoolExecutor(5) as pool:
        list(pool.map(work, range(11)))
    assert most == [1] * 11


def test_one_makes_what_many_want(tmp_path):
    made = []

    def opened() -> str:
        try:
            return (tmp_path / "texts" / "all").read_text()
        except OSError as error:
            raise DataError("not there") from error

    def build() -> str:
        with new_folder(tmp_path / "texts") as partial:
            time.sleep(0.05)
            made.append((partial / "all").write_text("words"))
        return opened()

    with ThreadPoolExecutor(5) as pool:
        found = list(pool.map(lambda _: open_or_build(tmp_path / "texts", opened, build), range(11)))
    assert found == ["words"] * 11
    assert len(made) == 1


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["runs/one", "runs/two"], ["one", "two"]),
        (["runs/en-de", "models/en-de"], ["runs/en-de", "models/en-de"]),
        (["a/x/run", "b/x/run", "run"], ["a/x/run", "b/x/run", "run"]),
        (["run", "run"], ["run 1", "run 2"]),
    ],
)
def test_paths_are_named_by_what_tells_them_apart(paths, expected):
    assert unique_names([Path(path) for path in paths]) == expected


def test_what_is_asked_for_is_written_through_links_and_into_pipes(tmp_path):
    (tmp_path / "file").write_text("before", encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        require_writable(tmp_path / name)
    write_text(tmp_path / "link", "after")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text(encoding="utf-8") == "after"
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit((tmp_path / "pipe").read_text, encoding="utf-8")
        write_text(tmp_path / "pipe", "through")
        assert read.result(timeout=60) == "through"
    assert (tmp_path / "pipe").is_fifo()
