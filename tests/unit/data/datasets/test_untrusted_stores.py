"""Stores and prepared folders that someone else may have written."""

import hashlib
import json
import os
import shutil
from contextlib import suppress

import numpy as np
import pytest

from dragoman.cli.main import build_command
from dragoman.data.datasets.parallel import TextStore, TokenStore
from dragoman.data.preprocessing.pipeline import open_prepared, read_index, run_sequentially
from dragoman.data.readers.parallel import Example
from dragoman.errors import DataError
from dragoman.runs.prepare_corpus import PreparationConfig, prepare_corpus
from dragoman.tasks.config import TranslationConfig

IDS = [([5, 7, 11], [4]), ([], [300, 2]), ([9], [])]
FILES = ["source.values", "source.lengths", "target.values", "target.lengths", "origins.values"]


def edit_json(path, edit) -> None:
    tree = json.loads(path.read_text(encoding="utf-8"))
    tree.pop("crc32", None)
    edit(tree)
    path.write_text(json.dumps(tree), encoding="utf-8")


def forge(path, content) -> None:
    """Replace a file of a store, and its hash."""
    path.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    edit_json(path.parent / "header.json", lambda tree: tree["files"][path.name].__setitem__(2, digest))


@pytest.fixture
def store(tmp_path):
    folder = tmp_path / "cache" / "tokens"
    folder.parent.mkdir()
    TokenStore.build(folder, IDS, vocab_size=301)
    return folder


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "dtype", ["O", "object", "V8", "S8", "M8[s]", "float64", "complex128", "<U2", "i4,i4", "", 7, None, ["i4"]]
)
def test_types_that_are_no_numbers_are_refused(store, name, dtype):
    size = (store / name).stat().st_size

    def edit(tree):
        tree["files"][name][:2] = [dtype, size // 8]

    edit_json(store / "header.json", edit)
    with pytest.raises(DataError, match=rf"tokens: damaged store \(header\.json has no type and number .* {name}\)"):
        TokenStore(store)


@pytest.mark.parametrize(
    "edit",
    [
        lambda tree: tree.pop("files"),
        lambda tree: tree.pop("fingerprint"),
        lambda tree: tree.update(fingerprint=7),
        lambda tree: tree.update(files=[]),
        lambda tree: tree["files"].pop("source.values"),
        lambda tree: tree["files"].update({"source.values": 7}),
        lambda tree: tree["files"].update({"source.values": ["uint16", -1, ""]}),
        lambda tree: tree["files"].update({"source.values": ["uint16", 2**63, ""]}),
        lambda tree: tree["files"].update({"source.values": ["uint16", 1.5, ""]}),
        lambda tree: tree["files"].update({"source.values": ["uint8", 8, ""]}),
        lambda tree: tree["files"].update({"source.lengths": ["uint16", 6, ""]}),
        lambda tree: tree["files"].update({"origins.values": ["uint8", 24, ""]}),
        lambda tree: tree.update(shards=None),
        lambda tree: tree.update(shards=[7]),
        lambda tree: tree.update(shards=[["../tokens", 7]]),
        lambda tree: tree.update(shards=[["../missing", tree["fingerprint"]]]),
        lambda tree: tree.update(shards=[["../\0", tree["fingerprint"]]]),
        lambda tree: tree.update(shards=[["../" + "x" * 10_000, tree["fingerprint"]]]),
        lambda tree: tree.update(shards=[["../tokens", tree["fingerprint"]]] * 2),
    ],
)
def test_damaged_headers_are_refused(store, edit):
    edit_json(store / "header.json", edit)
    with pytest.raises(DataError, match="prepare the corpus again, or copy the whole folder again") as caught:
        TokenStore(store)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("lengths", [[-1, 4, 1], [3, 1, 1], [2**31 - 1, 0, 1], [4, 0, 0, 0]])
def test_impossible_lengths_are_refused(store, lengths):
    (store / "source.lengths").write_bytes(np.array(lengths, dtype=np.int32).tobytes())
    edit_json(store / "header.json", lambda tree: tree["files"]["source.lengths"].__setitem__(1, len(lengths)))
    with pytest.raises(DataError, match="its files do not fit each other"):
        TokenStore(store)


def test_lengths_that_overflow_are_refused(store):
    lengths = np.array([2**62] * 4 + [4], dtype=np.int64)
    (store / "source.lengths").write_bytes(lengths.tobytes())
    edit_json(store / "header.json", lambda tree: tree["files"].update({"source.lengths": ["int64", 5, ""]}))
    with pytest.raises(DataError, match="its files do not fit each other"):
        TokenStore(store)


@pytest.mark.parametrize("place", ["../../outside", "/{outside}", "../link"])
def test_shards_outside_of_the_folder_are_refused(tmp_path, store, place):
    outside = tmp_path / "outside"
    shutil.copytree(store, outside)
    (store.parent / "link").symlink_to(outside)
    name = place.format(outside=outside)
    edit_json(
        store / "header.json",
        lambda tree: tree.update(shards=[[name, json.loads((outside / "header.json").read_text())["fingerprint"]]]),
    )
    with pytest.raises(DataError, match=r"outside of the prepared folder|link: is a symbolic link") as caught:
        TokenStore(store)
    assert "remove" not in str(caught.value)
    assert "delete" not in str(caught.value)


@pytest.mark.parametrize("name", [*FILES, "header.json"])
def test_links_pipes_and_folders_are_refused(tmp_path, store, name):
    path = store / name
    path.rename(tmp_path / "outside")
    path.symlink_to(tmp_path / "outside")
    with pytest.raises(DataError, match="is a symbolic link"):
        TokenStore(store)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(DataError, match="is a pipe or device"):
        TokenStore(store)
    path.unlink()
    path.mkdir()
    with pytest.raises(DataError, match="is a folder"):
        TokenStore(store)


def test_linked_store_is_refused(tmp_path, store):
    store.rename(tmp_path / "outside")
    store.symlink_to(tmp_path / "outside")
    with pytest.raises(DataError, match="tokens: is a symbolic link"):
        TokenStore(store)


def test_texts_that_are_not_utf8_are_refused(tmp_path):
    folder = tmp_path / "texts"
    TextStore.build(folder, [Example("dog", "Hund", 1), Example("cat", "Katze", 2)])
    (folder / "source.values").write_bytes(b"dogc\xfft")
    store = TextStore(folder)
    for read in (lambda: store.pair(1), lambda: list(store), lambda: list(store.examples())):
        with pytest.raises(DataError, match=r"damaged store \(a text is not UTF-8\)"):
            read()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    for side, word in (("en", "dog"), ("de", "Hund")):
        (folder / f"a.{side}").write_text("".join(f"{word} {n}\n" for n in range(60)), encoding="utf-8")
    experiment = TranslationConfig.model_validate(
        {
            "data": {"train": {"kind": "files", "source": folder / "a.en", "target": folder / "a.de"}, "valid_size": 9},
            "tokenizer": {"kind": "words"},
            "model": {"kind": "encoder_decoder"},
        }
    )
    prepare_corpus(PreparationConfig(experiment, run_sequentially), folder / "ready", report=lambda _: None)
    return folder / "ready"


@pytest.fixture
def copy(prepared, tmp_path):
    shutil.copytree(prepared, tmp_path / "ready")
    return tmp_path / "ready"


def test_prepared_folder_is_read(copy):
    assert len(open_prepared(copy).tokenized.tokens) == 51
    assert read_index(copy).settings()["tokenizer"]["kind"] == "words"


VALUES = [None, 7, -1, "x", [], {}, [[]], {"": 1}, 2**63, 1.5, True, [-1], ["x"], [1, 2], [{"file": 1}]]
NEEDED = ["report", "notes", "ends", "max_source_length", "weights", "tokenizer", "corpora", "stores"]


@pytest.mark.parametrize("key", [*NEEDED, "noise", "temperature"])
def test_damaged_index_is_read_or_refused(copy, key):
    file = copy / "index.json"
    tree = json.loads(file.read_text(encoding="utf-8"))
    del tree["crc32"]
    for value in VALUES:
        file.write_text(json.dumps(tree | {key: value}), encoding="utf-8")
        with suppress(DataError):
            assert len(open_prepared(copy).train) == 51
    file.write_text(json.dumps({name: one for name, one in tree.items() if name not in NEEDED or name != key}))
    if key in NEEDED:
        with pytest.raises(DataError, match=rf"index\.json: damaged \({key} field required\); give a folder"):
            open_prepared(copy)


def test_index_of_other_sizes_is_refused(copy):
    file = copy / "index.json"
    for edit, problem in (
        ({"weights": [1, 2]}, r"has 2 weights of 1 corpora"),
        ({"ends": [5]}, "it has lines beyond the end of its corpora"),
        ({"stores": {"texts": "x"}}, r"its files do not match index\.json"),
        ({"report": {"read": "x", "kept": 1, "rules": []}}, "damaged cleaning report"),
    ):
        tree = json.loads(file.read_text(encoding="utf-8"))
        tree.pop("crc32", None)
        file.write_text(json.dumps(tree | edit), encoding="utf-8")
        with pytest.raises(DataError, match=problem):
            open_prepared(copy)
        file.write_text(json.dumps(tree), encoding="utf-8")


@pytest.mark.parametrize("origin", [-1, 10**9])
def test_ids_of_missing_texts_are_refused(copy, origin):
    path = copy / "ids" / "origins.values"
    content = np.frombuffer(path.read_bytes(), dtype=np.int64).copy()
    content[3] = origin
    forge(path, content.tobytes())
    with pytest.raises(DataError, match="it has ids of texts that do not exist"):
        open_prepared(copy)


def test_ids_beyond_the_vocabulary_are_refused(copy):
    path = copy / "shards" / "00000" / "ids" / "source.values"
    content = np.frombuffer(path.read_bytes(), dtype=np.uint16).copy()
    content[3] = 60_000
    forge(path, content.tobytes())
    store = open_prepared(copy).tokenized.tokens
    with pytest.raises(DataError, match="contains an id beyond the vocabulary of 57 tokens"):
        store.source.fill(np.arange(len(store)), np.zeros((len(store), 2), dtype=np.int64))


def test_changed_columns_are_damage(copy):
    """A training compares what it reads; `dragoman data verify` also the texts."""
    open_prepared(copy).train.verify()
    for path in sorted(copy.rglob("*.values")) + sorted(copy.rglob("*.lengths")):
        content = path.read_bytes()
        if not content:
            continue
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(DataError, match="damaged store"):
            open_prepared(copy).train.verify()
        path.write_bytes(content)
    open_prepared(copy).train.verify()


def test_prepared_folders_are_verified_on_request(copy, capsys):
    build_command("data")(["data", "verify", str(copy)], standalone_mode=False)
    assert "all files are intact" in "".join(capsys.readouterr())
    path = copy / "shards" / "00000" / "texts" / "source.values"
    path.write_bytes(path.read_bytes().replace(b"1", b"2", 1))
    with pytest.raises(DataError, match=r"source\.values differs from its hash"):
        build_command("data")(["data", "verify", str(copy)], standalone_mode=False)
