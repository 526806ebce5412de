"""Translation with dependency trees."""

import warnings
from itertools import accumulate, pairwise

import pytest
import torch

from dragoman.data.tokenizers import BpeConfig, CharacterConfig, Tokenizer
from dragoman.decoding import DecodingConfig
from dragoman.errors import DataError
from dragoman.inference import TranslationWarning, Translator
from dragoman.models.config import EncoderDecoderConfig, TreeConfig
from dragoman.models.factory import build_encoder_decoder
from tests.fake_models import PrefixModel
from tests.trees import Heads

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
TREES: list[Heads] = [
    (2, 3, 0),
    (2, 0),
    (),
    (),
    (2, 6, 5, 5, 2, 0, 6, 9, 7),
    (2, 0, 2),
    (0,),
    (0, 1, 2),
]
FLAT = [(0,) * len(heads) for heads in TREES]
SHORT = DecodingConfig(beam_size=3, n_best=2, max_length_ratio=0.5, max_length_offset=3)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    pairs = [("two dogs play.", "zwei Hunde spielen."), ("a cat sits by the sea", "eine Katze sitzt am Meer")]
    return Tokenizer.train(lambda: pairs, BpeConfig(shared=False, vocab_size=300))


@pytest.fixture(autouse=True)
def silently():
    """Ignore warnings of random models, whose outputs often reach their limit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TranslationWarning)
        yield


def translator(tokenizer: Tokenizer, **options) -> Translator:
    config = EncoderDecoderConfig(
        d_model=12,
        num_heads=2,
        d_ff=19,
        encoder_layers=1,
        decoder_layers=1,
        tie_embeddings="none",
        positions=TreeConfig(max_distance=3),
    )
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = build_encoder_decoder(
            config, source_vocabulary=len(tokenizer.source), target_vocabulary=len(tokenizer.target)
        )
        for parameter in model.parameters():
            parameter.data += 0.3 * torch.randn_like(parameter)
    return Translator(model.eval(), tokenizer, **options)


def scores(found) -> list[float]:
    return [row[0].hypothesis.score for row in found]


@pytest.mark.parametrize("batch_tokens", [1, 37, 4096])
def test_batch_equals_alone_with_trees(tokenizer, batch_tokens):
    together = translator(tokenizer, batch_tokens=batch_tokens).translate(TEXTS, SHORT, source_features=TREES)
    alone = [
        translator(tokenizer).translate([text], SHORT, source_features=[tree])[0]
        for text, tree in zip(TEXTS, TREES, strict=True)
    ]
    assert [[one.text for one in row] for row in together] == [[one.text for one in row] for row in alone]
    assert scores(together) == pytest.approx(scores(alone), abs=1e-5)
    flat = scores(translator(tokenizer).translate(TEXTS, SHORT, source_features=FLAT))
    differs = [abs(one - other) > 1e-4 for one, other in zip(scores(together), flat, strict=True)]
    assert differs == [tree != one for tree, one in zip(TREES, FLAT, strict=True)]


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_stream_equals_list(tokenizer, chunk):
    model = translator(tokenizer)
    streamed = list(model.translate_stream(iter(TEXTS), SHORT, chunk=chunk, source_features=iter(TREES)))
    assert scores(streamed) == pytest.approx(scores(model.translate(TEXTS, SHORT, source_features=TREES)), abs=1e-5)
    assert [result.text for result in model.translate(TEXTS, beam_size=1, source_features=TREES)] == [
        row[0].text for row in model.translate_stream(TEXTS, DecodingConfig(beam_size=1), source_features=TREES)
    ]


def test_scores_depend_on_the_trees(tokenizer):
    model = translator(tokenizer, batch_tokens=29)
    sources, heads, targets = TEXTS[:5], TREES[:5], ["zwei", "Katze", "", "Hunde", "am Meer"]
    found = [one.log_prob for one in model.score(sources, targets, source_features=heads)]
    pairs = zip(sources, targets, strict=True)
    assert [one.log_prob for one in model.score_stream(pairs, chunk=2, source_features=heads)] == pytest.approx(
        found, abs=1e-4
    )
    flat = [one.log_prob for one in model.score(sources, targets, source_features=FLAT[:5])]
    assert [abs(one - other) > 1e-4 for one, other in zip(found, flat, strict=True)] == [True, True, False, False, True]


def test_forced_score_equals_returned_score(tokenizer):
    """Outputs whose text encodes to other ids are left out."""
    model = translator(tokenizer)
    found = [row[0] for row in model.translate(TEXTS, SHORT, source_features=TREES)]
    again = model.score(TEXTS, [one.text for one in found], source_features=TREES)
    same = [
        (one.hypothesis.score, other.score)
        for one, other in zip(found, again, strict=True)
        if one.tokens and one.hypothesis.finished and one.hypothesis.tokens == other.tokens
    ]
    for one, other in same:
        assert other == pytest.approx(one, abs=1e-4)


def test_segments_of_a_long_text_have_their_own_trees(tokenizer):
    text, heads = "two dogs play. a cat sits. dogs sleep.", (2, 3, 0, 5, 6, 2, 8, 6)
    small = translator(tokenizer, max_segment_length=14)
    wanted = DecodingConfig(beam_size=2, max_length=7)
    parts = cut(small, text)
    with pytest.warns(TranslationWarning, match=f"translated in {len(parts)} segments"):
        [[whole]] = small.translate([text], wanted, source_features=[heads])
    ends = list(accumulate((len(part.split()) for part in parts), initial=0))
    trees = [
        tuple(head - start if start < head <= end else 0 for head in heads[start:end]) for start, end in pairwise(ends)
    ]
    assert sum(tree.count(0) for tree in trees) > heads.count(0)
    alone = [row[0] for row in small.translate(parts, wanted, source_features=trees)]
    assert whole.text == " ".join(one.text for one in alone if one.text)
    assert whole.hypothesis.log_prob == pytest.approx(sum(one.hypothesis.log_prob for one in alone), rel=1e-5)


def cut(small: Translator, text: str) -> list[str]:
    from dragoman.inference.text_segmentation import split_long_text

    return split_long_text(text, lambda piece: len(small.tokenizer.source.encode(piece)) <= 14)


def test_missing_trees_are_refused(tokenizer):
    model = translator(tokenizer)
    for ask in (
        lambda: model.translate(["a cat"]),
        lambda: model.translate([""]),
        lambda: list(model.translate_stream(["a cat"])),
        lambda: model.score(["a"], ["b"]),
        lambda: list(model.score_stream([("a", "b")])),
    ):
        with pytest.raises(DataError, match="needs the dependency heads of each text"):
            ask()


@pytest.mark.parametrize(
    ("texts", "trees", "message"),
    [
        (["a", "b"], [(0,)], r"texts\[10\]: 2 texts but 1 trees from here on; give one for each"),
        (["a", "b c"], [(0,), (0,)], r"texts\[11\]: a tree of 1 words, but the text has 2 between spaces"),
        (["a", "b c"], [(0,), (2, 1)], r"texts\[11\]: no word has head 0, so the tree has no root"),
        (["a b"], [(3, 0)], r"texts\[10\]: word 1 has head 3, but words are 1 to 2"),
        ([""], [(0,)], r"texts\[10\]: a tree of 1 words, but the text has 0"),
    ],
)
def test_invalid_trees_are_refused(tokenizer, texts, trees, message):
    with pytest.raises(DataError, match=message):
        translator(tokenizer).translate(texts, first_line=11, source_features=trees)


def test_surplus_trees_of_a_stream_are_refused(tokenizer):
    model = translator(tokenizer)
    with pytest.raises(DataError, match="more trees than the 1 text"):
        list(model.translate_stream(["a"], SHORT, source_features=[(0,), (0,)]))
    with pytest.raises(DataError, match="more trees than the 1 text"):
        list(model.score_stream([("a", "b")], source_features=[(0,), (0,)]))
    with pytest.raises(DataError, match="2 texts but 1 trees"):
        list(model.translate_stream(["a", "b"], SHORT, source_features=[(0,)]))


def test_trees_without_effect_are_refused():
    tokenizer = Tokenizer.train(lambda: [("a cat", "eine Katze")], CharacterConfig(shared=False))
    plain = Translator(PrefixModel(words=len(tokenizer.target) - 4), tokenizer)
    with pytest.raises(DataError, match="source features have no effect on this model"):
        plain.translate(["a"], source_features=[(0,)])


def test_sentences_of_a_document_have_their_own_trees(tokenizer):
    text, heads = "two dogs play.\n  A cat sits.", (2, 3, 0, 5, 6, 2)
    model = translator(tokenizer)
    [[found]] = model.translate([text], DecodingConfig(beam_size=2), source_features=[heads], split="sentences")
    parts = model.translate(
        ["two dogs play.", "A cat sits."], DecodingConfig(beam_size=2), source_features=[(2, 3, 0), (2, 3, 0)]
    )
    assert found.text == "\n  ".join(part[0].text for part in parts)
    assert found.hypothesis.log_prob == pytest.approx(sum(part[0].hypothesis.log_prob for part in parts), abs=1e-4)
