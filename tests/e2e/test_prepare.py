"""`dragoman data prepare` as a process, and training on the prepared corpus."""

import importlib.util
import json
import shutil
from pathlib import Path

import pytest
import yaml

from dragoman.data.preprocessing.ray_runner import ray_runner
from dragoman.data.tokenizers import Tokenizer
from dragoman.data.tokenizers.reserved_symbols import PLACEHOLDER_SYMBOLS, TERM_SYMBOLS, has_reserved_symbols
from dragoman.errors import ConfigError
from tests.e2e.test_train import refused
from tests.small_runs import dragoman, hashes, small_options, write_corpus

pytestmark = pytest.mark.slow

SHARDS = ("--source", "part.*.en", "--target", "part.*.de")
SMALL = small_options(training__max_steps=5, tokenizer__vocab_size=300)
VOCABULARY = ("--set", "tokenizer.vocab_size=300")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    """Folder with a corpus in two files per side, and the prepared corpus."""
    folder = tmp_path_factory.mktemp("prepared")
    for number in range(2):
        write_corpus(folder, pairs=200, seed=number, name=f"part.{number}")
    for side in ("en", "de"):  # duplicates
        again = (folder / f"part.0.{side}").read_text(encoding="utf-8").splitlines(keepends=True)[:5]
        with (folder / f"part.1.{side}").open("a", encoding="utf-8") as file:
            file.writelines(again)
    for side in ("en", "de"):
        (folder / f"none.{side}").write_bytes(b"")
    answer = dragoman("data", "prepare", *SHARDS, "--out", "ready", *VOCABULARY, "--shard-pairs", 97, cwd=folder)
    assert answer.returncode == 0, answer.stderr
    assert "duplicate" in answer.stderr
    assert "training pairs in 6 shards" in answer.stderr
    assert "dragoman train --prepared ready" in answer.stderr
    return folder


def test_training_on_prepared_equals_training_on_texts(prepared):
    runs = {"texts": SHARDS, "ids": ("--prepared", "ready")}
    for name, corpus in runs.items():
        answer = dragoman("train", *corpus, "--out", f"run-{name}", *SMALL, cwd=prepared)
        assert answer.returncode == 0, answer.stderr
    first, second = (prepared / f"run-{name}" for name in runs)
    for file in ("model.safetensors", "tokenizer.json"):
        assert (first / file).read_bytes() == (second / file).read_bytes()
    stores = {path.name.partition("-")[0] for path in (prepared / "cache").iterdir()}
    assert len([path for path in (prepared / "cache").iterdir() if path.name.startswith("texts-")]) == 1, stores
    environment = json.loads((second / "environment.json").read_text(encoding="utf-8"))
    assert [one["file"] for one in environment["corpora"]] == [
        "index.json",
        *(f"part.{number}.{side}" for side in ("en", "de") for number in range(2)),
    ]


def test_training_on_prepared_resumes_without_the_texts(prepared, tmp_path):
    shutil.copytree(prepared / "ready", tmp_path / "ready")
    long = small_options(training__max_steps=12, training__validate_every=4)
    tree = {"preset": "nano", "data": {"train": {"kind": "prepared", "folder": "ready"}}}
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(tree), encoding="utf-8")
    for name in ("whole", "parted"):
        answer = dragoman("train", "recipe.yaml", "--out", name, *long, cwd=tmp_path)
        assert answer.returncode == 0, answer.stderr
    (tmp_path / "parted" / "model.safetensors").unlink()
    shutil.rmtree(tmp_path / "parted" / "checkpoints" / "000000012")
    answer = dragoman("train", "--resume", "parted", cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert "continuing after step 8" in answer.stderr
    whole, parted = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "parted"))
    assert whole == parted


