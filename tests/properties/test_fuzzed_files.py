"""Every reader of a file answers any content with a result or with an error of dragoman."""

import bz2
import gzip
import json
import lzma
import struct
import warnings
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from dragoman.checksums import KEY, to_checked_json, with_checksum
from dragoman.data.config import DataConfig
from dragoman.data.datasets.labeled import Labels
from dragoman.data.datasets.parallel import TextStore, TokenStore
from dragoman.data.preprocessing import pipeline
from dragoman.data.preprocessing.pipeline import prepare_data, read_index
from dragoman.data.readers.conllu import read_trees
from dragoman.data.readers.labeled import LabeledLines, LabeledTsv, read_labeled
from dragoman.data.readers.line_reader import read_lines
from dragoman.data.readers.parallel import Example, ParallelJsonl, ParallelParquet, ParallelTsv, read_corpus
from dragoman.data.readers.plain_text import TextFile, TextJsonl, read_texts
from dragoman.data.readers.qa import QuestionJsonl, SquadFile, read_questions
from dragoman.data.readers.recognize_format import recognize_corpus
from dragoman.data.readers.tagged import TaggedColumns, TaggedJsonl, read_tagged
from dragoman.data.shortlist import Shortlist
from dragoman.data.tokenizers import BpeConfig, CharacterConfig, Tokenizer, WordConfig
from dragoman.errors import DragomanError
from dragoman.models.weight_storage import load_tensors, save_tensors
from dragoman.runs.compare import summarize_run
from dragoman.runs.config import read_experiment
from dragoman.runs.folder import RunFolder
from dragoman.safetensors_files import WEIGHTS, read_arrays
from dragoman.training.checkpoint import SHARDS, Checkpoint, CheckpointStore, Progress
from tests.property_settings import FULL
from tests.small_tasks import write_texts
from tests.untrained_runs import PAIRS, finished_run

zstandard = pytest.importorskip("zstandard", reason="zstandard, the extra zstd, is not installed")
pytestmark = pytest.mark.slow

Read = Callable[[Path], object]
CASES = 5000 if FULL else 250
"""Changes of bytes for each format, and as many of values for formats with a tree of values."""
FUZZING = settings(max_examples=CASES, suppress_health_check=list(HealthCheck), phases=(Phase.generate,))
"""Without shrinking, which would write files for minutes."""
WILD: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(
        [
            None,
            True,
            -1,
            0,
            1,
            2**31,
            2**63,
            2**64,
            10**400,
            0.5,
            -0.0,
            1e308,
            float("nan"),
            float("inf"),
            "",
            "O",
            "\0",
        ]
    ),
    st.sampled_from(["../../x", "/dev/zero", "\x1b[2J", "[/foo]", "\ud800", "a\tb\n", "9" * 30, [], {}, [[]], [0, 0]]),
    st.sampled_from([{"kind": "bpe"}, {"": None}, [None, 1, "a"], [2**62, 1], [[[[[1]]]]], {"a": {"b": {}}}]),
    st.integers(-5, 300),
    st.text(max_size=4),
)
"""Values that no file of ours contains at the place."""
BYTES = st.sampled_from(
    [
        b"",
        b"\x00",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\n",
        b"\r",
        b"\t",
        b'"',
        b"\\ud800",
        b"{",
        b"[",
        b"]",
        b"}",
        b",",
        b":",
        b"-",
        b"e9",
        b"9" * 50,
        b"NaN",
        b"&a *a",
        b"!!int ",
        b"? ",
        b"- ",
        b"\x80\x04",
        b"\xe2\x80\xa8",
        b"\x1b[2J",
    ]
)
EDITS = st.lists(
    st.tuples(st.sampled_from(["insert", "replace", "remove", "cut", "copy", "flip"]), st.integers(0, 2**20), BYTES),
    min_size=1,
    max_size=3,
)
TREE_EDITS = st.lists(
    st.tuples(st.sampled_from(["set", "set", "remove", "rename", "nest"]), st.integers(0, 2**20), WILD),
    min_size=1,
    max_size=3,
)


