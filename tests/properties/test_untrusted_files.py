"""Damaged and hostile files of every format are read, or refused with one short message."""

import copy
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dragoman.checksums import seal
from dragoman.data.datasets.labeled import Labels
from dragoman.data.datasets.parallel import TextStore, TokenStore
from dragoman.data.fingerprints import json_fingerprint
from dragoman.data.preprocessing.pipeline import open_prepared, run_sequentially
from dragoman.data.readers.parallel import Example
from dragoman.data.shortlist import Shortlist
from dragoman.data.tokenizers import Tokenizer, UnigramConfig
from dragoman.errors import DragomanError
from dragoman.models.weight_quantization import load_arrays
from dragoman.models.weight_storage import load_tensors
from dragoman.runs.compare import summarize_run
from dragoman.runs.folder import RunFolder
from dragoman.runs.prepare_corpus import PreparationConfig, prepare_corpus
from dragoman.tasks.config import TranslationConfig
from dragoman.training.checkpoint import BestValidation, Checkpoint, CheckpointStore, Progress
from tests.property_settings import damaged_files
from tests.untrained_runs import finished_run

SCORE = {"metric": "BLEU", "value": 1.5, "signature": "x", "higher_is_better": True}
SCORES = {"weights": "last", "seconds": 1.5, "steps": 7, "tokens": 99, "scores": {"valid": [SCORE]}}
ENVIRONMENT = {"corpora": [{"file": "a.en", "sha256": "1a"}], "num_workers": 1, "threads": 1, "seed": 1}
LOG = {"event": "log", "tokens_per_second": 5.5, "step": 3}


@dataclass(frozen=True)
class Format:
    """File of a folder, and the function that reads the folder."""

    build: Callable[[Path], object]
    """Function that fills a folder."""
    file: str
    read: Callable[[Path], object]


def build_run(folder: Path) -> None:
    run = finished_run(folder / "run")
    for path, tree in ((run.scores, SCORES), (run.environment, ENVIRONMENT), (run.export, {"compute_type": "int8"})):
        path.write_text(json.dumps(tree), encoding="utf-8")
    run.metrics.write_text(json.dumps(LOG) + "\n", encoding="utf-8")


def read_run(folder: Path) -> None:
    run = RunFolder(folder / "run")
    for read in (
        run.read_config,
        run.expected_workers,
        lambda: summarize_run(run.path),
        run.read_export,
    ):
        read()


def build_tokenizer(folder: Path) -> None:
    texts = [f"hello world {n} größe" for n in range(50)]
    config = UnigramConfig(shared=True, vocab_size=40, byte_fallback=False)
    Tokenizer.train_on_texts(lambda: texts, config).save(folder / "tokenizer.json")


def read_tokenizer(folder: Path) -> None:
    side = Tokenizer.load(folder / "tokenizer.json").source
    for text in ("", "hello 🙂 ▁", "a\0\n"):
        ids = side.encode(text)
        assert all(0 <= one < len(side) for one in ids)
        side.decode(ids), side.missing_units(text, ids), side.encode_with_offsets(text)


def build_checkpoint(folder: Path) -> None:
    progress = Progress(step=3, position={"epoch": 0, "batch": 2}, best=BestValidation(3, {"loss": 1.5}), recent=(3,))
    tensors = {"a": torch.ones(2, 3)}
    store = CheckpointStore(folder / "run" / "checkpoints", keep=2)
    store.save(Checkpoint(progress, tensors, {"a/step": torch.tensor(3.0)}, None))


def read_checkpoint(folder: Path) -> None:
    store = CheckpointStore(folder / "run" / "checkpoints", keep=2)
    assert store.load(3).progress.step == 3


def build_shortlist(folder: Path) -> None:
    Shortlist(*(np.array(ids, dtype=np.int32) for ids in ([3], [5, 7], [1, 1, 0, 0]))).save(
        folder / "shortlist.safetensors"
    )


def read_shortlist(folder: Path) -> None:
    shortlist = Shortlist.load(folder / "shortlist.safetensors")
    if shortlist.matches_vocabs(source=4, target=9):
        shortlist.tokens_for([0, 1])


def build_stores(folder: Path) -> None:
    TextStore.build(folder / "texts", [Example("dog", "Hund", 1), Example("größe", "x", 2)])
    TokenStore.build(folder / "tokens", [([5, 7, 11], [4]), ([], [300, 2])], vocab_size=301)


def read_stores(folder: Path) -> None:
    list(TextStore(folder / "texts"))
    store = TokenStore(folder / "tokens")
    store.source.limit = store.target.limit = 301
    for side in (store.source, store.target):
        side.fill(np.arange(len(store)), np.zeros((len(store), int(side.lengths.max(initial=0))), dtype=np.int64))


def build_prepared(folder: Path) -> None:
    for side, word in (("en", "dog"), ("de", "Hund")):
        (folder / f"a.{side}").write_text("".join(f"{word} {n}\n" for n in range(30)), encoding="utf-8")
    corpus = {"kind": "files", "source": folder / "a.en", "target": folder / "a.de"}
    tree = {
        "data": {"train": corpus, "valid_size": 5},
        "tokenizer": {"kind": "words"},
        "model": {"kind": "encoder_decoder"},
    }
    config = PreparationConfig(TranslationConfig.model_validate(tree), run_sequentially)
    prepare_corpus(config, folder / "ready", report=lambda _: None)


