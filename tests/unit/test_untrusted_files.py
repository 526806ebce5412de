"""Reading of files that someone else may have written."""

import json
import os
import time
from threading import Timer

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DataError, RunError, shorten
from dragoman.untrusted_files import FileKind, parse_json

SMALL = FileKind(1000, "copy it again", RunError)


@pytest.fixture
def outside(tmp_path):
    path = tmp_path / "outside.json"
    path.write_text("{}", encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "folder"
    (path / "inner").mkdir(parents=True)
    return path


def test_members_of_a_folder_are_read(folder):
    (folder / "inner" / "a.json").write_bytes(b'{"a": [1, 2.5, null]}\r\n')
    assert SMALL.read_json(folder / "inner" / "a.json", root=folder) == {"a": [1, 2.5, None]}
    assert SMALL.read_text(folder / "inner" / "a.json") == '{"a": [1, 2.5, null]}\n'
    with SMALL.open(folder / "inner" / "a.json") as file:
        assert file.read(1) == b"{"


def test_links_and_folders_above_are_followed(tmp_path, folder):
    (folder / "a.json").write_bytes(b"1")
    (tmp_path / "link").symlink_to(folder)
    assert SMALL.read_json(tmp_path / "link" / "a.json") == 1
    assert SMALL.read_json(tmp_path / "link" / "a.json", root=tmp_path / "link") == 1


def test_links_are_refused(folder, outside):
    (folder / "a.json").symlink_to(outside)
    (folder / "b.json").symlink_to("missing")
    (folder / "up").symlink_to(outside.parent)
    for name in ("a.json", "b.json"):
        with pytest.raises(RunError, match=rf"{name}: is a symbolic link; .* Copy its target here"):
            SMALL.read_bytes(folder / name)
    with pytest.raises(RunError, match=r"folder/up: is a symbolic link"):
        SMALL.read_bytes(folder / "up" / "outside.json", root=folder)


def test_paths_that_leave_the_folder_are_refused(folder, outside):
    with pytest.raises(RunError, match=r"cannot be read .outside of its folder.; copy it again"):
        SMALL.read_bytes(folder / "inner" / ".." / ".." / "outside.json", root=folder)
    assert outside.read_text(encoding="utf-8") == "{}"


def test_pipes_devices_and_folders_are_refused_at_once(folder):
    os.mkfifo(folder / "pipe")
    for name, kind in (("pipe", "a pipe or device"), ("inner", "a folder")):
        with pytest.raises(RunError, match=rf"{name}: is {kind}, not a file; copy it again"):
            SMALL.read_bytes(folder / name)
    with pytest.raises(RunError, match="is a pipe or device"):
        SMALL.read_bytes(type(folder)("/dev/zero"))


def test_size_is_bounded(folder):
    path = folder / "a.json"
    path.write_bytes(b" " * 999 + b"1")
    assert SMALL.read_json(path) == 1
    path.write_bytes(b" " * 1001)
    with pytest.raises(RunError, match=r"is larger than .* MiB; copy it again"):
        SMALL.open(path)
    with pytest.raises(DataError, match=r"is larger than .* MiB; shorten it"):
        FileKind(1000, is_user_file=True).read_bytes(type(folder)("/dev/zero"))


def test_pipes_that_the_user_names_are_read(folder):
    kind = FileKind(1000, is_user_file=True)
    os.mkfifo(folder / "pipe")
    assert kind.read_bytes(folder / "pipe") == b""
    reader, writer = os.pipe()
    Timer(0.2, lambda: (os.write(writer, b"seed: 2"), os.close(writer))).start()
    assert kind.read_bytes(type(folder)(f"/dev/fd/{reader}")) == b"seed: 2"
    os.close(reader)
    with pytest.raises(DataError, match=r"inner: cannot be read .Is a directory.; check the path"):
        kind.read_bytes(folder / "inner")


def test_missing_and_undecodable_files_are_refused(folder):
    with pytest.raises(RunError, match=r"a\.json: cannot be read .No such file or directory.; copy it again"):
        SMALL.read_bytes(folder / "a.json")
    (folder / "a.json").write_bytes(b"\xff")
    with pytest.raises(RunError, match=r"not UTF-8 .invalid start byte at byte 0.; copy it again"):
        SMALL.read_text(folder / "a.json")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "Expecting value"),
        (b"{", "Expecting property name"),
        (b"\xff", "codec can't decode"),
        (b"[" * 100_000, "nested more than 64 deep"),
        (b'{"a":' * 100_000, "nested more than 64 deep"),
        (b"[" * 66 + b"]" * 66, "nested more than 64 deep"),
        (b"[" + b"[]," * 3_000_000 + b"1]", "more than 2,000,000 values"),
        (b"NaN", "NaN is not a number"),
        (b"[-Infinity]", "-Infinity is not a number"),
        (b"1e999", "the number '1e999' is too large"),
        (b"18446744073709551616", "the number '18446744073709551616' is too large"),
        (b"-9223372036854775809", "is too large"),
        (b"9" * 5_000_000, "the number '9{56}\\.\\.\\. is too large"),
        (b"0." + b"9" * 5_000_000, "is too large"),
        (b'{"a": 1, "b": {"c": 1, "c": 2}}', "the key 'c' is given twice"),
        (b'["\\ud800"]', "surrogates not allowed"),
        (b'{"\\uDFFF": 1}', "surrogates not allowed"),
    ],
)
def test_invalid_json_is_refused(folder, content, problem):
    with pytest.raises(ValueError, match=problem) as caught:
        parse_json(content)
    assert len(str(caught.value)) < 200
    (folder / "a.json").write_bytes(content)
    with pytest.raises(DataError, match=rf"a\.json: damaged \(not valid JSON: .*{problem}.*\); restore it from a copy"):
        FileKind(10**8).read_json(folder / "a.json")


