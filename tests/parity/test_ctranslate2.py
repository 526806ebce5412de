"""Imported and exported models compute what CTranslate2 computes."""

import gzip
import json
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece

import dragoman
from dragoman.data.tokenizers import BpeConfig, CharacterConfig, Tokenizer, UnigramConfig
from dragoman.errors import ConfigError
from dragoman.interop.ctranslate2 import read_model, write_model
from dragoman.interop.ctranslate2.tokenizer_files import sentencepiece_model
from dragoman.interop.imported_model import ExportedModel, ImportedModel, ImportOptions
from dragoman.interop.self_check import check_logits
from tests.corpora import corpora
from tests.ctranslate2_models import WORDS, downgrade, write_generator, write_translator
from tests.untrained_runs import PAIRS, finished_run

ctranslate2 = pytest.importorskip("ctranslate2", reason="the judge of this format")
CHECKPOINTS = corpora() / "checkpoints" / "ctranslate2-v2"
CLOSE = 2e-5
TRANSLATORS: dict[str, dict[str, Any]] = {
    "computed positions": {},
    "OPUS-MT": {
        "pre_norm": False,
        "tie": True,
        "table": "sinusoidal",
        "activation": 2,
        "attributes": {"start_from_zero_embedding": True},
        "config": {"decoder_start_token": "</s>", "add_source_eos": True},
    },
    "BART": {
        "pre_norm": False,
        "layernorm_embedding": True,
        "table": "learned",
        "activation": 3,
        "attributes": {"scale_embeddings": False},
        "config": {"decoder_start_token": "</s>", "layer_norm_epsilon": 1e-3},
    },
    "OpenNMT-py": {"table": "sinusoidal", "activation": 1},
    "relative positions": {"with_relative_position": True, "attributes": {"scale_embeddings": False}},
    "T5": {
        "relative_attention_bias": True,
        "rms_norm": True,
        "ffn_glu": True,
        "tie": True,
        "activation": 1,
        "attributes": {"scale_embeddings": False, "scale_outputs": 0.25},
        "config": {"decoder_start_token": "<blank>"},
    },
}
GENERATORS: dict[str, dict[str, Any]] = {
    "GPT-2": {"activation": 1},
    "Llama": {"rms_norm": True, "ffn_glu": True, "activation": 2, "rotary_dim": 0, "rotary_interleave": False},
    "interleaved": {"rotary_dim": 4, "rotary_interleave": True, "kv_heads": 2, "rotary_base": 500.0},
    "linear scaling": {
        "rotary_dim": 0,
        "rotary_interleave": False,
        "rotary_scaling_type": 0,
        "rotary_scaling_factor": 4,
    },
    "ALiBi": {"alibi": True},
    "post-norm": {"pre_norm": False},
}


def import_folder(path: Path) -> ImportedModel:
    """Import a folder; the logits equal those of CTranslate2."""
    model = read_model.read(path, ImportOptions())
    found = check_logits(model)
    assert found is not None
    assert found.max_difference < CLOSE
    return model


def export_again(model: ImportedModel, folder: Path, **options: Any) -> Path:
    """Export an imported model."""
    folder.mkdir()
    exported = ExportedModel(
        name="again",
        task=model.task,
        network=model.network,
        weights=model.weights,
        tokenizer=model.tokenizer,
        max_length=model.max_length,
        origin=model.origin,
        **options,
    )
    write_model.write(exported, folder)
    return folder


def translations(folder: Path, **options: Any) -> Any:
    translator = ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1)
    sources = [["w3", "w4", "w29", "</s>"], ["w7"], ["w1", "w1", "w1", "w1", "w1"]]
    return translator.translate_batch(
        sources, beam_size=4, num_hypotheses=4, return_scores=True, max_decoding_length=8, **options
    )


@pytest.mark.parametrize("name", TRANSLATORS)
def test_translators_equal_ctranslate2(name, tmp_path):
    model = import_folder(write_translator(tmp_path / "model", **TRANSLATORS[name]))
    again = export_again(model, tmp_path / "again")
    for one, other in zip(translations(tmp_path / "model"), translations(again), strict=True):
        assert one.hypotheses == other.hypotheses
        assert one.scores == pytest.approx(other.scores, abs=CLOSE)


