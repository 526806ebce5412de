"""Encoder-decoder models of transformers, imported: the same logits, tokens and tensors."""

import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from dragoman.inference.backends.torch_backend import TorchBackend
from dragoman.inference.scheduler import Request, run_requests
from dragoman.inference.translation_result import TranslationWarning
from dragoman.inference.translator import Translator
from dragoman.interop.huggingface.checkpoint_files import read_weights
from dragoman.interop.huggingface.families import bart, t5
from dragoman.interop.huggingface.partner import read, recognizes
from dragoman.interop.huggingface.tokenizer_files import M2M100_LANGUAGES
from dragoman.interop.huggingface.write_model import write
from dragoman.interop.imported_model import ExportedModel, ImportedModel, ImportOptions
from dragoman.interop.self_check import check_logits, loaded_network
from dragoman.models.special_symbols import EOS
from tests.huggingface_models import WRITERS, sentences

transformers = pytest.importorskip("transformers", reason="transformers is the judge")
FAMILIES = {family.name: family for family in (*bart.FAMILIES, *t5.FAMILIES)}


@pytest.fixture(scope="module", params=WRITERS)
def imported(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ImportedModel]:
    folder = tmp_path_factory.mktemp(request.param)
    WRITERS[request.param](folder)
    return folder, read(folder, ImportOptions())


def test_logits_equal_transformers(imported: tuple[Path, ImportedModel]) -> None:
    folder, model = imported
    assert recognizes(folder)
    found = check_logits(model)
    assert found is not None
    assert found.max_difference < 3e-4
    assert found.same_best == found.positions


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
def test_tokens_equal_transformers(imported: tuple[Path, ImportedModel]) -> None:
    folder, model = imported
    theirs, order = transformers.AutoTokenizer.from_pretrained(folder), model.origin.orders["source"]
    for text in [*sentences(50, seed=3), "", "  two  spaces ", "Ünknown 語 😀 _x", "a\tb\nc"]:
        ids = [int(order.foreign_ids[index]) for index in model.tokenizer.source.encode(text)]
        assert ids == theirs(text, add_special_tokens=False)["input_ids"], text


def test_exported_folder_has_the_same_tensors_and_logits(imported: tuple[Path, ImportedModel], tmp_path: Path) -> None:
    folder, model = imported
    write(exported(model), tmp_path)
    before, after = (read_weights(one).tensors for one in (folder, tmp_path))
    assert after.keys() == before.keys() - model.tensors.left_over.keys()
    for name, array in after.items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)
    back = read(tmp_path, ImportOptions())
    found = check_logits(back)
    assert found is not None
    assert found.max_difference < 3e-4
    assert back.tokenizer.fingerprint == model.tokenizer.fingerprint
    for name, weight in back.weights.items():
        np.testing.assert_array_equal(weight, model.weights[name], err_msg=name)


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
def test_exported_tokenizer_equals_the_original(imported: tuple[Path, ImportedModel], tmp_path: Path) -> None:
    folder, model = imported
    write(exported(model), tmp_path)
    before, after = (transformers.AutoTokenizer.from_pretrained(one) for one in (folder, tmp_path))
    for text in sentences(9, seed=4):
        assert after(text)["input_ids"] == before(text)["input_ids"]