@dataclass(frozen=True)
class Format:
    """File, valid content, reader, and how to make a tree of the content and a file of a changed tree."""

    name: str
    content: bytes
    read: Read
    parse: Callable[[bytes], Any] | None = None
    dump: Callable[[Any, bytes], bytes] | None = None


def edit_bytes(content: bytes, edits: Iterable[tuple[str, int, bytes]]) -> bytes:
    """Return changed bytes; numbers choose places."""
    for kind, number, new in edits:
        place = number % (len(content) + 1)
        length = 1 + number % 17
        match kind:
            case "insert":
                content = content[:place] + new + content[place:]
            case "replace":
                content = content[:place] + new + content[place + len(new) :]
            case "remove":
                content = content[:place] + content[place + length :]
            case "cut":
                content = content[:place]
            case "copy":
                content = content[:place] + content[place : place + length] * 3 + content[place:]
            case _:
                flipped = bytes(byte ^ (1 << number % 8) for byte in content[place : place + 1])
                content = content[:place] + flipped + content[place + 1 :]
    return content


def edit_tree(tree: Any, edits: Iterable[tuple[str, int, Any]]) -> Any:
    """Return a changed tree of lists and mappings; numbers choose places."""
    for kind, number, value in edits:
        new = deepcopy(value)
        places = list(_places(tree))
        if not places:
            return new
        parent, key = places[number % len(places)]
        match kind:
            case "set":
                parent[key] = new
            case "remove":
                del parent[key]
            case "rename" if isinstance(parent, dict):
                parent[new if isinstance(new, str) else str(new)] = parent.pop(key)
            case _:
                parent[key] = [parent[key], parent[key]]
    return tree


def _places(tree: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(tree, dict | list):
        for key, inner in list(tree.items() if isinstance(tree, dict) else enumerate(tree)):
            yield tree, key
            yield from _places(inner)


def dump_json(tree: Any, _: bytes) -> bytes:
    return json.dumps(tree).encode()


def dump_checked_json(tree: Any, _: bytes) -> bytes:
    if not isinstance(tree, dict):
        return json.dumps(tree).encode()
    return to_checked_json({key: one for key, one in tree.items() if key != KEY}).encode()


def dump_lines(trees: Any, _: bytes) -> bytes:
    return "".join(f"{json.dumps(tree)}\n" for tree in trees).encode() if isinstance(trees, list) else b"[]"


def dump_yaml(tree: Any, _: bytes) -> bytes:
    return yaml.safe_dump(tree, allow_unicode=False).encode()


def parse_header(content: bytes) -> Any:
    (size,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + size])


def dump_header(tree: Any, content: bytes) -> bytes:
    """Return a safetensors file with another header, and a valid checksum where possible."""
    (size,) = struct.unpack("<Q", content[:8])
    header = json.dumps(tree).encode()
    return struct.pack("<Q", len(header)) + header + content[8 + size :]


def parse_lines(content: bytes) -> Any:
    return [json.loads(line) for line in content.splitlines()]


def consume(read: Callable[[Path], Iterable[object]]) -> Read:
    """Return the reader that goes through everything."""
    return lambda path: sum(1 for _ in read(path))