@pytest.mark.filterwarnings("ignore:.*cut off at their length limit")
@pytest.mark.parametrize("beam_size", [1, 2, 5])
def test_searches_with_default_settings_are_equal(beam_size, tmp_path):
    folder = write_translator(tmp_path / "model", config={"add_source_eos": True})
    translator = dragoman.import_model(folder, tmp_path / "run").load()
    judge = ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1)
    texts = [" ".join(WORDS[5 + place : 8 + 2 * place]) for place in range(9)]
    for length_penalty in (0.3, 1.0):
        shared = {"beam_size": beam_size, "length_penalty": length_penalty}
        ours = translator.translate(texts, n_best=beam_size, max_length=7, **shared)
        options = {"num_hypotheses": beam_size, "return_scores": True, "max_decoding_length": 7}
        theirs = judge.translate_batch([text.split() for text in texts], **shared, **options)
        for found, expected in zip(ours, theirs, strict=True):
            assert [one.text.split() for one in found] == expected.hypotheses
            assert [one.score for one in found] == pytest.approx(expected.scores, abs=CLOSE)


@pytest.mark.parametrize("name", GENERATORS)
def test_generators_equal_ctranslate2(name, tmp_path):
    model = import_folder(write_generator(tmp_path / "model", **GENERATORS[name]))
    again = export_again(model, tmp_path / "again")
    logits = [
        np.array(ctranslate2.Generator(str(path), compute_type="float32").forward_batch([["<s>", *WORDS[5:20]]]))
        for path in (tmp_path / "model", again)
    ]
    np.testing.assert_allclose(logits[0], logits[1], atol=CLOSE)


@pytest.mark.parametrize(
    "quantization", [None, "float16", "bfloat16", "int16", "int8", "int8_float16", "int8_bfloat16"]
)
def test_number_formats_are_read_and_written(quantization, tmp_path):
    folder = write_translator(tmp_path / "model", quantization=quantization, tie=True)
    model = import_folder(folder)
    again = import_folder(export_again(model, tmp_path / "again"))
    assert again.origin.number_formats == model.origin.number_formats
    for name, array in model.weights.items():
        np.testing.assert_allclose(again.weights[name], array, rtol=1e-6, atol=1e-9, err_msg=name)


def test_float32_weights_are_equal_there_and_back(tmp_path):
    model = import_folder(write_translator(tmp_path / "model", tie=True, table="learned"))
    back = export_again(model, tmp_path / "again")
    one, other = (read_model.read_model_file(path / "model.bin") for path in (tmp_path / "model", back))
    assert one.variables.keys() == other.variables.keys()
    assert one.aliases == other.aliases
    assert all(bool((one.variables[name] == other.variables[name]).all()) for name in one.variables)
    for name in ("config.json", "shared_vocabulary.json"):
        assert (tmp_path / "model" / name).read_text() == (back / name).read_text()


@pytest.mark.parametrize("quantization", [None, "int16", "int8"])
@pytest.mark.parametrize("version", [3, 4, 5])
def test_older_versions_equal_ctranslate2(version, quantization, tmp_path):
    config = {"decoder_start_token": "</s>", "add_source_eos": True, "add_source_bos": False}
    folder = write_translator(tmp_path / "model", quantization=quantization, tie=True, config=config)
    expected = translations(folder)
    downgrade(folder, version)
    model = import_folder(folder)
    assert model.origin.version == str(version)
    again = export_again(model, tmp_path / "again")
    for one, other in zip(expected, translations(again), strict=True):
        assert one.hypotheses == other.hypotheses
        assert one.scores == pytest.approx(other.scores, abs=CLOSE)


def test_options_without_counterpart_are_refused(tmp_path):
    folder = write_generator(tmp_path / "model", sliding_window=5)
    with pytest.raises(ConfigError, match=r"sliding_window = 5 is not supported, but 0 is"):
        read_model.read(folder, ImportOptions())