def test_fine_tuning_on_prepared_inherits_its_settings(prepared):
    """Noise, limits and tokenizer of the prepared corpus are used."""
    answer = dragoman("train", *SHARDS, "--out", "before", *SMALL, cwd=prepared)
    assert answer.returncode == 0, answer.stderr
    said = ("--set", "data.noise={uppercase: 0.5}", "--set", "data.max_source_length=60")
    known = ("--tokenizer", "before/tokenizer.json")
    answer = dragoman("data", "prepare", *SHARDS, *known, "--out", "noisy-again", *said, cwd=prepared)
    assert answer.returncode == 0, answer.stderr
    steps = small_options(training__max_steps=2, training__validate_every=2)
    answer = dragoman(
        "train", "--init-from", "before", "--prepared", "noisy-again", "--out", "after", *steps, cwd=prepared
    )
    assert answer.returncode == 0, answer.stderr
    data = yaml.safe_load((prepared / "after" / "config.yaml").read_text(encoding="utf-8"))["data"]
    assert data["noise"]["uppercase"] == 0.5
    assert data["max_source_length"] == 60


@pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed (pip install 'dragoman[ray]')"
)
def test_ray_writes_the_same_files(prepared):
    ray = ("--engine", "ray", "--workers", 2, "--shard-pairs", 97)
    answer = dragoman(
        "data", "prepare", *SHARDS, "--out", "by-ray", *VOCABULARY, *ray, cwd=prepared, timeout=280, fresh=True
    )
    assert answer.returncode == 0, answer.stderr
    assert hashes(prepared / "by-ray") == hashes(prepared / "ready")
    (prepared / "bad.en").write_bytes(b"caf\xe9\n" * 9)
    (prepared / "bad.de").write_bytes(b"Kaffee\n" * 9)
    bad = ("--source", "bad.en", "--target", "bad.de", "--out", "no")
    before = hashes(prepared)
    refused(dragoman("data", "prepare", *bad, *ray, cwd=prepared, timeout=280, fresh=True), "bad.en:1: not UTF-8")
    assert hashes(prepared) == before


ASKED = {
    "existing folder": ((*SHARDS, "--out", "ready"), ["ready: exists, and corpora are never overwritten"]),
    "no corpus": (("--out", "new"), ["No corpus. Give --source and --target"]),
    "one side": (("--source", "part.0.en", "--out", "new"), ["--source part.0.en is one side", "--target too"]),
    "no file": (("--source", "x.*", "--target", "y.*", "--out", "new"), ["x.*: no file matches"]),
    "other files": (("--source", "part.*.en", "--target", "part.0.de", "--out", "new"), ["part.*.en is 2 files"]),
    "a prepared corpus": (
        ("--out", "new", "--set", "data.train={kind: prepared, folder: ready}"),
        ["data.train.folder = ready: is already prepared"],
    ),
    "workers of one process": ((*SHARDS, "--out", "new", "--workers", "2"), ["--workers"]),
    "texts that are empty": (("--source", "none.en", "--target", "none.de", "--out", "new"), ["none.en"]),
    "another tokenizer": (
        (*SHARDS, "--out", "new", "--tokenizer", "ready/tokenizer.json", "--set", "tokenizer.vocab_size=400"),
        ["tokenizer: differs from ready/tokenizer.json. Leave it out"],
    ),
    "no tokenizer": (
        ("--source", "x.*", "--target", "y.*", "--out", "new", "--tokenizer", "index.json"),
        ["index.json: cannot be read"],
    ),
}


@pytest.mark.parametrize("name", ASKED)
def test_prepare_errors(prepared, name):
    before = hashes(prepared)
    refused(dragoman("data", "prepare", *ASKED[name][0], cwd=prepared), *ASKED[name][1])
    assert hashes(prepared) == before


def test_prepare_needs_an_output_folder(prepared):
    answer = dragoman("data", "prepare", *SHARDS, cwd=prepared)
    assert answer.returncode == 2
    assert "--output-dir" in answer.stderr


TRAINED = {
    "a folder without a corpus": (
        ("--prepared", "cache"),
        ["cache/index.json: cannot be read", "dragoman data prepare"],
    ),
    "further texts": (
        ("--prepared", "ready", "--source", "part.0.en"),
        ["--prepared contains training and validation data"],
    ),
    "another tokenizer": (
        ("--prepared", "ready", "--set", "tokenizer.vocab_size=400"),
        ["tokenizer: differs from the tokenizer of ready", "Leave it out"],
    ),
    "other limits": (
        ("--prepared", "ready", "--set", "data.max_source_length=7"),
        ["data.max_source_length = 7, but ready"],
    ),
    "a temperature of one corpus": (("--prepared", "ready", "--set", "data.temperature=5"), ["and one was prepared"]),
    "a held-out part": (
        ("--prepared", "ready", "--set", "data.valid_size=7"),
        ["valid_size"],
    ),
}