@dataclass(frozen=True)
class Samples:
    """Folder with a valid file of every format."""

    folder: Path

    def write(self) -> None:
        """Write the files that the readers expect around the file that changes."""
        write_texts(self.folder)
        run = finished_run(self.folder / "run")
        run.scores.write_text(json.dumps(SCORES | {"scores": {}}), encoding="utf-8")
        kinds = {"words": WordConfig(), "characters": CharacterConfig(), "bpe": BpeConfig(vocab_size=300)}
        for name, config in kinds.items():
            Tokenizer.train(lambda: PAIRS, config).save(self.folder / f"{name}.json")
        Labels(("bad", "good")).save(self.folder / "labels.json")
        TokenStore.build(self.folder / "tokens", [([4, 5], [6]), ([7], [8, 9])], vocab_size=19)
        TextStore.build(self.folder / "texts", [Example(*pair, line) for line, pair in enumerate(PAIRS, 1)])
        (self.folder / "checkpoints" / f"{4:09d}").mkdir(parents=True)
        write_sharded_checkpoint(self.folder / "sharded")
        corpus = {"kind": "files", "source": self.folder / "train.en", "target": self.folder / "train.de"}
        settings = DataConfig.model_validate({"train": corpus, "valid_size": 5})
        prepare_data(settings, self.folder / "cache", seed=1)
        next((self.folder / "cache").glob("texts-*")).rename(self.folder / "cleaned")
        rows = {"source": [pair[0] for pair in PAIRS], "target": [pair[1] for pair in PAIRS]}
        pq.write_table(pa.table(rows), self.folder / "pairs.parquet")

    def json_file(self, name: str, read: Read, *, content: Any = None) -> Format:
        """Return the format of a JSON file in the folder, or of this content."""
        return Format(name, self._content(name, content), read, json.loads, dump_json)

    def lines(self, name: str, read: Read, *, content: Any = None) -> Format:
        """Return the format of a file of JSON lines."""
        return Format(name, self._content(name, content), read, parse_lines, dump_lines)

    def text(self, name: str, read: Read, content: bytes | None = None) -> Format:
        """Return the format of another file."""
        return Format(name, (self.folder / name).read_bytes() if content is None else content, read)

    def safetensors(self, name: str, read: Read, arrays: dict[str, Any], *, checked: bool) -> Format:
        """Return the format of a safetensors file, with or without a checksum."""
        content = b"".join(with_checksum(save(arrays))) if checked else save(arrays)
        return Format(name, content, read, parse_header, dump_header)

    def _content(self, name: str, content: Any) -> bytes:
        return (self.folder / name).read_bytes() if content is None else json.dumps(content).encode()


def read_store(kind: type[TokenStore] | type[TextStore]) -> Read:
    """Return the reader of a store, whose file it is given."""

    def read(path: Path) -> None:
        store = kind(path.parent)
        for index in range(len(store)):
            store.pair(index)

    return read


def read_progress(path: Path) -> None:
    CheckpointStore(path.parents[1], keep=2).load_progress(int(path.parent.name))


def write_sharded_checkpoint(folder: Path) -> None:
    """Write a checkpoint with a shard of an optimizer state, without its checksum in `progress.json`."""
    tensors = {"a": torch.ones(2, 3)}
    CheckpointStore(folder, keep=2).save(Checkpoint(Progress(step=4), tensors, {}, None))
    (folder / f"{4:09d}" / "optimizer.safetensors").unlink()
    shards = folder / SHARD
    shards.parent.mkdir()
    save_tensors(shards, {"state.a.exp_avg": torch.ones(1, 3), "state.a.step": torch.tensor(4.0)})


def read_shards(path: Path) -> None:
    assert CheckpointStore(path.parents[2], keep=2).load_latest() is not None


def read_summary(path: Path) -> None:
    """Read the summary of cleaned texts, which a training builds again if this raises an error."""
    summary = pipeline._read_summary(
        pipeline._Summary,
        path,
        pipeline._SUMMARY_FILE,
        format_name=pipeline._FORMAT,
        version=pipeline._VERSION,
    )
    pipeline._open(path.parent, summary, {})


def read_run(method: Callable[[RunFolder], object]) -> Read:
    return lambda path: method(RunFolder(path.parent))


SHARD = f"{4:09d}/{SHARDS}/shard-00001-model-00001-of-00001.safetensors"
SCORE = {"metric": "bleu", "value": 1.5, "signature": "s", "higher_is_better": True}
MODEL = {"noun": "n", "description": "d", "unit": "u", "loss_unit": "l", "parts": {}, "flops": {}, "cache_bytes": 1}
SCORES = {"weights": "best", "seconds": 1.0, "steps": 3, "tokens": 9, "scores": {"valid": [SCORE]}, "model": MODEL}
ENVIRONMENT = {"corpora": [{"file": "a", "sha256": "b"}], "tokenizer": "c"}
LOG = {"event": "log", "step": 1, "tokens_per_second": 3.5}
INDEX = {
    "format": "dragoman.prepared",
    "format_version": 1,
    "report": {},
    "notes": [],
    "ends": [1],
    "weights": [1.0],
    "max_source_length": 9,
    "max_target_length": 9,
    "stores": {},
    "corpora": ENVIRONMENT["corpora"],
    "tokenizer": {"config": {"kind": "words"}, "fingerprint": "a"},
}
SQUAD = {"data": [{"paragraphs": [{"context": "a b", "qas": [{"question": "b", "id": "1", "answers": []}]}]}]}
SQUAD["data"][0]["paragraphs"][0]["qas"][0]["answers"] = [{"text": "b", "answer_start": 2}]
SHORTLIST = {name: np.arange(3, dtype=np.int32) for name in ("always", "values", "lengths")}
WEIGHT = {"a": np.ones((2, 3), np.float32), "b": np.ones(5, np.int8)}
TREES = b"# text = a b\n1\ta\t_\t_\t_\t_\t2\t_\t_\t_\n2\tb\t_\t_\t_\t_\t0\t_\t_\t_\n\n"
PLAIN = b"two dogs\nplay\n"