@pytest.mark.skipif(not CHECKPOINTS.is_dir(), reason="no checkpoints next to the corpora")
@pytest.mark.parametrize("suffix", ["", "-i16", "-i8"])
def test_lists_of_transliterations_equal_ctranslate2(suffix, tmp_path):
    folder = CHECKPOINTS / f"aren-transliteration{suffix}"
    translator = dragoman.import_model(folder, tmp_path / "run").load()
    judge = ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1)
    generator = np.random.default_rng(0)
    letters = (folder / "source_vocabulary.txt").read_text(encoding="utf-8").split()[3:]
    words = ["محمد", "كتاب", "القاهرة", "عبدالله", "شوكولاتة", "a"]
    words += ["".join(generator.choice(letters, generator.integers(1, 11))) for _ in range(40)]
    found = translator.translate(words, beam_size=4, n_best=4)
    options = {"beam_size": 4, "num_hypotheses": 4, "return_scores": True}
    for word, ours, theirs in zip(words, found, judge.translate_batch(list(map(list, words)), **options), strict=True):
        assert [one.text for one in ours] == ["".join(tokens) for tokens in theirs.hypotheses], word
        assert [one.score for one in ours] == pytest.approx(theirs.scores, abs=CLOSE), word


@pytest.mark.parametrize("compute_type", ["float32", "bfloat16", "int8"])
def test_exported_runs_score_like_the_run(compute_type, tmp_path):
    run = finished_run(tmp_path / "run", vocabulary=BpeConfig(vocab_size=300))
    dragoman.export(run.path, tmp_path / "out", format="ctranslate2", compute_type=compute_type)
    sources, targets = zip(*PAIRS, strict=True)
    expected = [one.token_log_probs for one in dragoman.load(run.path, device="cpu").score(sources, targets)]
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "out" / "sentencepiece.model"))
    judge = ctranslate2.Translator(str(tmp_path / "out"), compute_type="float32", intra_threads=1)
    found = judge.score_batch(*(tokenizer.encode(list(texts), out_type=str) for texts in (sources, targets)))
    for ours, theirs in zip(expected, found, strict=True):
        assert theirs.log_probs == pytest.approx(ours, abs=CLOSE if compute_type == "float32" else 0.1)


def test_tokenizers_are_written_for_sentencepiece(tmp_path, shared_data):
    with gzip.open(shared_data / "multi30k" / "val.en.gz", "rt", encoding="utf-8") as file:
        texts = [unicodedata.normalize("NFC", line.strip()) for line in file][:400]
    texts += ["  two  spaces ", "1984 (100 %)", "日本語", "a_b", "É", "ﬁ ½"]
    configs = BpeConfig(vocab_size=700), UnigramConfig(vocab_size=700, normalization="nfkc"), CharacterConfig()
    for config in configs:
        ours = Tokenizer.train(lambda: ((text, text) for text in texts[:300]), config).source
        content = sentencepiece_model(ours, write_model.SYMBOLS)
        theirs = sentencepiece.SentencePieceProcessor(model_proto=content)
        for text in texts:
            assert theirs.encode(text) == ours.encode(text), (config.kind, text)
            assert theirs.decode(ours.encode(text)) == ours.decode(ours.encode(text)), (config.kind, text)


@pytest.mark.filterwarnings("ignore::dragoman.inference.TranslationWarning")
def test_tags_of_languages_are_written_around_texts(tmp_path):
    run, tags = finished_run(tmp_path / "run", vocabulary=BpeConfig(vocab_size=300)), ["eng", "deu", "fra", "ron"]
    dragoman.export(run.path, tmp_path / "out", format="ctranslate2")
    path = tmp_path / "out" / "shared_vocabulary.json"
    tokens = json.loads(path.read_text(encoding="utf-8"))
    tokens[-4:] = [f"{tag}_Latn" for tag in tags]
    path.write_text(json.dumps(tokens), encoding="utf-8")
    translator = dragoman.import_model(tmp_path / "out", tmp_path / "again", target_language="fra").load()
    assert set(translator.tokenizer.prefixes.languages) == {f"{tag}_Latn" for tag in tags}
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "out" / "sentencepiece.model"))
    judge = ctranslate2.Translator(str(tmp_path / "out"), compute_type="float32", intra_threads=1)
    order = read_model.read(tmp_path / "out", ImportOptions()).origin.orders["target"]
    for text, _ in PAIRS:
        found = translator.translate(text, source_language="deu", max_length=9, beam_size=2)
        given = ["deu_Latn", *pieces.encode(text, out_type=str)]
        [expected] = judge.translate_batch([given], target_prefix=[["fra_Latn"]], max_decoding_length=10)
        ids = order.foreign_ids[list(found[0].hypothesis.tokens)].tolist()
        assert [tokens[index] for index in ids] == expected.hypotheses[0]
        assert "Latn" not in found.text
