"""Alterations that make a valid file of a folder hostile.

Each takes the path of the file, changes it, and leaves the rest of the folder as it is. A folder `outside` next to the
hostile folder contains a copy of the valid folder: a link to it would work if a command followed it.
"""

import gzip
import json
import os
import pickle
import random
import re
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from dragoman.checksums import KEY, with_checksum

Alteration = Callable[[Path], None]
Tree = dict[str, Any]
CONTROL = "\x1b[2J\x1b]0;title\x07[/foo] [bold]\r\x9b31m\u202e"
"""Text that clears a terminal, sets its title, closes markup that is not open, and reverses the following text."""


class _Payload:
    """Object whose pickle creates the file `executed` in the working folder when it is read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch executed",)


def _replace(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _outside(path: Path, folder: str) -> Path:
    """Return the copy outside of a file or folder inside the hostile folder, which is named `hostile`."""
    root = next(parent for parent in path.parents if parent.name == "hostile")
    return root.parent / folder / path.relative_to(root)


def _link(path: Path) -> None:
    path.unlink()
    path.symlink_to(_outside(path, "outside"))


def _link_folder(path: Path) -> None:
    """Replace the folder of the file by a link to its copy outside."""
    folder = path.parent
    folder.rename(folder.parent.parent / "removed")
    folder.symlink_to(_outside(folder, "outside"))


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def _giant(path: Path) -> None:
    os.truncate(path, 100 * 2**30)


def _cut(path: Path) -> None:
    """Cut a file in the middle, and YAML within a key, because the lines before may be valid by themselves."""
    content = path.read_bytes()
    size = len(content) // 2
    while path.suffix == ".yaml" and not re.search(rb"\n *\w+$", content[:size]):
        size += 1
    os.truncate(path, size)


def _extended(path: Path) -> None:
    _replace(path, path.read_bytes() + bytes(7))


def _noise(path: Path) -> None:
    _replace(path, random.Random(path.name).randbytes(9_973))


ANY_FILE: Mapping[str, Alteration] = {
    "deleted": Path.unlink,
    "empty": lambda path: _replace(path, b""),
    "a folder": _folder,
    "a device": _device,
    "a pipe": _pipe,
    "a link outside": _link,
    "a link to itself": _loop,
    "100 GiB of zeros": _giant,
    "cut off": _cut,
    "noise": _noise,
    "a pickle": lambda path: _replace(path, pickle.dumps(_Payload())),
    "compressed zeros": lambda path: _replace(path, gzip.compress(bytes(50_000_000), 6)),
}
"""Alterations of any file."""
FOLDER_LINK: Mapping[str, Alteration] = {"in a linked folder": _link_folder}
LONGER: Mapping[str, Alteration] = {"with seven more bytes": _extended}

ANY_TEXT: Mapping[str, Alteration] = {
    "not UTF-8": lambda path: _replace(path, path.read_bytes().replace(b"a", b"\xff\xfe", 3)),
    "one long line": lambda path: _replace(path, b"a" * 5_000_000),
    "empty lines": lambda path: _replace(path, b"\n" * 5_000_000),
    "null characters": lambda path: _replace(path, path.read_bytes().replace(b"e", b"\0")),
}
"""Alterations of any text, JSON and YAML included."""

ANY_JSON: Mapping[str, Alteration] = {
    "nested 100,000 deep": lambda path: _replace(path, b"[" * 100_000 + b"]" * 100_000),
    "objects nested 100,000 deep": lambda path: _replace(path, b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    "a list": lambda path: _replace(path, b"[]"),
    "null": lambda path: _replace(path, b"null"),
    "a text": lambda path: _replace(path, b'"a"'),
    "an empty object": lambda path: _replace(path, b"{}"),
    "a number of a million digits": lambda path: _replace(path, b"9" * 1_000_000),
    "millions of values": lambda path: _replace(path, b"[" + b"1," * 3_000_000 + b"1]"),
    "half a surrogate pair": lambda path: _replace(path, path.read_bytes().replace(b'"', b'"\\ud800', 1)),
    "a key twice": lambda path: _replace(path, path.read_bytes().replace(b"{", b'{"format": 1, "format": 2,', 1)),
}
"""Alterations of any JSON file."""
WRONG_VALUES: Mapping[str, Any] = {
    "null": None,
    "-1": -1,
    "2^63": 2**63,
    "1e308": 1e308,
    "NaN": float("nan"),
    "a deep list": [[[[[[[[[]]]]]]]]],
    "a path outside": "../../outside/config.yaml",
    "control characters": CONTROL,
    "a mapping": {CONTROL: {"a": []}},
}


def all_values(value: Any) -> Alteration:
    """Return the alteration that replaces all values at the top of a JSON file, or of its lines; formats remain."""

    def alter(path: Path) -> None:
        lines = path.read_text(encoding="utf-8").splitlines() if path.suffix == ".jsonl" else []
        trees = [json.loads(line) for line in lines or [path.read_text(encoding="utf-8")]]
        _replace(path, "\n".join(json.dumps(_with_values(tree, value)) for tree in trees).encode() + b"\n")

    return alter


def _with_values(tree: Any, value: Any) -> Any:
    if isinstance(tree, dict):
        kept = {"format", "format_version"}
        return {key: one if key in kept else value for key, one in tree.items() if key != KEY}
    return value


JSON_VALUES: Mapping[str, Alteration] = {
    f"every value {name}": all_values(value) for name, value in WRONG_VALUES.items()
}
"""Alterations of every value of a JSON file."""


def setting(key: str, value: Any) -> Alteration:
    """Return the alteration that sets a key of a YAML or JSON file; dots separate levels."""

    def alter(path: Path) -> None:
        is_yaml = path.suffix == ".yaml"
        tree = yaml.safe_load(path.read_text(encoding="utf-8")) if is_yaml else json.loads(path.read_bytes())
        *parents, last = key.split(".")
        inner = tree
        for one in parents:
            inner = inner[int(one)] if isinstance(inner, list) else inner.setdefault(one, {})
        inner[last] = value
        tree.pop(KEY, None)
        _replace(path, (yaml.safe_dump(tree) if is_yaml else json.dumps(tree)).encode())

    return alter


def added(text: str) -> Alteration:
    """Return the alteration that adds a text at the end of a file."""
    return lambda path: _replace(path, path.read_bytes() + text.encode())


def _aliases(start: str, level: Callable[[int], str]) -> str:
    return start + "".join(level(number) for number in range(1, 30))


ANY_YAML: Mapping[str, Alteration] = {
    "doubling aliases": added(_aliases("a0: &a0 [x]\n", lambda n: f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n")),
    "doubling merges": added(
        _aliases("a0: &a0 {b: 1}\n", lambda n: f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}], c{n}: 1}}\n")
    ),
    "an alias of itself": added("a: &a [*a]\n"),
    "an object of Python": added("a: !!python/object/apply:os.system ['touch executed']\n"),
    "a name of Python": added("a: !!python/name:os.system\n"),
    "lists nested 100,000 deep": lambda path: _replace(path, b"a: " + b"[" * 100_000),
    "mappings nested 1,000 deep": lambda path: _replace(path, b"".join(b" " * n + b"a:\n" for n in range(1000))),
    "a list": lambda path: _replace(path, b"- a\n"),
    "a scalar": lambda path: _replace(path, b"a\n"),
    "a base of 400 digits": added("a: 1" + ":59" * 400 + "\n"),
    "a million keys": lambda path: _replace(path, b"".join(b"a%d: 1\n" % n for n in range(1_000_000))),
    "a tag that does not fit": added("a: !!int x\n"),
    "a key twice": added("model: {}\n"),
    "keys of control characters": added(json.dumps(CONTROL) + ": 1\n"),
    "keys of other types": added("? [a, b]\n: 1\n"),
    "a date of the year 0": added("a: 0000-00-00\n"),
    "two documents": added("---\na: 1\n"),
}
"""Alterations of any YAML file."""


def header(change: Callable[[Tree], Any]) -> Alteration:
    """Return the alteration that changes the header of a safetensors file, or replaces it by what `change` returns."""

    def alter(path: Path) -> None:
        size, content = _parts(path)
        tree = json.loads(content[:size])
        tree = change(tree) or tree
        new = tree if isinstance(tree, bytes) else json.dumps(tree).encode()
        _replace(path, struct.pack("<Q", len(new)) + new + content[size:])

    return alter


def _parts(path: Path) -> tuple[int, bytes]:
    content = path.read_bytes()
    return struct.unpack("<Q", content[:8])[0], content[8:]


def _first(key: str, value: Any) -> Alteration:
    """Return the alteration that sets a field of the header of the largest tensor."""

    def change(tree: Tree) -> None:
        tensors = (one for name, one in tree.items() if name != "__metadata__")
        max(tensors, key=lambda one: one["data_offsets"][1] - one["data_offsets"][0])[key] = value

    return header(change)


def numbers(content: bytes) -> Alteration:
    """Return the alteration that repeats bytes over all tensors, with a valid checksum."""

    def alter(path: Path) -> None:
        size, file = _parts(path)
        tree = json.loads(file[:size])
        tree.get("__metadata__", {}).pop(KEY, None)
        new, length = json.dumps(tree).encode(), len(file) - size
        data = (content * (length // len(content) + 1))[:length]
        _replace(path, b"".join(with_checksum(struct.pack("<Q", len(new)) + new + data)))

    return alter


def _renamed(tree: Tree) -> Tree:
    return {name if name == "__metadata__" else f"{CONTROL}{name}": one for name, one in tree.items()}


def _without_one(tree: Tree) -> None:
    """Remove the tensor at the end of the file from the header."""
    tree.pop(max((name for name in tree if name != "__metadata__"), key=lambda name: tree[name]["data_offsets"][1]))


def _many(tree: Tree) -> Tree:
    empty = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    return tree | {f"t{number}": empty for number in range(120_000)}


def _flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-5] ^= 64
    _replace(path, bytes(content))


ANY_TENSORS: Mapping[str, Alteration] = {
    "a header of 2^63 bytes": lambda path: _replace(path, struct.pack("<Q", 2**63) + path.read_bytes()[8:]),
    "a header longer than the file": lambda path: _replace(path, struct.pack("<Q", 10**6) + path.read_bytes()[8:]),
    "a header of no bytes": lambda path: _replace(path, bytes(8)),
    "a nested header": header(lambda _: b'{"a":' * 50_000 + b"1" + b"}" * 50_000),
    "a list as header": header(lambda _: b"[]"),
    "a header not UTF-8": header(lambda _: b'{"\xff\xfe": 1}'),
    "120,000 tensors": header(_many),
    "2^62 bytes": _first("data_offsets", [0, 2**62]),
    "negative offsets": _first("data_offsets", [-8, 8]),
    "offsets as texts": _first("data_offsets", ["0", "8"]),
    "three offsets": _first("data_offsets", [0, 8, 16]),
    "the format object": _first("dtype", "O"),
    "a format of control characters": _first("dtype", CONTROL),
    "another format of equal size": _first("dtype", "I32"),
    "a negative shape": _first("shape", [-1, -1]),
    "a shape of 2^40": _first("shape", [2**40]),
    "a shape that overflows": _first("shape", [2**32, 2**32, 0]),
    "a shape of 10,000 dimensions": _first("shape", [1] * 10_000),
    "a shape of texts": _first("shape", ["12"]),
    "a shape of booleans": _first("shape", [True]),
    "other names": header(_renamed),
    "a tensor less": header(_without_one),
    "an entry of null": header(lambda tree: tree | {"extra": None}),
    "an empty tensor more": header(lambda tree: tree | {"a": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}),
    "metadata of numbers": header(lambda tree: tree | {"__metadata__": {"a": 1}}),
    "metadata that is a text": header(lambda tree: tree | {"__metadata__": CONTROL}),
    "a flipped bit": _flipped,
    "NaN as numbers": numbers(b"\x00\x00\xc0\x7f"),
    "infinity as numbers": numbers(b"\x00\x00\x80\x7f"),
    "bytes of 255": numbers(b"\xff"),
}
"""Alterations of any safetensors file."""
HUGE_NUMBERS: Mapping[str, Alteration] = {"1e38 as numbers": numbers(struct.pack("<f", 3e38))}