def json_formats(samples: Samples) -> list[Format]:
    return [
        *(samples.json_file(f"{name}.json", Tokenizer.load) for name in ("words", "characters", "bpe")),
        samples.json_file("labels.json", Labels.load),
        samples.json_file("records/scores.json", read_run(RunFolder.read_scores), content=SCORES),
        samples.json_file("records/environment.json", read_run(RunFolder.read_environment), content=ENVIRONMENT),
        samples.json_file("records/export.json", read_run(RunFolder.read_export), content={"compute_type": "int8"}),
        samples.lines("run/metrics.jsonl", lambda path: summarize_run(path.parent), content=LOG),
        Format(
            f"checkpoints/{4:09d}/progress.json",
            Progress(step=4).model_dump_json().encode(),
            read_progress,
            json.loads,
            dump_checked_json,
        ),
        Format(
            "cleaned/summary.json",
            (samples.folder / "cleaned" / "summary.json").read_bytes(),
            read_summary,
            json.loads,
            dump_checked_json,
        ),
        samples.json_file("index.json", lambda path: read_index(path.parent), content=INDEX),
        samples.json_file("tokens/header.json", read_store(TokenStore)),
        samples.json_file("texts/header.json", read_store(TextStore)),
        samples.json_file("squad.json", consume(lambda path: read_questions(SquadFile(path=path))), content=SQUAD),
    ]


def other_formats(samples: Samples) -> list[Format]:
    config = (samples.folder / "run" / "config.yaml").read_bytes()
    return [
        Format("run/config.yaml", config, read_run(RunFolder.read_config), yaml.safe_load, dump_yaml),
        Format("raw/config.yaml", config, read_run(RunFolder.read_raw_config), yaml.safe_load, dump_yaml),
        Format("user.yaml", config, read_experiment, yaml.safe_load, dump_yaml),
        samples.safetensors("a.safetensors", lambda path: read_arrays(path, WEIGHTS), WEIGHT, checked=False),
        samples.safetensors("b.safetensors", load_tensors, WEIGHT, checked=True),
        Format(
            f"sharded/{SHARD}",
            (samples.folder / "sharded" / SHARD).read_bytes(),
            read_shards,
            parse_header,
            dump_header,
        ),
        samples.safetensors("shortlist.safetensors", Shortlist.load, SHORTLIST, checked=False),
        samples.text("tokens/source.values", read_store(TokenStore)),
        samples.text("tokens/target.lengths", read_store(TokenStore)),
        samples.text("texts/source.values", read_store(TextStore)),
        samples.text("texts/source.lengths", read_store(TextStore)),
    ]