def read_prepared(folder: Path) -> None:
    prepared = open_prepared(folder / "ready")
    assert prepared.tokenized is not None
    list(prepared.train), list(prepared.valid)
    assert prepared.report.table_rows() is not None


def build_weights(folder: Path) -> None:
    build_run(folder)
    build_checkpoint(folder)


FORMATS = {
    **{
        name: Format(build_run, f"run/{name}", read_run)
        for name in ("config.yaml", "scores.json", "environment.json", "export.json", "metrics.jsonl")
    },
    "model.safetensors (NumPy)": Format(
        build_run, "run/model.safetensors", lambda folder: load_arrays(folder / "run" / "model.safetensors")
    ),
    "model.safetensors (PyTorch)": Format(
        build_run, "run/model.safetensors", lambda folder: load_tensors(folder / "run" / "model.safetensors")
    ),
    "tokenizer.json": Format(build_tokenizer, "tokenizer.json", read_tokenizer),
    "labels.json": Format(
        lambda folder: Labels(("a", "b")).save(folder / "labels.json"),
        "labels.json",
        lambda folder: Labels.load(folder / "labels.json"),
    ),
    "progress.json": Format(build_checkpoint, "run/checkpoints/000000003/progress.json", read_checkpoint),
    "optimizer.safetensors": Format(
        build_checkpoint, "run/checkpoints/000000003/optimizer.safetensors", read_checkpoint
    ),
    "shortlist.safetensors": Format(build_shortlist, "shortlist.safetensors", read_shortlist),
    **{
        f"store {name}": Format(build_stores, name, read_stores)
        for name in (
            "texts/header.json",
            "texts/source.values",
            "tokens/header.json",
            "tokens/source.values",
            "tokens/target.lengths",
            "tokens/origins.values",
        )
    },
    "index.json": Format(build_prepared, "ready/index.json", read_prepared),
    "shards": Format(build_prepared, "ready/texts/header.json", read_prepared),
}

FRAGMENTS = [
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b'"',
    b"\\",
    b"null",
    b"NaN",
    b"-",
    b"9" * 30,
    b"1e999",
    b"\xff",
    b"\0",
    b"&a ",
    b"*a",
    b"<<: ",
    b"!!int ",
    b"\\ud800",
    b"../",
    b"\n- ",
    b" " * 9,
    b"0",
]
VALUES = [
    None,
    True,
    0,
    -1,
    7,
    2**31,
    2**63,
    1.5,
    1e308,
    "",
    "x",
    "../x",
    "O",
    "y" * 3000,
    [],
    {},
    [[]],
    ["x"],
    {"kind": "x"},
    {"": None},
]


@pytest.fixture(scope="module", params=FORMATS)
def damaged(request, tmp_path_factory) -> Iterator[tuple[Format, Path, bytes]]:
    """Return a format, a folder with its valid files, and the content of the file to damage."""
    found, folder = FORMATS[request.param], tmp_path_factory.mktemp("format")
    found.build(folder)
    found.read(folder)
    yield found, folder, (folder / found.file).read_bytes()
    shutil.rmtree(folder)


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value in a tree."""
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in children:
        yield (*path, key)
        yield from places(value, (*path, key))


def edit_tree(content: bytes, data: st.DataObject, *, is_yaml: bool) -> bytes:
    """Return a file in which some values are replaced or removed, with valid fingerprints."""
    tree = (
        yaml.safe_load(content)
        if is_yaml
        else json.loads(content.splitlines()[0] if content.startswith(b'{"event') else content)
    )
    for _ in range(data.draw(st.integers(1, 2))):
        *above, key = data.draw(st.sampled_from([*places(tree)] or [("x",)]))
        node = tree
        for one in above:
            node = node[one]
        if data.draw(st.integers(0, 5)):
            node[key] = copy.deepcopy(data.draw(st.sampled_from(VALUES)))
        else:
            node.pop(key, None) if isinstance(node, dict) else node.pop(key)
    if isinstance(tree, dict) and {"source", "target", "fingerprint"} <= tree.keys():
        with suppress(KeyError):
            tree["fingerprint"] = json_fingerprint({"source": tree["source"], "target": tree["target"]})
    return seal(yaml.safe_dump(tree)).encode() if is_yaml else json.dumps(tree).encode()


@damaged_files(50)
@given(data=st.data())
def test_damaged_files_are_read_or_refused(damaged, data):
    found, folder, content = damaged
    suffix = Path(found.file).suffix
    if suffix in (".json", ".yaml", ".jsonl") and data.draw(st.booleans()):
        content = edit_tree(content, data, is_yaml=suffix == ".yaml")
    else:
        for _ in range(data.draw(st.integers(1, 3))):
            place = data.draw(st.integers(0, min(len(content), 4_000)))
            inserted = data.draw(st.sampled_from(FRAGMENTS) | st.binary(max_size=4))
            content = content[:place] + inserted + content[place + data.draw(st.integers(0, 8)) :]
    (folder / found.file).write_bytes(content)
    try:
        found.read(folder)
    except DragomanError as error:
        message = str(error)
    else:
        return
    assert len(message.splitlines()) <= 3
    assert len(message) < 2_500
