"""Translator: batches, streams, segments, options and scores."""

import asyncio
import re
import threading
import warnings
from pathlib import Path

import pytest
import torch

import dragoman
from dragoman.data.tokenizers import CharacterConfig, Tokenizer, WordConfig
from dragoman.decoding import DecodingConfig
from dragoman.decoding.forced_decoding import score_outputs
from dragoman.errors import ConfigError, DataError
from dragoman.inference import TranslationResult, TranslationWarning, Translator
from dragoman.inference.translator import MAX_SCORED_LENGTH
from dragoman.models.config import (
    EncoderDecoderAttentionConfig,
    EncoderDecoderConfig,
    LearnedConfig,
    SelfAttentionConfig,
)
from dragoman.models.factory import build_encoder_decoder
from dragoman.nn.sparse.linformer import LinformerConfig
from tests.fake_models import SYMBOLS, PrefixModel, rectangle

TEXTS = [
    "two dogs play.",
    "a cat",
    "",
    "  ",
    "two dogs and a cat sit by the sea",
    "μία γάτα 猫",
    "a",
    "dogs, dogs, dogs",
]
MIXED = EncoderDecoderAttentionConfig(
    encoder=SelfAttentionConfig(pattern=LinformerConfig(projected_length=5, max_length=12))
)
SHORT = DecodingConfig(beam_size=3, n_best=2, max_length_ratio=0.5, max_length_offset=3)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    pairs = [("two dogs play.", "zwei Hunde spielen."), ("a cat sits by the sea", "eine Katze sitzt am Meer")]
    return Tokenizer.train(lambda: pairs, CharacterConfig(shared=False))


def translator(tokenizer: Tokenizer, *, choices=None, **options) -> Translator:
    config = EncoderDecoderConfig(
        d_model=12, num_heads=2, d_ff=19, encoder_layers=1, decoder_layers=1, tie_embeddings="none", **(choices or {})
    )
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = build_encoder_decoder(
            config, source_vocabulary=len(tokenizer.source), target_vocabulary=len(tokenizer.target)
        )
        for parameter in model.parameters():
            parameter.data += 0.3 * torch.randn_like(parameter)
    return Translator(model.eval(), tokenizer, **options)


def texts_of(results: list[TranslationResult]) -> list[str]:
    return [result.text for result in results]