def test_layout_of_madlad_is_read(tmp_path: Path) -> None:
    """MADLAD names the shared embedding after the decoder, and has a projection of its own."""
    WRITERS["t5_v1_1"](tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["decoder.embed_tokens.weight"] = tensors.pop("shared.weight")
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((tmp_path / "config.json").read_text()) | {"tie_word_embeddings": False}
    del config["scale_decoder_outputs"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = read(tmp_path, ImportOptions())
    assert model.network.tie_embeddings == "none"
    found = check_logits(model)
    assert found is not None
    assert found.max_difference < 3e-4


def test_half_precision_comes_back_unchanged(tmp_path: Path) -> None:
    model = WRITERS["marian"](tmp_path).to(torch.bfloat16)
    model.save_pretrained(tmp_path)
    here = tmp_path / "back"
    here.mkdir()
    write(exported(read(tmp_path, ImportOptions())), here)
    back = transformers.MarianMTModel.from_pretrained(here)
    assert back.dtype == torch.bfloat16
    for name, parameter in back.named_parameters():
        assert torch.equal(parameter, model.get_parameter(name)), name


def exported(model: ImportedModel) -> ExportedModel:
    """Return an imported model for a writer, as the export of its run does."""
    return ExportedModel(
        name="run",
        task=model.task,
        network=model.network,
        weights=model.weights,
        tokenizer=model.tokenizer,
        max_length=model.max_length,
        decoding=model.decoding,
        origin=model.origin,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"num_beams": 1, "early_stopping": False, "length_penalty": 1.0},
        {"num_beams": 3, "length_penalty": 0.6, "early_stopping": False, "min_length": 5},
    ],
)
def test_outputs_equal_generate(imported: tuple[Path, ImportedModel], changes: dict[str, Any]) -> None:
    """With the settings of the model, or `changes`, of which our search reads the same file."""
    folder, model = imported
    theirs = getattr(transformers, FAMILIES[str(model.origin.family)].model_class).from_pretrained(folder)
    settings = theirs.generation_config
    settings.update(**changes, forced_bos_token_id=None)
    settings.save_pretrained(folder)
    model = read(folder, ImportOptions())
    sources = [model.tokenizer.source.encode(text) for text in sentences(50, seed=3)]
    orders, language = model.origin.orders, len(model.tokenizer.prefixes.target)
    # Here, outputs begin with no language; the limits of the import do not count it.
    shortest, longest = model.decoding.min_length, model.decoding.max_length + language
    limits = {"min_length": shortest and shortest + language, "max_length": longest, "max_length_offset": longest}
    decoding = model.decoding.model_copy(update=limits)
    backend = TorchBackend(loaded_network(model), tokenizer=model.tokenizer)
    requests = [Request(source, decoding, decoding.max_length) for source in sources]
    found = [best.tokens for [best] in run_requests(backend, requests, batch_tokens=2000)]
    expected = generate(theirs, [orders["source"].foreign_ids[[*source, EOS]].tolist() for source in sources])
    assert [orders["target"].foreign_ids[list(tokens)].tolist() for tokens in found] == expected


def test_language_codes_of_m2m100_equal_transformers() -> None:
    theirs = transformers.models.m2m_100.tokenization_m2m_100.FAIRSEQ_LANGUAGE_CODES
    assert {name: codes.split() for name, codes in M2M100_LANGUAGES.items()} == theirs


LANGUAGES = {"m2m_100": ("en", "fr"), "nllb": ("eng_Latn", "fra_Latn"), "mbart": ("en_XX", "ro_RO")}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
@pytest.mark.parametrize("name", ["marian", "bart", "pegasus", "t5", *LANGUAGES])
def test_translated_texts_equal_transformers(name: str, tmp_path: Path) -> None:
    model = WRITERS[name](tmp_path)
    source, target = LANGUAGES.get(name, (None, None))
    read_here = read(tmp_path, ImportOptions(source_language=source, target_language=target))
    translator = Translator(loaded_network(read_here), read_here.tokenizer, config=read_here.decoding)
    texts = sentences(12, seed=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TranslationWarning)
        found = [result.text for result in translator.translate(texts)]
    options = {"src_lang": source} if source else {}
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path, **options)
    forced = {"forced_bos_token_id": tokenizer.convert_tokens_to_ids(f"__{target}__")} if name == "m2m_100" else {}
    if name in ("nllb", "mbart"):
        forced = {"forced_bos_token_id": tokenizer.convert_tokens_to_ids(target)}
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    with torch.no_grad():
        rows = model.generate(batch["input_ids"], attention_mask=batch["attention_mask"], **forced)
    expected = tokenizer.batch_decode(rows, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    # The tokenizer of M2M100 in transformers 5.23 does not know that tags of languages are no text.
    expected = [re.sub("__[a-z]+__", "", text) for text in expected]
    assert [without_unknown(text) for text in found] == [without_unknown(text) for text in expected]


def without_unknown(text: str) -> str:
    """Return a text without unknown symbols, which some tokenizers of transformers leave out, and without spaces."""
    return "".join(text.replace("⁇", "").replace("<unk>", "").split())


@torch.no_grad()
def generate(model: Any, sources: list[list[int]]) -> list[list[int]]:
    """Return the outputs of transformers, without start and end symbol."""
    config, width = model.config, max(map(len, sources))
    ids = torch.tensor([[*row, *[config.pad_token_id] * (width - len(row))] for row in sources])
    lengths = torch.tensor([len(row) for row in sources])
    rows = model.generate(ids, attention_mask=(torch.arange(width) < lengths[:, None]).long())[:, 1:].tolist()
    ends = (row.index(config.eos_token_id) if config.eos_token_id in row else len(row) for row in rows)
    return [row[:end] for row, end in zip(rows, ends, strict=True)]