def test_valid_json_is_read():
    text = '{"a": [18446744073709551615, -9223372036854775808, 1e308, "\\ud83d\\ude00"], "b": {"a": {}}}'
    assert parse_json(text) == json.loads(text)
    assert parse_json("[" * 65 + "]" * 65) == json.loads("[" * 65 + "]" * 65)


@pytest.mark.parametrize(
    "content", [b"[]", b"1", b"null", b'"format"', b'{"format": "x"}', b'{"format": ["dragoman.a"]}']
)
def test_json_of_another_format_is_refused(folder, content):
    (folder / "a.json").write_bytes(content)
    with pytest.raises(RunError, match=r"a\.json: is not of dragoman\.a, version 2; copy it again"):
        SMALL.read_versioned_json(folder / "a.json", format_name="dragoman.a", version=2)


@pytest.mark.parametrize(
    ("version", "problem"),
    [
        (3, "is of version 3, but this program reads version 2; update dragoman"),
        (1, "is of version 1, but .*; copy it again"),
        (None, "is of version None, but .*; copy it again"),
        (True, "is of version True, but .*; copy it again"),
        ([2] * 100, r"is of version \[2, 2.*\.\.\., but .*; copy it again"),
    ],
)
def test_json_of_another_version_is_refused(folder, version, problem):
    (folder / "a.json").write_text(json.dumps({"format": "a", "format_version": version}), encoding="utf-8")
    with pytest.raises(RunError, match=problem):
        SMALL.read_versioned_json(folder / "a.json", format_name="a", version=2)


trees = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)


@given(trees, st.binary(max_size=4), st.integers(0, 100))
def test_changed_json_is_read_or_refused(tree, inserted, place):
    content = json.dumps(tree).encode()
    assert parse_json(content) == tree
    try:
        changed = parse_json(content[:place] + inserted + content[place:])
    except ValueError:
        return
    json.dumps(changed, ensure_ascii=False, allow_nan=False).encode()


def test_values_are_shortened_in_no_time():
    assert shorten([1, "a"]) == "[1, 'a']"
    start = time.process_time()
    giant = [["x" * 10**7] * 10**6] * 10**6
    for value in (giant, {1: giant}, "y" * 10**8, 10**6000, {*range(10**5)}, b"z" * 10**8):
        assert len(shorten(value)) <= 60
    assert time.process_time() - start < 5
