"""Multilingual models of transformers, imported: the same symbols around texts, and the same greedy outputs."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.data.tokenizers import EOS, DirectionWarning
from dragoman.decoding import DecodingConfig
from dragoman.errors import ConfigError
from dragoman.inference import TranslationWarning, Translator
from dragoman.interop.huggingface.partner import read
from dragoman.interop.imported_model import ImportedModel, ImportOptions
from dragoman.interop.self_check import check_logits, loaded_network
from tests.huggingface_models import WRITERS, sentences

transformers = pytest.importorskip("transformers", reason="transformers is the judge")
TEXTS = sentences(12, seed=11)
LANGUAGES = {
    "mbart": ("en_XX", "ro_RO"),
    "m2m_100": ("en", "fr"),
    "nllb": ("eng_Latn", "fra_Latn"),
    "bart": (None, None),
    "t5": (None, None),
    "marian": (None, None),
}
_written: dict[str, tuple[Path, Any, ImportedModel]] = {}


@pytest.fixture
def written(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, Any, ImportedModel]:
    """Return a family, its folder, the model of transformers and the import of it."""
    if request.param not in _written:
        folder = tmp_path_factory.mktemp(request.param)
        _written[request.param] = folder, WRITERS[request.param](folder), read(folder, ImportOptions())
    return request.param, *_written[request.param]


def foreign(model: ImportedModel, side: str, ids: list[int]) -> list[int]:
    return [int(model.origin.orders[side].foreign_ids[index]) for index in ids]


def judge_of(folder: Path, source: str | None, target: str | None) -> Any:
    given = {} if source is None else {"src_lang": source, "tgt_lang": target}
    return transformers.AutoTokenizer.from_pretrained(folder, **given)


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
@pytest.mark.parametrize("written", LANGUAGES, indirect=True)
def test_symbols_around_texts_equal_transformers(written: tuple[str, Path, Any, ImportedModel]) -> None:
    family, folder, _, model = written
    judge, direction = judge_of(folder, *LANGUAGES[family]), model.tokenizer.prefixes.resolve(*LANGUAGES[family])
    for text in TEXTS:
        [ids] = direction.encode_sources(model.tokenizer.source, [text])
        assert foreign(model, "source", [*ids, EOS]) == judge(text)["input_ids"]
        [ids] = direction.encode_targets(model.tokenizer.target, [text])
        assert foreign(model, "target", [*ids, EOS]) == judge(text_target=text)["input_ids"]


@pytest.mark.parametrize("written", ["mbart", "m2m_100", "nllb", "bart"], indirect=True)
def test_greedy_outputs_equal_transformers(written: tuple[str, Path, Any, ImportedModel]) -> None:
    family, folder, network, model = written
    source, target = LANGUAGES[family]
    judge = judge_of(folder, source, target)
    translator = Translator(loaded_network(model), model.tokenizer, config=DecodingConfig(beam_size=1, max_length=20))
    first = {"bart": "<s>", "m2m_100": "__fr__"}.get(family, target)
    forced = {"forced_bos_token_id": judge.convert_tokens_to_ids(first)}
    given = judge(TEXTS, return_tensors="pt", padding=True)
    options = {"num_beams": 1, "max_new_tokens": 22, "early_stopping": False, **forced}
    found = network.generate(given["input_ids"], attention_mask=given["attention_mask"], **options)
    languages: Any = {} if source is None else {"source_language": source, "target_language": target}
    limits: Any = {"max_length_ratio": 0.0, "max_length_offset": 20}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TranslationWarning)  # random models reach the limit
        results = translator.translate(TEXTS, **languages, **limits)
    for row, result in zip(found.tolist(), results, strict=True):
        ours = foreign(model, "target", list(result[0].hypothesis.tokens))
        assert ours == row[1 : 1 + len(ours)]
        assert ours[0] == forced["forced_bos_token_id"]


def test_tags_of_marian_precede_the_source(tmp_path: Path) -> None:
    WRITERS["marian"](tmp_path)
    vocab = json.loads((tmp_path / "vocab.json").read_text(encoding="utf-8"))
    replaced = list(vocab)[-3:-1]  # the last pieces before <pad>
    ids = [vocab.pop(piece) for piece in replaced]
    (tmp_path / "vocab.json").write_text(json.dumps(vocab | dict(zip((">>fra<<", ">>ron<<"), ids, strict=True))))
    model = read(tmp_path, ImportOptions(target_language="ron"))
    direction = model.tokenizer.prefixes.resolve()
    assert foreign(model, "source", list(direction.source)) == [ids[1]]
    assert foreign(model, "source", list(model.tokenizer.prefixes.resolve(None, "fra").source)) == [ids[0]]
    assert direction.target == ()
    with pytest.raises(ConfigError, match="source_language = 'en' has no effect"):
        model.tokenizer.prefixes.resolve("en", "fra")


def test_words_of_t5_name_the_languages(tmp_path: Path) -> None:
    WRITERS["t5"](tmp_path)
    path = tmp_path / "config.json"
    tree = json.loads(path.read_text())
    tree["task_specific_params"] = {
        "summarization": {"prefix": "summarize: "},
        "translation_en_to_de": {"prefix": "translate English to German: "},
        "translation_en_to_fr": {"prefix": "translate English to French: "},
    }
    path.write_text(json.dumps(tree))
    prefixes = read(tmp_path, ImportOptions()).tokenizer.prefixes
    assert prefixes.resolve("en", "fr").text == "translate English to French: "
    assert prefixes.resolve().text == ""
    with pytest.warns(DirectionWarning, match="fr to de was not trained"):
        prefixes.resolve("fr", "de")


def test_default_languages_come_from_the_import(tmp_path: Path) -> None:
    WRITERS["nllb"](tmp_path)
    prefixes = read(tmp_path, ImportOptions(source_language="eng", target_language="ron_Latn")).tokenizer.prefixes
    assert (prefixes.source_language, prefixes.target_language) == ("eng_Latn", "ron_Latn")
    assert prefixes.resolve() == prefixes.resolve("eng_Latn", "ron_Latn") != prefixes.resolve(None, "fra_Latn")
    with pytest.raises(ConfigError, match="target_language = 'zz' is no language of this model"):
        read(tmp_path, ImportOptions(target_language="zz"))


@pytest.mark.parametrize("family", ["nllb", "mbart"])
def test_languages_after_the_end_symbol_equal_transformers(tmp_path: Path, family: str) -> None:
    """NLLB with its old order of symbols, and the first mBART, whose decoder starts with the target language."""
    network = WRITERS[family](tmp_path)
    source, target = LANGUAGES[family]
    path = tmp_path / "tokenizer_config.json"
    settings = json.loads(path.read_text()) | {"legacy_behaviour": True}
    if family == "mbart":
        settings |= {"tokenizer_class": "MBartTokenizer"}
    path.write_text(json.dumps(settings))
    before = judge_of(tmp_path, source, target)
    start, languages = 2, {"target_language": target}
    if family == "mbart":
        start, languages = before.convert_tokens_to_ids(target), {}
    for name in ("config.json", "generation_config.json"):
        tree = json.loads((tmp_path / name).read_text()) | {"decoder_start_token_id": start}
        (tmp_path / name).write_text(json.dumps(tree))
    model = read(tmp_path, ImportOptions())
    assert not model.network.source_eos  # type: ignore[union-attr]  # a translator
    assert check_logits(model) is not None
    translator = Translator(loaded_network(model), model.tokenizer, config=DecodingConfig(beam_size=1, max_length=20))
    tag = before.convert_tokens_to_ids(source)
    forced = before.convert_tokens_to_ids(target) if family == "nllb" else None
    direction = model.tokenizer.prefixes.resolve(source, target)
    for text in TEXTS:
        plain = before(text, add_special_tokens=False)["input_ids"]
        ids = [*plain, 2, tag]
        [own] = direction.encode_sources(model.tokenizer.source, [text])
        assert foreign(model, "source", own) == ids
        given = torch.tensor([ids])
        found = network.generate(
            given,
            attention_mask=torch.ones_like(given),
            num_beams=1,
            max_new_tokens=22,
            early_stopping=False,
            decoder_start_token_id=start,
            forced_bos_token_id=forced,
            suppress_tokens=[1, *([start] if family == "mbart" else [])],
        )[0].tolist()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TranslationWarning)  # random models reach the limit
            limits: Any = {"max_length_ratio": 0.0, "max_length_offset": 20}
            result = translator.translate(text, source_language=source, **languages, **limits)
        ours = foreign(model, "target", list(result[0].hypothesis.tokens))
        assert ours == found[1 : 1 + len(ours)]
    if family == "mbart":
        assert model.tokenizer.prefixes.target_language == target
        with pytest.warns(DirectionWarning, match="en_XX to de_DE was not trained"):
            model.tokenizer.prefixes.resolve("en_XX", "de_DE")