@pytest.fixture
def silently():
    """Ignore warnings of random models, whose outputs often reach their limit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TranslationWarning)
        yield


@pytest.mark.usefixtures("silently")
def test_options_default_to_the_configuration(tokenizer):
    own, plain = translator(tokenizer, config=SHORT), translator(tokenizer)
    assert own.translate(TEXTS) == plain.translate(TEXTS, SHORT)
    assert list(own.translate_stream(TEXTS)) == plain.translate(TEXTS, SHORT)
    assert texts_of(own.translate(TEXTS)) == [best.text for best, *_ in plain.translate(TEXTS, SHORT)]
    assert texts_of(own.translate(TEXTS)) != texts_of(plain.translate(TEXTS))
    raw = translator(tokenizer, config=DecodingConfig(length_penalty_kind="none"))
    (scored,) = raw.score(TEXTS[:1], ["Hunde"])
    assert scored.score == scored.log_prob
    assert asyncio.run(own.translate_async(TEXTS)) == plain.translate(TEXTS, SHORT)


@pytest.mark.usefixtures("silently")
@pytest.mark.parametrize("batch_tokens", [1, 37, 4096])
def test_batch_equals_alone_in_order(tokenizer, batch_tokens):
    together = translator(tokenizer, batch_tokens=batch_tokens).translate(TEXTS, SHORT)
    alone = [translator(tokenizer).translate([text], SHORT)[0] for text in TEXTS]
    assert [[one.text for one in row] for row in together] == [[one.text for one in row] for row in alone]
    assert [row[0].hypothesis.score for row in together] == pytest.approx([row[0].hypothesis.score for row in alone])


@pytest.mark.usefixtures("silently")
def test_empty_texts_do_not_reach_the_model(tokenizer):
    quiet = Translator(PrefixModel(words=0, end_bias=float("nan")), tokenizer)
    assert texts_of(quiet.translate(["", "  ", "\t"], beam_size=2)) == ["", "  ", "\t"]
    assert quiet.translate([""])[0][0].hypothesis.finished
    assert quiet.translate([]) == []


@pytest.mark.usefixtures("silently")
def test_texts_and_tokens_match_the_ids(tokenizer):
    texts = [text for text in TEXTS if text.strip()]
    for [best, *_] in translator(tokenizer).translate(texts, SHORT):
        assert best.text == tokenizer.target.decode(best.hypothesis.tokens)
        assert list(best.tokens) == tokenizer.target.ids_to_tokens(best.hypothesis.tokens)


def test_cut_off_output_is_reported_by_place(tokenizer):
    endless = Translator(PrefixModel(words=len(tokenizer.target) - 4, end_bias=-30.0), tokenizer)
    wanted = DecodingConfig(beam_size=2, max_length_ratio=0, max_length_offset=5)
    with pytest.warns(TranslationWarning, match=r"texts\[11\]: .* cut off at its length limit \(5 tokens\)"):
        [empty, [best]] = endless.translate(["", "a cat"], wanted, first_line=11)
    assert empty[0].hypothesis.finished
    assert not best.hypothesis.finished
    assert (empty.truncated, empty.segments) == (False, 0)
    assert (best.truncated, best.segments) == (True, 1)


def test_warnings_point_to_the_caller_every_time(tokenizer):
    """A file may have a warning for each line."""
    endless = Translator(PrefixModel(words=len(tokenizer.target) - 4, end_bias=-30.0), tokenizer)
    config = DecodingConfig(beam_size=2, max_length_ratio=0, max_length_offset=5)
    globals().pop("__warningregistry__", None)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for _ in range(2):
            list(endless.translate_stream(["a cat", "a"], config))
    package = str(Path(dragoman.__file__).parent)
    assert [one.filename.startswith(package) for one in told] == [False] * 4
    assert not [key for key in globals().get("__warningregistry__", {}) if key != "version"]


def test_min_length_beyond_the_positions_is_refused(tokenizer):
    few = translator(tokenizer, choices={"positions": LearnedConfig(max_length=12)})
    with pytest.raises(ConfigError, match="min_length = 12: an output of this model has at most 11 tokens"):
        few.translate(["a cat"], min_length=12)


@pytest.mark.parametrize("choices", [{}, {"positions": LearnedConfig(max_length=12)}, {"attention": MIXED}])
def test_long_text_is_translated_in_segments(tokenizer, choices):
    """The limit comes from an option or from the positions of the model."""
    longest = 512 if choices else 11
    pieces = ["two dogs", "play by", "the sea."]
    wanted = DecodingConfig(beam_size=2, max_length=11)
    length = len(tokenizer.source.encode(" ".join(pieces)))
    small = translator(tokenizer, choices=choices, max_segment_length=longest)
    with pytest.warns(TranslationWarning) as caught:
        [_, [whole]] = small.translate(["a cat", " ".join(pieces)], wanted)
    [said] = [str(one.message) for one in caught if "segments" in str(one.message)]
    assert said.startswith(f"texts[1]: {length} tokens are too long")
    assert said.endswith("split it by sentences")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TranslationWarning)
        parts = [found[0] for found in small.translate(_cut(small, " ".join(pieces)), wanted)]
    assert whole.text == " ".join(part.text for part in parts if part.text)
    assert whole.hypothesis.log_prob == pytest.approx(sum(part.hypothesis.log_prob for part in parts), rel=1e-5)
    assert whole.hypothesis.length == sum(part.hypothesis.length for part in parts)
    assert whole.hypothesis.score == pytest.approx(whole.hypothesis.log_prob / whole.hypothesis.length)


def _cut(small: Translator, text: str) -> list[str]:
    from dragoman.inference.text_segmentation import split_long_text

    return split_long_text(text, lambda piece: len(small.tokenizer.source.encode(piece)) <= 11)


def test_excessive_line_is_refused(tokenizer):
    with pytest.raises(DataError, match=r"texts\[6\]: \d+ tokens, more than the 65536 of the longest text"):
        translator(tokenizer).translate(["cat " * 20_000], first_line=7)


@pytest.mark.usefixtures("silently")
def test_unseen_script_is_translated(tokenizer):
    words = Tokenizer.train(lambda: [("a cat", "eine Katze")], WordConfig(shared=False))
    for some in (tokenizer, words):
        [found] = translator(some).translate(["猫が好き"], max_length=7)
        assert isinstance(found.text, str)


@pytest.mark.usefixtures("silently")
@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_stream_equals_list(tokenizer, chunk):
    model = translator(tokenizer)
    streamed = [[one.text for one in row] for row in model.translate_stream(iter(TEXTS), SHORT, chunk=chunk)]
    assert streamed == [[one.text for one in row] for row in model.translate(TEXTS, SHORT)]


def test_stream_reads_one_chunk_ahead(tokenizer):
    read = []
    lines = (read.append(text) or "" for text in TEXTS)
    next(translator(tokenizer).translate_stream(lines, chunk=3))
    assert len(read) == 3


@pytest.mark.usefixtures("silently")
def test_training_model_is_used_without_dropout(tokenizer):
    model = translator(tokenizer)
    expected = texts_of(model.translate(TEXTS[:2]))
    model.model.train()
    assert texts_of(model.translate(TEXTS[:2])) == expected
    assert model.model.training


@pytest.mark.usefixtures("silently")
def test_forced_score_equals_returned_score():
    """With words, a text has one segmentation only."""
    pairs = [("two dogs and a cat", "zwei Hunde und eine Katze")]
    words = Tokenizer.train(lambda: pairs, WordConfig(shared=False, min_frequency=1))
    model = Translator(PrefixModel(words=len(words.target) - 4, end_bias=2.0), words)
    wanted = DecodingConfig(beam_size=3, n_best=3, allow_unk=False)
    texts = ["two cat", "dogs", "a cat and two dogs"]
    rows = zip(texts, model.translate(texts, wanted), strict=True)
    found = [(text, one) for text, row in rows for one in row if one.hypothesis.finished]
    assert {len(one.tokens) for _, one in found} > {0, 2}
    scored = model.score([text for text, _ in found], [one.text for _, one in found])
    assert [one.score for one in scored] == pytest.approx([one.hypothesis.score for _, one in found], abs=1e-5)


def test_text_that_takes_minutes_to_score_is_refused(tokenizer):
    long = "cat " * (MAX_SCORED_LENGTH + 1)
    for pair in ((long, "Katze"), ("a cat", long)):
        with pytest.raises(DataError, match=r"texts\[1\]: \d+ tokens, more than the 4096 of the longest text"):
            list(translator(tokenizer).score_stream([("a cat", "eine Katze"), pair]))


def test_scores_match_the_ids_in_order(tokenizer):
    model = translator(tokenizer, batch_tokens=29)
    sources, targets = ["a cat", "two dogs play.", ""], ["eine Katze", "", "Hunde"]
    found = model.score(sources, targets)
    for source, target, one in zip(sources, targets, found, strict=True):
        ids, lengths = rectangle([[*tokenizer.source.encode(source), SYMBOLS.eos]])
        output = tokenizer.target.encode(target)
        [expected] = score_outputs(model.model, ids, lengths, outputs=[output], penalty=DecodingConfig().penalty)
        assert one.tokens == tuple(output)
        assert one.log_prob == pytest.approx(expected.log_prob, abs=1e-4)
    streamed = list(model.score_stream(zip(sources, targets, strict=True), chunk=2))
    assert [one.log_prob for one in streamed] == pytest.approx([one.log_prob for one in found], abs=1e-4)


def test_invalid_scoring_inputs_are_refused(tokenizer):
    with pytest.raises(DataError, match="2 sources but 1 targets"):
        translator(tokenizer).score(["a", "b"], ["c"])
    with pytest.raises(DataError, match=r"texts\[1\]: 22 tokens, more than the 12"):
        translator(tokenizer, choices={"positions": LearnedConfig(max_length=12)}).score(
            ["a", "b"], ["c", "eine Katze am Meer an"]
        )


def test_invalid_calls_are_refused(tokenizer):
    with pytest.raises(TypeError, match="Put it into a list"):
        translator(tokenizer).score("two dogs", "zwei Hun")
    with pytest.raises(ConfigError, match="beam_size = 0"):
        translator(tokenizer).translate(["two dogs"], beam_size=0)


@pytest.mark.parametrize("batch_tokens", [29, 1000])
def test_threads_sharing_a_translator_equal_single_calls(tokenizer, silently, batch_tokens):
    mine = translator(tokenizer, batch_tokens=batch_tokens)
    expected = {text: mine.translate([text], SHORT)[0] for text in TEXTS}
    found = {}

    def ask(texts: list[str]) -> None:
        found[tuple(texts)] = asyncio.run(mine.translate_async(texts, SHORT))

    asked = [TEXTS[start:] + TEXTS[:start] for start in range(len(TEXTS))]
    threads = [threading.Thread(target=ask, args=(texts,)) for texts in asked]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == len(TEXTS)
    for texts, lines in found.items():
        for text, translations in zip(texts, lines, strict=True):
            assert [one.text for one in translations] == [one.text for one in expected[text]]
            scores = [one.hypothesis.score for one in expected[text]]
            assert [one.hypothesis.score for one in translations] == pytest.approx(scores, abs=1e-4)


DOCUMENT = "  Two dogs play. A cat sits by the sea!\n\n\tDogs, dogs, dogs?  A cat."
PARTS = ["Two dogs play.", "A cat sits by the sea!", "Dogs, dogs, dogs?", "A cat."]


@pytest.mark.usefixtures("silently")
def test_split_document_keeps_its_layout(tokenizer):
    model = translator(tokenizer)
    [row] = model.translate([DOCUMENT], SHORT, split="sentences")
    parts = model.translate(PARTS, SHORT)
    for rank, found in enumerate(row):
        some = [part[rank] for part in parts]
        one, two, three, four = (part.text for part in some)
        assert found.text == f"  {one} {two}\n\n\t{three}  {four}"
        assert found.tokens == tuple(token for part in some for token in part.tokens)
        assert found.hypothesis.log_prob == pytest.approx(sum(part.hypothesis.log_prob for part in some))
        assert found.hypothesis.length == sum(part.hypothesis.length for part in some)
        assert found.hypothesis.score == pytest.approx(found.hypothesis.log_prob / found.hypothesis.length)
    assert len(row) == SHORT.n_best
    assert model.translate(DOCUMENT, SHORT, split="sentences").text == row[0].text


@pytest.mark.usefixtures("silently")
def test_split_texts_keep_order_and_white_space(tokenizer):
    model = translator(tokenizer)
    texts = ["", " \t", *PARTS, "two dogs play"]
    found = [row[0].text for row in model.translate_stream(texts, SHORT, chunk=2, split="sentences", language="de")]
    assert found == ["", " \t", *(row[0].text for row in model.translate([*PARTS, texts[-1]], SHORT))]


def test_long_sentence_is_translated_in_segments(tokenizer):
    small = translator(tokenizer, max_segment_length=11)
    wanted = DecodingConfig(beam_size=2, max_length=11)
    with pytest.warns(TranslationWarning) as caught:
        [result] = small.translate(["A cat. two dogs play by the sea."], wanted, first_line=7, split="sentences")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TranslationWarning)
        [[cat], [rest]] = small.translate(["A cat.", "two dogs play by the sea."], wanted)
    assert result.text == f"{cat.text} {rest.text}"
    [said] = [str(one.message) for one in caught if "segments" in str(one.message)]
    assert result.segments == 1 + int(re.findall(r"in (\d+) segments", said)[0])
    assert said.startswith("texts[6]: a sentence of 25 tokens is too long")
    assert "split it by sentences" not in said
    with pytest.raises(DataError, match=r"texts\[7\]: \d+ tokens, more than the 65536"):
        small.translate(["A cat. " + "cat " * 20_000], first_line=8)


def test_split_lines_may_have_any_length(tokenizer):
    quick = Translator(PrefixModel(words=len(tokenizer.target) - 4, end_bias=30.0), tokenizer)
    document = "a cat sits by the sea. " * 3000
    [[found]] = quick.translate([document], DecodingConfig(beam_size=1), split="sentences")
    assert found.hypothesis.length == 3000
    with pytest.raises(DataError, match=r"texts\[0\]: \d+ tokens"):
        quick.translate([document])


@pytest.mark.usefixtures("silently")
def test_translate_returns_results_with_n_best(tokenizer):
    model = translator(tokenizer)
    result = model.translate("a cat", beam_size=3, n_best=2, length_penalty=1.0)
    [[first, second]] = model.translate(["a cat"], DecodingConfig(beam_size=3, n_best=2))
    assert result.n_best == (first, second)
    assert (result.text, result.score, result.tokens) == (first.text, first.score, first.tokens)
    assert result.log_prob == first.log_prob
    assert str(result) == first.text
    assert repr(result).startswith("TranslationResult(text=")
    streamed = list(model.translate_stream(iter(TEXTS), SHORT))
    assert texts_of(streamed) == texts_of(model.translate(TEXTS, SHORT))


@pytest.mark.usefixtures("silently")
def test_async_calls_equal_sync_calls(tokenizer):
    model = translator(tokenizer)

    async def ask() -> list:
        return await asyncio.gather(*(model.translate_async(text, SHORT) for text in TEXTS))

    assert texts_of(asyncio.run(ask())) == texts_of(model.translate(TEXTS, SHORT))


UNKNOWN = "characters that are not in the vocabulary"
REMEDY = "replace them, or train on text that contains them"


def test_unknown_characters_are_reported_with_their_place(tokenizer):
    model = translator(tokenizer)
    with pytest.warns(TranslationWarning) as caught:
        list(model.translate_stream(["two dogs", "two 猫 猫 z", "", "Q"], max_length=3))
    found = [str(one.message) for one in caught if UNKNOWN in str(one.message)]
    assert found == [f"texts[1]: {UNKNOWN}: 猫 z; {REMEDY}", f"texts[3]: {UNKNOWN}: Q; {REMEDY}"]
    with pytest.warns(TranslationWarning) as caught:
        model.score(["two", "qz"], ["zwei Q", "Hunde"], first_line=5)
    assert [str(one.message) for one in caught] == [
        f"sources[5]: {UNKNOWN}: q z; {REMEDY}",
        f"targets[4]: {UNKNOWN}: Q; {REMEDY}",
    ]
