"""Models that CTranslate2's own converter makes from transformers give CTranslate2's outputs here."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dragoman
from tests import huggingface_decoders, huggingface_models
from tests.huggingface_models import sentences

ctranslate2 = pytest.importorskip("ctranslate2", reason="the judge of this format")
transformers = pytest.importorskip("transformers", reason="the converter reads its models")
TRANSLATORS = ("t5", "t5_v1_1", "marian")
GENERATORS = ("gpt2", "llama", "smollm")
TEXTS = sentences(20, seed=5)
pytestmark = pytest.mark.filterwarnings("ignore")


def convert(write: Callable[[Path], Any], root: Path) -> tuple[Path, Any]:
    """Write a model of transformers, and convert it; return the folder and the tokenizer of transformers."""
    (root / "original").mkdir()
    write(root / "original")
    files = [
        name
        for name in ("tokenizer.json", "spiece.model", "source.spm", "target.spm")
        if (root / "original" / name).exists()
    ]
    converter = ctranslate2.converters.TransformersConverter(str(root / "original"), copy_files=files)
    converter.convert(str(root / "converted"))
    return root / "converted", transformers.AutoTokenizer.from_pretrained(root / "original")


def tokens_of(tokenizer: Any, text: str) -> list[str]:
    return list(tokenizer.convert_ids_to_tokens(tokenizer.encode(text)))


@pytest.mark.parametrize("family", TRANSLATORS)
def test_converted_translators_give_the_outputs_of_ctranslate2(family: str, tmp_path: Path) -> None:
    folder, tokenizer = convert(getattr(huggingface_models, f"write_{family}"), tmp_path)
    imported = dragoman.import_model(folder, tmp_path / "run")
    assert imported.logits is not None
    judge = ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1)
    given = [tokens_of(tokenizer, text) for text in TEXTS]
    expected = judge.translate_batch(given, beam_size=1, max_decoding_length=12)
    model = imported.load()
    found = model.translate(TEXTS, beam_size=1, max_length=12)
    order = orders(tmp_path)
    vocabulary = json.loads((folder / "shared_vocabulary.json").read_text())
    for ours, theirs in zip(found, expected, strict=True):
        ids = [order[token] for token in ours[0].hypothesis.tokens]
        assert [vocabulary[index] for index in ids] == theirs.hypotheses[0]


def orders(root: Path) -> list[int]:
    """Return CTranslate2's id of each of our ids."""
    from dragoman.interop.vocabulary_order import VocabularyOrder

    tree = json.loads((root / "run" / "origin.json").read_text())
    return VocabularyOrder.from_json(tree["orders"]["target"]).foreign_ids.tolist()


@pytest.mark.parametrize("family", GENERATORS)
def test_converted_generators_give_the_outputs_of_ctranslate2(family: str, tmp_path: Path) -> None:
    folder, tokenizer = convert(getattr(huggingface_decoders, f"write_{family}"), tmp_path)
    model = dragoman.import_model(folder, tmp_path / "run").load()
    judge = ctranslate2.Generator(str(folder), compute_type="float32", intra_threads=1)
    given = [tokens_of(tokenizer, text) for text in TEXTS]
    expected = judge.generate_batch(given, max_length=12, include_prompt_in_result=False, min_length=0)
    found = model.generate(TEXTS, max_new_tokens=12, temperature=0)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.text == tokenizer.decode(theirs.sequences_ids[0], skip_special_tokens=True)
