"""Translators of several languages: tags and words before sources, forced tokens at the start of outputs."""

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from dragoman.data.tokenizers import (
    Direction,
    DirectionWarning,
    ImportedTokenizerConfig,
    Language,
    Prefixes,
    Tokenizer,
)
from dragoman.decoding import DecodingConfig, SamplingConfig
from dragoman.decoding.hypothesis import OutputStart
from dragoman.errors import ConfigError
from dragoman.inference import Translator
from dragoman.inference.backends.cpu_backend import CpuBackend
from dragoman.inference.backends.torch_backend import TorchBackend
from dragoman.inference.sample_translations import sample_translations
from dragoman.inference.scheduler import Request, run_requests
from dragoman.models.config import EncoderDecoderConfig
from dragoman.models.special_symbols import BOS, EOS
from dragoman.models.weight_storage import get_weights
from dragoman.runs.distill_and_backtranslate import beam_search_rewriter
from dragoman.runs.evaluate import analyse_run
from tests.partner_tokenizers import imported
from tests.random_models import NO_DROPOUT, random_transformer

SIDE = imported("byte_level")
SIZE = len(SIDE)
(DE,) = SIDE.encode("<extra>")
(FR,) = SIDE.encode("plain_token")
LANGUAGES = {"de_DE": Language(DE, "German"), "fr_XX": Language(FR, "French"), "en_XX": Language(SIZE - 3, "English")}
NLLB = Prefixes(source=("source_language",), target=("target_language",), languages=LANGUAGES)
TEXTS = ["the dog", "", "a quick brown fox jumps", "dogs"]
CONFIG = EncoderDecoderConfig(
    d_model=12, num_heads=2, d_ff=17, encoder_layers=1, decoder_layers=1, tie_embeddings="all", dropout=NO_DROPOUT
)
MODEL = random_transformer(CONFIG, source_vocabulary=SIZE, target_vocabulary=SIZE)
with torch.no_grad():
    for name, parameter in MODEL.named_parameters():
        if name.endswith("unembedding.bias"):
            parameter[EOS] += 2.0  # so that outputs end
DECODING = DecodingConfig(beam_size=3, n_best=2, max_length=9, max_length_ratio=1.0, max_length_offset=3)


def cpu_model() -> CpuBackend:
    pytest.importorskip("dragoman_cpu", reason="the CPU library is not installed")
    weights = {name: tensor.numpy() for name, tensor in get_weights(MODEL).items()}
    sizes = {"source_vocabulary": SIZE, "target_vocabulary": SIZE}
    return CpuBackend(CONFIG.model_dump(mode="json"), weights, compute_type="float32", **sizes)


def translator(backend: str = "torch", prefixes: Prefixes = NLLB) -> Translator:
    tokenizer = Tokenizer(SIDE, SIDE, ImportedTokenizerConfig(), prefixes)
    return Translator(MODEL if backend == "torch" else cpu_model(), tokenizer, config=DECODING)


pytestmark = pytest.mark.filterwarnings("ignore::dragoman.inference.TranslationWarning")
BACKENDS = pytest.mark.parametrize("backend", ["torch", "cpu"])
PAIR: Any = {"source_language": "en_XX", "target_language": "de_DE"}


@BACKENDS
@pytest.mark.parametrize("beam_size", [1, 3])
def test_outputs_begin_with_the_target_language(backend: str, beam_size: int) -> None:
    found = translator(backend).translate(TEXTS, beam_size=beam_size, n_best=beam_size, **PAIR)
    for text, results in zip(TEXTS, found, strict=True):
        for one in results:
            assert one.hypothesis.tokens[:1] == (DE,) * bool(text)
            assert one.hypothesis.token_log_probs[:1] == (0.0,) * bool(text)
            assert "<extra>" not in one.text
            assert len(one.hypothesis.tokens) <= 1 + DECODING.output_limit(1 + len(SIDE.encode(text)))