@pytest.mark.parametrize("name", TRAINED)
def test_training_on_prepared_errors(prepared, name):
    refused(dragoman("train", *TRAINED[name][0], "--out", "new", cwd=prepared), *TRAINED[name][1])
    assert not (prepared / "new").exists()


def test_damaged_shard_is_one_message(prepared, tmp_path):
    shutil.copytree(prepared / "ready", tmp_path / "ready")
    header = tmp_path / "ready" / "shards" / "00001" / "ids" / "header.json"
    header.write_text(header.read_text()[:99])
    answer = dragoman("train", "--prepared", "ready", "--out", "new", cwd=tmp_path)
    refused(answer, "ready/shards/00001/ids", "damaged")
    assert not (tmp_path / "new").exists()


def test_noise_of_the_prepared_corpus_is_applied(prepared):
    noise = ("--set", "data.noise={uppercase: 0.5}")
    answer = dragoman("data", "prepare", *SHARDS, "--out", "noisy", *VOCABULARY, *noise, cwd=prepared)
    assert answer.returncode == 0, answer.stderr
    runs = {"noisy": ("--prepared", "noisy"), "noisy-texts": (*SHARDS, *noise), "plain": ("--prepared", "ready")}
    for name, corpus in runs.items():
        answer = dragoman("train", *corpus, "--out", f"run-{name}", *SMALL, cwd=prepared)
        assert answer.returncode == 0, answer.stderr
    first, second, plain = ((prepared / f"run-{name}" / "model.safetensors").read_bytes() for name in runs)
    assert first == second != plain


def test_augmentation_of_the_prepared_corpus_is_applied(prepared):
    """The vocabulary gets the reserved symbols, and both ways train on the same marked pairs."""
    marks = ("--set", "data.augmentation={terminology: {share: 0.7}, placeholders: {share: 0.4}}")
    answer = dragoman("data", "prepare", *SHARDS, "--out", "marked", *VOCABULARY, *marks, cwd=prepared)
    assert answer.returncode == 0, answer.stderr
    for name, corpus in {"marked": ("--prepared", "marked"), "marked-texts": (*SHARDS, *marks)}.items():
        answer = dragoman("train", *corpus, "--out", f"run-{name}", *SMALL, cwd=prepared)
        assert answer.returncode == 0, answer.stderr
    folders = [prepared / f"run-{name}" for name in ("marked", "marked-texts")]
    tokenizer = Tokenizer.load(folders[0] / "tokenizer.json")
    assert has_reserved_symbols(tokenizer.source, (*TERM_SYMBOLS, *PLACEHOLDER_SYMBOLS))
    first, second = ((folder / "model.safetensors").read_bytes() for folder in folders)
    assert first == second


def test_files_of_other_preparations_are_kept(prepared, tmp_path):
    for name in (".ready.v2.0123456789abcdef.tmp", ".ready.0123456789abcdef.tmp"):
        (tmp_path / name).mkdir()
    files = [
        option for side in ("en", "de") for option in ("--source" if side == "en" else "--target", f"part.0.{side}")
    ]
    answer = dragoman("data", "prepare", *files, "--out", tmp_path / "ready", *VOCABULARY, cwd=prepared)
    assert answer.returncode == 0, answer.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == [".ready.v2.0123456789abcdef.tmp", "ready"]


@pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed (pip install 'dragoman[ray]')"
)
def test_missing_ray_cluster_is_an_error(monkeypatch):
    import ray

    def refuse(**_: object) -> None:
        raise ConnectionError("refused")

    monkeypatch.setattr(ray, "init", refuse)
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with (
        pytest.raises(ConfigError, match=r"RAY_ADDRESS = 127\.0\.0\.1:1"),
        ray_runner(2),
    ):
        pass
