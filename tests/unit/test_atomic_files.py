"""Atomic writes of files and folders."""

import errno
import fcntl
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dragoman.atomic_files import (
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
    with new_folder(folder) as partial:
        (partial / "a").write_bytes(b"2")
        raise KeyError


def write_and_fail(path):
    with new_text_file(path) as file:
        file.write("half")
        raise KeyError


def test_file_is_replaced(tmp_path):
    write_atomically(tmp_path / "a.json", b"one")
    write_atomically(tmp_path / "a.json", "zwö")
    assert (tmp_path / "a.json").read_bytes() == "zwö".encode()
    assert names(tmp_path) == ["a.json"]


def test_full_disk_keeps_the_old_file(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    path, folder = tmp_path / "a.json", tmp_path / "store"
    write_atomically(path, b"old")
    with new_folder(folder) as partial:
        (partial / "a").write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match=r"a\.json: cannot be written \(No space left on device\); free some space"):
        write_atomically(path, b"new")
    with pytest.raises(RunError, match=r"store: cannot be written .*free some space"), new_folder(folder) as partial:
        (partial / "a").write_bytes(b"new")
    assert path.read_bytes() == (folder / "a").read_bytes() == b"old"
    assert names(tmp_path) == ["a.json", "store"]


def test_folder_appears_when_complete(tmp_path):
    folder = tmp_path / "store"
    with new_folder(folder) as partial:
        (partial / "a").write_bytes(b"1")
        assert not folder.exists()
    with pytest.raises(KeyError):
        fill_and_fail(folder)
    assert (folder / "a").read_bytes() == b"1"
    with new_folder(folder) as partial:
        (partial / "b").write_bytes(b"3")
        (partial / "inside").mkdir()
    assert names(folder) == ["b", "inside"]
    assert names(tmp_path) == ["store"]


def test_text_file_appears_when_complete(tmp_path):
    path = tmp_path / "out.de"
    with new_text_file(path) as file:
        file.write("grün\n")
        assert not path.exists()
    with pytest.raises(KeyError):
        write_and_fail(path)
    assert path.read_bytes() == "grün\n".encode()
    assert names(tmp_path) == ["out.de"]


def test_files_of_killed_processes_are_removed(tmp_path):
    """Those of living processes, of other names, links and pipes stay."""
    (tmp_path / ".out.de.99.tmp").write_text("half")
    (tmp_path / ".store.99.tmp").mkdir()
    (tmp_path / ".store.99.tmp" / "a").write_text("half")
    kept = [".other.99.tmp", ".out.de.97.tmp", ".out.de.98.tmp", ".out.de.x.tmp", ".out.de.96.tmp"]
    (tmp_path / "elsewhere").write_text("text")
    for name in kept[:2] + kept[3:4]:
        (tmp_path / name).write_text("")
    (tmp_path / kept[2]).symlink_to(tmp_path / "elsewhere")
    (tmp_path / kept[4]).mkdir()
    with (tmp_path / kept[1]).open() as living, new_text_file(tmp_path / kept[3]):
        descriptor = os.open(tmp_path / kept[4], os.O_RDONLY)
        for one in (living.fileno(), descriptor):
            fcntl.flock(one, fcntl.LOCK_EX)
        write_text(tmp_path / "out.de", "whole")
        with new_folder(tmp_path / "store"):
            pass
        os.close(descriptor)
    assert names(tmp_path) == sorted([*kept, "elsewhere", "out.de", "store"])
    assert (tmp_path / "elsewhere").read_text() == "text"


def test_writers_of_one_name_keep_their_files(tmp_path, monkeypatch):
    with new_text_file(tmp_path / "out") as one:
        one.write("one")
        monkeypatch.setattr(os, "getpid", lambda: 99)
        with new_folder(tmp_path / "store"), new_text_file(tmp_path / "out") as other:
            other.write("other")
        assert (tmp_path / "out").read_text() == "other"
    assert (tmp_path / "out").read_text() == "one"
    assert names(tmp_path) == ["out", "store"]


def test_device_is_written_directly():
    with new_text_file(Path(os.devnull)) as file:
        assert file.write("text") == 4


def test_unwritable_path_is_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(RunError, match=r"x: cannot be written \(.+\); check the path"):
        write_atomically(tmp_path / "file" / "x", b"1")


@pytest.mark.parametrize("place", ["file/x", "no-such-folder/x", "folder"])
def test_unwritable_path_is_refused_before_the_work(tmp_path, place):
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    with pytest.raises(RunError, match=r"cannot be written \(.+\); check the path"):
        require_writable(tmp_path / place)


def test_writability_check_leaves_no_trace(tmp_path):
    (tmp_path / "old").write_bytes(b"1")
    for name in ("old", "new"):
        require_writable(tmp_path / name)
    assert names(tmp_path) == ["old"]
    assert (tmp_path / "old").read_bytes() == b"1"


def test_file_lock_excludes_others(tmp_path):
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


def test_one_process_builds_for_all(tmp_path):
    made = []

    def opened(folder: Path) -> str:
        try:
            return (folder / "all").read_text()
        except OSError as error:
            raise DataError("not there") from error

    def build(folder: Path) -> str:
        with new_folder(folder) as partial:
            time.sleep(0.05)
            made.append((partial / "all").write_text("words"))
        return opened(folder)

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
def test_unique_names_distinguish_paths(paths, expected):
    assert unique_names([Path(path) for path in paths]) == expected


def test_text_is_written_through_links_and_pipes(tmp_path):
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
