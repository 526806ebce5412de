"""A pulled model of every format is the import of its whole folder, and no other files are downloaded."""

import importlib.util
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import dragoman
from dragoman.data.tokenizers import UnigramConfig
from dragoman.interop.recognize_format import PARTNERS
from dragoman.runs.folder import RunFolder
from tests import fairseq_models, joeynmt_models, untrained_runs
from tests.hub_stand_in import StandIn, connected

pytest.importorskip("huggingface_hub", reason="the extra `hub` is not installed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::dragoman.errors.TextWarning"),
    pytest.mark.filterwarnings("ignore:PyTorch runs"),
    pytest.mark.filterwarnings("ignore:Use 'content="),
]
NAME = "org/model"
DECOYS = {
    **dict.fromkeys(("tf_model.h5", "flax_model.msgpack", "rust_model.ot", "training_args.bin", "README.md"), b"x"),
    **dict.fromkeys(("onnx/model.onnx", "onnx/config.json", "optimizer.bin", "scheduler.bin", ".gitattributes"), b"x"),
}
"""Files of repositories that no import reads."""


def models_of(name: str) -> ModuleType:
    """Return a module of test models; skip the test if it lacks a package."""
    return pytest.importorskip(f"tests.{name}", reason="the package of the format is not installed")


def write_huggingface(name: str, module: str) -> Callable[[Path], object]:
    def write(folder: Path) -> None:
        folder.mkdir()
        getattr(models_of(module), f"write_{name}")(folder)

    return write


def write_shards(folder: Path) -> None:
    """Write a model in several files, and its pickle, which is not read."""
    folder.mkdir()
    model = models_of("huggingface_decoders").write_gpt2(folder)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="20KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 1
    (folder / "pytorch_model.bin").write_bytes(b"x")


def write_pickle(folder: Path) -> None:
    folder.mkdir()
    model = models_of("huggingface_decoders").write_gpt2(folder)
    (folder / "model.safetensors").unlink()
    torch = pytest.importorskip("torch")
    torch.save(model.state_dict(), folder / "pytorch_model.bin")


def write_export(format_name: str, **options: Any) -> Callable[[Path], object]:
    def write(folder: Path) -> None:
        run = untrained_runs.finished_run(folder.with_name("run"), vocabulary=UnigramConfig(vocab_size=300))
        dragoman.export(run.path, folder, format=format_name, **options)

    return write


def write_ctranslate2(folder: Path) -> None:
    models_of("ctranslate2_models").write_translator(folder)


def write_gguf(folder: Path) -> None:
    folder.mkdir()
    models = models_of("gguf_models")
    models.write_gguf(folder / "model.Q8_0.gguf", models.random_model("llama"))


def write_marian(folder: Path) -> None:
    folder.mkdir()
    PARTNERS["marian"].write(models_of("marian_students").student(), folder)  # type: ignore[misc]


def write_g2p(folder: Path) -> None:
    spec = importlib.util.find_spec("g2p_en")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("the package g2p-en is not installed")
    folder.mkdir()
    shutil.copy(Path(spec.submodule_search_locations[0], "checkpoint20.npz"), folder)


def write_fairseq(folder: Path) -> None:
    folder.mkdir()
    fairseq_models.write_folder(folder, fairseq_models.settings())
    merges = ["t w", "tw o</w>", "d o", "g s</w>"]
    (folder / "bpecodes").write_text("#version: 0.2\n" + "".join(f"{one}\n" for one in merges))


def write_joeynmt(folder: Path) -> None:
    folder.mkdir()
    joeynmt_models.write_folder(folder, joeynmt_models.settings(norm="pre"))


WRITERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "opus-mt": ("huggingface", write_huggingface("marian", "huggingface_models")),
    "nllb": ("huggingface", write_huggingface("nllb", "huggingface_models")),
    "m2m": ("huggingface", write_huggingface("m2m_100", "huggingface_models")),
    "t5": ("huggingface", write_huggingface("t5", "huggingface_models")),
    "smollm": ("huggingface", write_huggingface("smollm", "huggingface_decoders")),
    "bert": ("huggingface", write_huggingface("bert", "huggingface_encoders")),
    "shards": ("huggingface", write_shards),
    "pickle": ("huggingface", write_pickle),
    "ctranslate2": ("ctranslate2", write_ctranslate2),
    "argos": ("argos", write_export("argos", languages=("en", "de"))),
    "gguf": ("gguf", write_gguf),
    "marian": ("marian", write_marian),
    "fairseq": ("fairseq", write_fairseq),
    "joeynmt": ("joeynmt", write_joeynmt),
    "g2p": ("g2p_en", write_g2p),
}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    with connected(tmp_path / "cache", "hf_secret", monkeypatch) as state:
        yield state


@pytest.mark.parametrize("model", WRITERS)
def test_pulled_model_is_the_import_of_its_folder(model: str, server: StandIn, tmp_path: Path) -> None:
    format_name, write = WRITERS[model]
    folder = tmp_path / "model"
    write(folder)
    server.add_folder(NAME, folder, **DECOYS)
    result = dragoman.pull(NAME, tmp_path / "pulled")
    assert result.format == format_name
    files = [one for one in folder.rglob("*") if one.is_file()]
    imported = dragoman.import_model(folder if len(files) > 1 else files[0], tmp_path / "imported")
    ours, theirs = RunFolder(result.path), RunFolder(imported.path)
    assert ours.weights.read_bytes() == theirs.weights.read_bytes()
    assert ours.tokenizer.read_bytes() == theirs.tokenizer.read_bytes()
    assert ours.read_raw_config() == theirs.read_raw_config()
    assert ours.read_origin()["files"] == theirs.read_origin()["files"]
    assert ours.read_origin()["documents"] == theirs.read_origin()["documents"]
    assert result.imported is not None
    assert result.imported.lines() == imported.lines()
    assert not set(server.downloads()) & {*DECOYS, *(["pytorch_model.bin"] if model == "shards" else [])}


def test_every_format_is_pulled() -> None:
    assert {name for name, _ in WRITERS.values()} == {name for name, one in PARTNERS.items() if one.files.weights}