@BACKENDS
@pytest.mark.parametrize("beam_size", [1, 3])
def test_forced_decoding_gives_the_score_of_a_search(backend: str, beam_size: int) -> None:
    model = translator(backend)
    for text in filter(None, TEXTS):
        hypothesis = model.translate(text, beam_size=beam_size, n_best=1, **PAIR)[0].hypothesis
        if hypothesis.finished:
            ids = [SIZE - 3, *SIDE.encode(text)]
            (scored,) = model.backend.score([ids], [[*hypothesis.tokens, EOS]], penalty=DECODING.penalty)
            assert hypothesis.log_prob == pytest.approx(sum(scored.token_log_probs[1:]), abs=1e-4)


@BACKENDS
def test_search_without_forced_token_continues_after_it(backend: str) -> None:
    """The first free step of a forced search sees the same network as a plain step-by-step computation."""
    model = translator(backend).backend
    source = [SIZE - 3, *SIDE.encode("the dog")]
    request = Request(source, DecodingConfig(beam_size=1), 4, start=OutputStart(forced=(DE, FR)))
    with model.inference_mode():
        ((hypothesis,),) = run_requests(model, [request], batch_tokens=100)
        memory = model.encode([source])
        state = model.start(memory, beam_size=1)
        for token in (BOS, DE, FR):
            _, ids, state = model.top_k(np.array([[token]]), memory, state, k=1, suppress_tokens=[0, 1, 2])
    assert hypothesis.tokens[:2] == (DE, FR)
    assert (*hypothesis.tokens, EOS)[2] == ids[0, 0, 0]


@BACKENDS
def test_requests_of_several_languages_share_a_batch(backend: str) -> None:
    model = translator(backend)
    mixed = [
        Request([7, 8, 9], DECODING, 6, start=OutputStart(forced=forced)) for forced in ((), (DE,), (FR, DE), (FR,))
    ]
    with model.backend.inference_mode():
        together = run_requests(model.backend, mixed, batch_tokens=1000)
        alone = [run_requests(model.backend, [one], batch_tokens=1000)[0] for one in mixed]
    for one, other, request in zip(together, alone, mixed, strict=True):
        assert [h.tokens for h in one] == [h.tokens for h in other]
        assert all(h.tokens[: len(request.start.forced)] == request.start.forced for h in one)


@BACKENDS
def test_samples_begin_with_the_target_language(backend: str) -> None:
    model = translator(backend, replace(NLLB, source_language="en_XX", target_language="fr_XX")).backend
    requests = [
        Request([7, 8], SamplingConfig(seed=seed), 5, start=OutputStart(forced=(FR,), key=(seed, 0)))
        for seed in range(4)
    ]
    with model.inference_mode():
        found = [run_requests(model, [one], batch_tokens=100)[0][0] for one in requests]
    assert all(one.tokens[0] == FR and one.token_log_probs[0] == 0.0 for one in found)
    model_with_default = translator(backend, replace(NLLB, source_language="en_XX", target_language="fr_XX"))
    assert len(list(sample_translations(model_with_default, TEXTS, SamplingConfig(seed=1)))) == len(TEXTS)


def test_all_ways_to_translate_agree() -> None:
    model = translator("cpu")
    plain = model.translate(TEXTS, **PAIR)
    assert list(model.translate_stream(TEXTS, **PAIR)) == plain
    assert asyncio.run(model.translate_async(TEXTS, **PAIR)) == plain
    scores = model.score(TEXTS[:1], TEXTS[2:3], **PAIR)
    assert list(model.score_stream([(TEXTS[0], TEXTS[2])], **PAIR)) == scores
    assert asyncio.run(model.score_async(TEXTS[:1], TEXTS[2:3], **PAIR)) == scores
    assert scores[0].tokens[0] == DE
    assert scores[0].token_log_probs[0] == 0.0


def test_constant_symbols_and_words_precede_the_source() -> None:
    rules = Prefixes(source=(DE, "target_language"), text="translate to {target_language}: ", languages=LANGUAGES)
    direction = rules.resolve(target_language="fr")
    assert direction == Direction((DE, FR), (), "translate to French: ")
    assert direction.encode_sources(SIDE, ["dog", ""]) == [[DE, FR, *SIDE.encode("translate to French: dog")], []]