def text_formats(samples: Samples) -> list[Format]:
    compressed = {"gz": gzip.compress(PLAIN), "bz2": bz2.compress(PLAIN), "xz": lzma.compress(PLAIN)}
    compressed["zst"] = zstandard.ZstdCompressor(write_checksum=False).compress(PLAIN)
    return [
        *(samples.text(f"a.{ending}", consume(read_lines), content) for ending, content in compressed.items()),
        samples.text("any.txt", recognize_corpus, b"a\tb\nc\td\n"),
        samples.text("running.txt", consume(lambda path: read_texts(TextFile(path=path)))),
        samples.lines("texts.jsonl", consume(lambda path: read_texts(TextJsonl(path=path))), content={"text": "a"}),
        samples.text("labeled.txt", consume(lambda path: read_labeled(LabeledLines(path=path)))),
        samples.text("labeled.tsv", consume(lambda path: read_labeled(LabeledTsv(path=path))), b"a b\tgood\n"),
        samples.text(
            "tagged.txt", consume(lambda path: read_tagged(TaggedColumns(path=path))), b"a\tN\nb\tV\n\nc\tN\n"
        ),
        samples.lines(
            "tagged.jsonl",
            consume(lambda path: read_tagged(TaggedJsonl(path=path))),
            content={"words": ["a"], "labels": ["N"]},
        ),
        samples.text("trees.conllu", consume(read_trees), TREES),
        samples.text("pairs.tsv", consume(lambda path: read_corpus(ParallelTsv(path=path))), b"a\tb\nc\td\n"),
        samples.lines(
            "pairs.jsonl",
            consume(lambda path: read_corpus(ParallelJsonl(path=path))),
            content={"source": ["a", "b"], "target": "c"},
        ),
        samples.text("pairs.parquet", consume(lambda path: read_corpus(ParallelParquet(path=path)))),
        samples.lines(
            "questions.jsonl",
            consume(lambda path: read_questions(QuestionJsonl(path=path))),
            content={"question": "b", "context": "a b", "answers": {"text": ["b"], "answer_start": [2]}},
        ),
    ]


@pytest.fixture(scope="module")
def formats(tmp_path_factory) -> dict[str, Format]:
    """Every format, by the name of its file."""
    samples = Samples(tmp_path_factory.mktemp("formats"))
    samples.write()
    found = [*json_formats(samples), *other_formats(samples), *text_formats(samples)]
    for name in ("raw", "records"):
        (samples.folder / name).mkdir()
    return {one.name: one for one in found}


@pytest.fixture(scope="module")
def folder(formats, tmp_path_factory) -> Path:
    """Folder of all files; each is valid again after its test."""
    return next(tmp_path_factory.getbasetemp().glob("formats*"))


NAMES = [
    *("words.json", "characters.json", "bpe.json", "labels.json", "records/scores.json", "records/environment.json"),
    *(
        "records/export.json",
        "run/metrics.jsonl",
        f"checkpoints/{4:09d}/progress.json",
        "index.json",
        "tokens/header.json",
    ),
    *("texts/header.json", "squad.json", "run/config.yaml", "raw/config.yaml", "user.yaml", "a.safetensors"),
    *("b.safetensors", "shortlist.safetensors", "tokens/source.values", "tokens/target.lengths"),
    *("texts/source.values", "texts/source.lengths", "a.gz", "a.bz2", "a.xz", "a.zst", "any.txt", "running.txt"),
    *("cleaned/summary.json", f"sharded/{SHARD}"),
    *("texts.jsonl", "labeled.txt", "labeled.tsv", "tagged.txt", "tagged.jsonl", "trees.conllu", "pairs.tsv"),
    *("pairs.jsonl", "pairs.parquet", "questions.jsonl"),
]


def test_every_format_is_fuzzed(formats):
    assert set(formats) == set(NAMES)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", NAMES)
def test_any_content_is_read_or_refused(name, formats, folder):
    kind, path = formats[name], folder / name
    path.write_bytes(kind.content)
    kind.read(path)

    def check(content: bytes) -> None:
        path.write_bytes(content)
        try:
            kind.read(path)
        except DragomanError as error:
            assert len(str(error).splitlines()) <= 3, error  # noqa: PT017

    @FUZZING
    @given(edits=EDITS)
    def check_bytes(edits: Any) -> None:
        check(edit_bytes(kind.content, edits))

    @FUZZING
    @given(edits=TREE_EDITS)
    def check_trees(edits: Any) -> None:
        assert kind.parse is not None
        assert kind.dump is not None
        tree = edit_tree(kind.parse(kind.content), edits)
        try:
            content = kind.dump(tree, kind.content)
        except (TypeError, ValueError, yaml.YAMLError):
            return
        check(content)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            check_bytes()
            if kind.parse is not None:
                check_trees()
        finally:
            path.write_bytes(kind.content)