@pytest.mark.parametrize(("given", "meant"), [("de_DE", "de_DE"), ("DE-de", "de_DE"), ("de", "de_DE"), ("FR", "fr_XX")])
def test_languages_are_found_by_their_codes(given: str, meant: str) -> None:
    assert NLLB.resolve("en", given).target == (LANGUAGES[meant].tag,)


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("en", "dee_DE", "Did you mean de_DE?"),
        ("en", "zz", "Choose one of de_DE, fr_XX, en_XX"),
        (None, "de", "source_language is missing. Give one of de_DE"),
        ("en", None, "target_language is missing"),
    ],
)
def test_unknown_and_missing_languages_are_refused(source: str | None, target: str | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("?", r"\?")):
        NLLB.resolve(source, target)


def test_model_of_one_pair_refuses_languages() -> None:
    with pytest.raises(ConfigError, match="target_language = 'de' has no effect on this model"):
        translator(prefixes=Prefixes()).translate("dog", target_language="de")


def test_untrained_direction_is_warned_about() -> None:
    rules = replace(NLLB, directions=(("en_XX", "de_DE"), ("de_DE", "en_XX")))
    assert rules.resolve("en", "de").target == (DE,)
    with pytest.warns(
        DirectionWarning, match="en_XX to fr_XX was not trained; the model knows en_XX to de_DE, de_DE to"
    ):
        rules.resolve("en", "fr")


def test_prefixes_are_saved_with_the_tokenizer(tmp_path: Any) -> None:
    rules = replace(NLLB, directions=(("en_XX", "de_DE"),), target_language="de_DE", text="to {target_language}: ")
    tokenizer = Tokenizer(SIDE, SIDE, ImportedTokenizerConfig(), rules)
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    assert loaded.prefixes == rules
    assert loaded.fingerprint == tokenizer.fingerprint != Tokenizer(SIDE, SIDE, ImportedTokenizerConfig()).fingerprint


@pytest.mark.parametrize(
    "wrong",
    [
        {"source": (SIZE,)},
        {"target": (-1,)},
        {"target": ("target_language",), "languages": {"de": Language(SIZE)}},
        {"text": "{other}"},
        {"target_language": "de"},
        {"directions": (("a", "b"),)},
    ],
)
def test_invalid_prefixes_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"outside|unknown fields|not defined"):
        Tokenizer(SIDE, SIDE, ImportedTokenizerConfig(), Prefixes(**wrong))


def test_backend_of_torch_and_cpu_give_the_same_outputs() -> None:
    one, other = translator("torch").translate(TEXTS, **PAIR), translator("cpu").translate(TEXTS, **PAIR)
    assert [result.text for result in one] == [result.text for result in other]
    assert isinstance(translator("torch").backend, TorchBackend)
    assert torch.is_tensor(next(MODEL.parameters()))


def test_pseudo_data_is_written_in_the_languages_given() -> None:
    model, with_defaults = translator("cpu"), translator("cpu", replace(NLLB, **PAIR))
    rewritten = list(beam_search_rewriter(model, DECODING, **PAIR)(TEXTS))
    found = [best for best, *_ in model.translate(TEXTS, DECODING, **PAIR)]
    assert rewritten == [one.text if one.hypothesis.finished else "" for one in found]
    sampling = SamplingConfig(seed=3)
    assert list(sample_translations(model, TEXTS, sampling, **PAIR)) == list(
        sample_translations(with_defaults, TEXTS, sampling)
    )
    with pytest.raises(ConfigError, match="source_language is missing"):
        sample_translations(model, TEXTS, sampling)


def test_error_analysis_translates_in_the_languages_given() -> None:
    model, references = translator("torch"), ["a b", "c", "d", "e"]
    shared: Any = {"sources": TEXTS, "references": references, "frequencies": None, "worst": 1}
    found = analyse_run("system", model, options={"beam_size": 2, **PAIR}, **shared)
    assert found.outputs == [best.text for best, *_ in model.translate(TEXTS, beam_size=2, **PAIR)]
    [(tokens, _, _)] = found.passes.values()
    assert tokens[0] == SIDE.ids_to_tokens([SIZE - 3])[0]  # the tag of the source language
