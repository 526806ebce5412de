"""Generator: sampling, search, streams, chat and perplexity."""

import asyncio
import math
import warnings
from contextlib import aclosing
from itertools import islice

import pytest
import torch

from dragoman.data.tokenizers import BpeConfig, CharacterConfig, Tokenizer
from dragoman.decoding import DecodingConfig, SamplingConfig
from dragoman.errors import ConfigError, DataError
from dragoman.inference import ChatTemplate, Completion, CompletionPiece, GenerationWarning, Generator, Message, Turn
from dragoman.models.config import DecoderOnlyConfig, LearnedConfig
from dragoman.models.protocols import DecoderOnly
from tests.fake_models import SYMBOLS, PrefixModel, TextModel
from tests.random_models import NO_DROPOUT, random_causal

TEXTS = ["two dogs and a cat", "the cat\n\nsits 猫 by the sea", "Q: a\nA: b\n"]
PROMPTS = ["two dogs", "", "the cat 猫", "a", "the sea and the dogs and the cat and the sea"]
CHANCE = SamplingConfig(seed=7, temperature=1.3)
CONTEXT = 16


@pytest.fixture(scope="module", params=["characters", "bpe"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    """A tokenizer with line breaks and without bytes, and one with bytes and word-initial spaces."""
    settings = {
        "characters": CharacterConfig(whitespace="keep", byte_fallback=False),
        "bpe": BpeConfig(vocab_size=300, min_frequency=1),
    }[request.param]
    return Tokenizer.train_on_texts(lambda: TEXTS, settings)


@pytest.fixture(scope="module")
def characters() -> Tokenizer:
    return Tokenizer.train_on_texts(lambda: TEXTS, CharacterConfig(whitespace="keep", byte_fallback=False))


def transformer(tokenizer: Tokenizer, *, positions: int = CONTEXT) -> DecoderOnly:
    config = DecoderOnlyConfig(
        d_model=12,
        num_heads=2,
        d_ff=19,
        num_layers=1,
        positions=LearnedConfig(max_length=positions),
        dropout=NO_DROPOUT,
    )
    return random_causal(config, vocabulary=len(tokenizer.target), seed=3)


def generator(tokenizer: Tokenizer, *, positions: int = CONTEXT, **options) -> Generator:
    return Generator(transformer(tokenizer, positions=positions), tokenizer, **{"context": positions} | options)


def fake(tokenizer: Tokenizer, *, end_bias: float = 0.0, seed: int = 0, **options) -> Generator:
    network = PrefixModel(words=len(tokenizer.target) - 4, end_bias=end_bias, seed=seed)
    return Generator(TextModel(network), tokenizer, **{"context": 97} | options)


def assert_batch_equals_alone(model: Generator, alone: Generator) -> None:
    """Assert that samples of a prompt depend on neither other prompts nor other samples."""
    together = model.generate_n_best(PROMPTS, CHANCE, num_samples=2, max_new_tokens=23)
    for place, found in enumerate(together):
        [single] = alone.generate_n_best([PROMPTS[place]], CHANCE, num_samples=1, max_new_tokens=23, first=place)
        [both] = alone.generate_n_best([PROMPTS[place]], CHANCE, num_samples=2, max_new_tokens=23, first=place)
        assert [one.text for one in found] == [one.text for one in both]
        assert single[0].hypothesis.tokens == found[0].hypothesis.tokens
    assert len({one.text for found in together for one in found}) > 5


@pytest.mark.parametrize("batch_tokens", [1, 53, 4096])
def test_samples_do_not_depend_on_the_batch(tokenizer, batch_tokens):
    """Also where texts are longer than the context."""
    assert_batch_equals_alone(
        fake(tokenizer, context=CONTEXT, batch_tokens=batch_tokens), fake(tokenizer, context=CONTEXT)
    )


def test_transformer_samples_do_not_depend_on_the_batch(characters):
    assert_batch_equals_alone(generator(characters, batch_tokens=53), generator(characters))


def test_samples_depend_on_seed_and_prompt_number(tokenizer):
    model = fake(tokenizer, end_bias=-2.0)
    one, other = model.generate(["two dogs"] * 2, CHANCE, max_new_tokens=29)
    assert one.text != other.text
    assert fake(tokenizer, end_bias=-2.0).generate(["two dogs"] * 2, CHANCE, max_new_tokens=29) == [one, other]
    [third] = model.generate(["two dogs"], SamplingConfig(seed=8, temperature=1.3), max_new_tokens=29)
    assert third.text not in (one.text, other.text)


def assert_stream_equals_text(model: Generator, prompt: str, chance: SamplingConfig, stop: list[str]) -> None:
    pieces = list(model.stream_text(prompt, chance, max_new_tokens=31, stop=stop))
    [whole] = model.generate([prompt], chance, max_new_tokens=31, stop=stop)
    assert "".join(pieces) == whole.text
    assert not any(one in whole.text for one in stop)
    assert all(pieces)
    [endless] = model.generate([prompt], chance, max_new_tokens=31)
    assert endless.text.startswith(whole.text)
    assert (whole.finish_reason == "stop") == any(one in endless.text for one in stop)


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("stop", [[], ["a"], ["e", " t", "th"], ["猫"]])
def test_streamed_pieces_join_to_the_text(tokenizer, prompt, stop):
    for seed in range(3):
        assert_stream_equals_text(
            fake(tokenizer, end_bias=-2.0, context=CONTEXT), prompt, SamplingConfig(seed=seed), stop
        )


def test_streamed_pieces_of_a_transformer_join_to_the_text(tokenizer):
    assert_stream_equals_text(generator(tokenizer), "two dogs", CHANCE, ["th"])


def test_stream_samples_only_what_is_read(characters):
    asked: list[int] = []
    network = TextModel(PrefixModel(words=len(characters.target) - 4, end_bias=-30.0))
    step = network.step
    object.__setattr__(network, "step", lambda *arguments: asked.append(1) or step(*arguments))
    pieces = Generator(network, characters, context=97).stream_text("a", max_new_tokens=50)
    list(islice(pieces, 3))
    assert len(asked) == 3
    assert not torch.is_inference_mode_enabled()


def test_prompt_and_text_join_to_the_decoded_text(tokenizer):
    for one in generator(tokenizer).generate(PROMPTS, CHANCE, max_new_tokens=13):
        ids = [*tokenizer.source.encode(one.prompt), *one.hypothesis.tokens]
        assert one.prompt + one.text == tokenizer.target.decode(ids)
        assert list(one.tokens) == tokenizer.target.ids_to_tokens(one.hypothesis.tokens)


def test_finish_reason(characters):
    endless, brief = fake(characters, end_bias=-30.0), fake(characters, end_bias=3.0)
    [one] = endless.generate(["a"], CHANCE, max_new_tokens=7)
    assert (one.finish_reason, len(one.hypothesis.tokens), one.hypothesis.finished) == ("length", 7, False)
    [one] = brief.generate(["a"], CHANCE, max_new_tokens=50)
    assert (one.finish_reason, one.hypothesis.finished) == ("end", True)
    [one] = endless.generate(["a"], CHANCE, max_new_tokens=50, stop=[" "])
    assert (one.finish_reason, one.hypothesis.finished) == ("stop", False)
    assert one.tokens[-1] == "▁"
    assert len(one.text) == len(one.tokens) - 1


def test_sampled_log_probs_equal_scores(characters):
    model = fake(characters, end_bias=1.0)
    found = [one for one in model.generate([""] * 31, CHANCE, max_new_tokens=60) if one.finish_reason == "end"]
    assert len({len(one.tokens) for one in found}) > 3
    # An unseen character, which could be written otherwise, does not stand in them: each text has its ids alone.
    scored = model.score([one.text for one in found])
    for one, other in zip(found, scored, strict=True):
        assert one.hypothesis.tokens == other.tokens
        assert one.hypothesis.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-5)
        assert one.hypothesis.score == pytest.approx(other.score, abs=1e-5)


def test_temperature_0_equals_a_beam_of_one(tokenizer):
    model = generator(tokenizer, positions=64)
    coldest = model.generate(PROMPTS, SamplingConfig(temperature=0), max_new_tokens=9)
    narrow = model.generate(PROMPTS, DecodingConfig(beam_size=1, allow_unk=False), max_new_tokens=9)
    assert [one.text for one in coldest] == [one.text for one in narrow]
    assert [one.finish_reason for one in coldest] == [one.finish_reason for one in narrow]
    model = fake(tokenizer)
    wide = model.generate_n_best(PROMPTS, DecodingConfig(beam_size=5, n_best=3, min_length=9), max_new_tokens=9)
    narrow = model.generate_n_best(PROMPTS, DecodingConfig(beam_size=1, min_length=9), max_new_tokens=9)
    assert [len(row) for row in wide] == [3] * len(PROMPTS)
    assert sum(row[0].hypothesis.score for row in wide) > sum(row[0].hypothesis.score for row in narrow)


def test_search_truncates_prompts_for_new_tokens(tokenizer):
    """A long prompt equals its end, and stop strings cut the hypotheses."""
    model = generator(tokenizer)
    settings = DecodingConfig(beam_size=3)
    *_, long = PROMPTS
    length = len(tokenizer.source.encode(long))
    with pytest.warns(GenerationWarning, match=rf"prompts\[0\]: {length} tokens, .* the last {CONTEXT - 7} only"):
        [found] = model.generate([long], settings, max_new_tokens=7)
    memory_of = model.model.encode
    shown: list[list[int]] = []
    model.model.encode = lambda prompt, lengths: shown.append(prompt[0].tolist()) or memory_of(prompt, lengths)
    with pytest.warns(GenerationWarning):
        assert model.generate([long], settings, max_new_tokens=7) == [found]
    assert shown == [tokenizer.source.encode(long)[-(CONTEXT - 7) :]]
    with pytest.warns(GenerationWarning):
        [cut] = model.generate([long], settings, max_new_tokens=7, stop=[found.text[2]])
    assert cut.text == found.text[: found.text.index(found.text[2])]
    assert cut.finish_reason == "stop"


def test_stream_numbers_prompts_across_chunks(tokenizer):
    model = fake(tokenizer)
    every = model.generate_n_best(PROMPTS, CHANCE, num_samples=2, max_new_tokens=5)
    read = []
    prompts = (read.append(prompt) or prompt for prompt in PROMPTS)
    streamed = model.generate_stream(prompts, CHANCE, num_samples=2, max_new_tokens=5, chunk=2)
    first = next(streamed)
    assert len(read) == 2
    assert [[one.text for one in row] for row in [first, *streamed]] == [[one.text for one in row] for row in every]


def test_no_prompts_give_no_completions():
    tokenizer = Tokenizer.train_on_texts(lambda: TEXTS, CharacterConfig())
    assert fake(tokenizer).generate([]) == []
    assert fake(tokenizer).score([]) == []


def test_pairs_continue_after_their_prompt(characters):
    """The model reads prompt, begin symbol and answer; repetition filters see the answer only."""
    model = fake(characters, pairs=True, end_bias=1.0)
    [one] = model.generate(["the cat"], CHANCE, max_new_tokens=31)
    source = characters.source.encode("the cat")
    symbols = [*one.hypothesis.tokens, SYMBOLS.eos] if one.finish_reason == "end" else one.hypothesis.tokens
    for place, symbol in enumerate(symbols):
        before = [*source, SYMBOLS.bos, *symbols[:place]]
        expected = model.model.network.log_probs((), before)[symbol]
        assert one.hypothesis.token_log_probs[place] == pytest.approx(expected, abs=1e-5)
    assert one.text == characters.target.decode(one.hypothesis.tokens)
    [scored] = model.score([one.text], prompts=["the cat"])
    assert scored.token_log_probs[: len(one.tokens)] == pytest.approx(
        one.hypothesis.token_log_probs[: len(one.tokens)], abs=1e-5
    )
    unique = SamplingConfig(no_repeat_ngram_size=1, seed=1)
    [one] = fake(characters, pairs=True, end_bias=-30.0).generate(["the cat"], unique, max_new_tokens=60)
    assert set(one.hypothesis.tokens) == set(range(4, len(characters.target)))


@pytest.mark.parametrize("pairs", [False, True])
def test_unknown_characters_of_a_prompt_are_reported(characters, pairs):
    model = generator(characters, pairs=pairs)
    with pytest.warns(GenerationWarning) as caught:
        model.generate(["a", "zz a", "z"], max_new_tokens=2)
    assert [str(one.message) for one in caught] == [
        "2 prompts have characters that are not in the vocabulary: z (prompts[1], prompts[2]); "
        "replace them, or train on text that contains them"
    ]


def test_truncated_prompt_of_a_pair_is_reported(characters):
    model = generator(characters, pairs=True)
    long = r"prompts\[1\]: 19 tokens, of which the model sees the last"
    with pytest.warns(GenerationWarning, match=f"{long} 11 only"):  # prompts may fill three quarters of the context
        found = model.generate(["a", "the cat the cat the"], max_new_tokens=3)
    assert [one.truncated for one in found] == [False, True]
    with pytest.warns(GenerationWarning, match=f"{long} 12 only"):  # beam search reserves the new tokens
        model.generate(["a", "the cat the cat the"], DecodingConfig(beam_size=2), max_new_tokens=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.generate(["the cat"], max_new_tokens=29)
        found = generator(characters).generate(["the cat", "the cat the cat the"], max_new_tokens=3)
    assert [one.truncated for one in found] == [False, True]


def test_chat_stops_at_the_end_of_the_turn(characters):
    template = ChatTemplate(user=Turn(prefix="Q: ", suffix="\n"), assistant=Turn(prefix="A: ", suffix="\n"))
    talk = [Message("user", "two cats"), Message("assistant", "a cat"), Message("user", "dogs")]
    written = "Q: two cats\nA: a cat\nQ: dogs\nA: "
    goes_on = fake(characters, template=template, end_bias=-30.0)
    assert goes_on.chat_stop == ("\n", "Q: ")
    answer = goes_on.chat(talk, CHANCE, max_new_tokens=80)
    assert answer == goes_on.generate([written], CHANCE, max_new_tokens=80, stop=["\n", "Q: "])[0]
    assert answer.finish_reason == "stop"
    assert "\n" not in answer.text
    answers = fake(characters, template=template, pairs=True, end_bias=-30.0)
    assert (
        answers.chat(talk, CHANCE, max_new_tokens=80).hypothesis
        == answers.generate([written], CHANCE, max_new_tokens=80)[0].hypothesis
    )
    with pytest.raises(ConfigError, match="without a chat template"):
        fake(characters).chat(talk)


def nats(model: Generator, tokens: list[int], *, context: int, kept_back: int = 0) -> list[float]:
    """Return the negative log-probability of a document by definition, window by window."""
    ids = [SYMBOLS.bos, *tokens, SYMBOLS.eos]
    costs, begin = [], 0
    while len(costs) < len(ids) - 1:
        for place in range(len(costs), min(begin + context, len(ids) - 1)):
            costs.append(-model.model.network.log_probs((), ids[begin : place + 1])[ids[place + 1]])
        begin = len(costs) - kept_back
    return costs


@pytest.mark.parametrize("overlap", [0, 3, 6])
@pytest.mark.parametrize("batch_tokens", [1, 4096])
def test_perplexity_by_windows_equals_the_definition(tokenizer, overlap, batch_tokens):
    network = PrefixModel(words=len(tokenizer.target) - 4)
    model = Generator(TextModel(network, max_length=7), tokenizer, context=7, batch_tokens=batch_tokens)
    texts = ["two dogs and a cat", "", "a", "the sea 猫"]
    expected = [nats(model, tokenizer.target.encode(text), context=7, kept_back=overlap) for text in texts]
    found = model.perplexity(texts, overlap=overlap)
    total, tokens = math.fsum(map(math.fsum, expected)), sum(map(len, expected))
    assert found.nats == pytest.approx(total, rel=1e-5)
    assert found.tokens == tokens
    assert found.nats_per_token == pytest.approx(total / tokens, rel=1e-5)
    assert found.perplexity == pytest.approx(math.exp(total / tokens), rel=1e-4)
    assert found.bits_per_byte == pytest.approx(total / math.log(2) / len("".join(texts).encode()), rel=1e-5)
    scored = model.score(texts, overlap=overlap)
    for one, costs, text in zip(scored, expected, texts, strict=True):
        assert one.token_log_probs == pytest.approx([-cost for cost in costs], abs=1e-5)
        assert one.tokens == tuple(tokenizer.target.encode(text))
        assert one.length == len(one.tokens) + 1
        assert one.score == pytest.approx(one.log_prob / one.length)


def test_bits_per_byte_count_the_text_before_normalization():
    settings = CharacterConfig(whitespace="collapse", casing="lower", byte_fallback=False)
    model = fake(Tokenizer.train_on_texts(lambda: TEXTS, settings))
    folded, given = model.perplexity(["the cat"]), model.perplexity(["THE  \u00a0cat "])
    assert given.nats == folded.nats
    assert (folded.bytes, given.bytes) == (7, 11)
    assert given.bits_per_byte == folded.nats / math.log(2) / 11


def test_perplexity_of_a_uniform_model_is_its_vocabulary(characters):
    class Uniform(PrefixModel):
        def logits(self, source, prefix):
            return [0.0] * self.vocabulary

    model = Generator(TextModel(Uniform(words=len(characters.target) - 4)), characters, context=5)
    assert model.perplexity(TEXTS).perplexity == pytest.approx(len(characters.target))


def test_prompts_of_pairs_are_not_scored(characters):
    model = fake(characters, pairs=True, context=11)
    found = model.perplexity(["a cat", ""], prompts=["the sea and the cats", "dogs"])
    assert found.tokens == 5 + 1 + 0 + 1
    assert found.bytes == 5
    short = fake(characters, pairs=True).score(["a cat"], prompts=["the sea"])[0]
    before = [*characters.source.encode("the sea"), SYMBOLS.bos]
    expected = model.model.network.log_probs((), before)[characters.target.encode("a")[0]]
    assert short.token_log_probs[0] == pytest.approx(expected, abs=1e-5)


def test_training_model_is_used_without_dropout(characters):
    config = DecoderOnlyConfig(d_model=12, num_heads=2, d_ff=19, num_layers=2, positions=LearnedConfig(max_length=16))
    network = random_causal(config, vocabulary=len(characters.target))
    model = Generator(network, characters, context=16)
    expected = model.generate(["a"], CHANCE, max_new_tokens=9)
    network.train()
    assert model.generate(["a"], CHANCE, max_new_tokens=9) == expected
    pieces = model.stream_text("a", CHANCE, max_new_tokens=9)
    begun = next(pieces)
    assert network.training
    assert begun + "".join(pieces) == expected[0].text
    assert network.training


@pytest.mark.parametrize(
    ("settings", "options", "message"),
    [
        (CHANCE, {"max_new_tokens": 0}, "max_new_tokens = 0"),
        (SamplingConfig(min_length=9), {"max_new_tokens": 7}, "min_length = 9 is above max_new_tokens = 7"),
        (SamplingConfig(temperature=0), {"num_samples": 2}, "num_samples = 2: with temperature = 0"),
        (
            DecodingConfig(beam_size=2),
            {"num_samples": 2, "max_new_tokens": 9},
            "num_samples = 2 has no effect on a search; set n_best = 2",
        ),
        (
            DecodingConfig(),
            {"max_new_tokens": 16},
            "max_new_tokens = 16: a search keeps its hypotheses in the context of 16 tokens",
        ),
        (
            DecodingConfig(max_length=5),
            {"max_new_tokens": 9},
            "max_length has no effect on a completion",
        ),
        (CHANCE, {"stop": [""]}, "stop = '': the tokenizer of this model never generates it"),
    ],
)
def test_options_without_effect_are_refused(characters, settings, options, message):
    with pytest.raises(ConfigError, match=message):
        generator(characters).generate_n_best(["a"], settings, **options)


def test_impossible_stop_strings_are_refused(characters):
    assert generator(characters).generate(["a"], stop=["\n\n"], max_new_tokens=2)
    collapsed = Tokenizer.train_on_texts(lambda: TEXTS, CharacterConfig(casing="lower"))
    for stop in ("\n\n", "A", "a  b"):
        with pytest.raises(ConfigError, match="tokenizer of this model never generates it"):
            generator(collapsed).generate(["a"], stop=["b", stop])
        with pytest.raises(ConfigError, match="tokenizer of this model never generates it"):
            generator(collapsed).stream_text("a", stop=[stop])


def test_invalid_calls_are_refused(characters):
    model = generator(characters)
    with pytest.raises(TypeError, match="prompts is one string, and a list is expected"):
        model.generate_n_best("two dogs")
    with pytest.raises(ConfigError, match=r"context = 17: the model attends to 1 to 16 tokens"):
        generator(characters, context=17)
    with pytest.raises(DataError, match="no text to measure"):
        model.perplexity([])
    with pytest.raises(DataError, match="has no separate prompts"):
        model.score(["a"], prompts=["b"])
    with pytest.raises(DataError, match="2 texts but 1 prompts"):
        fake(characters, pairs=True).score(["a", "b"], prompts=["b"])
    with pytest.raises(ConfigError, match="overlap = 16: a window of 16 tokens"):
        model.score(["a"], overlap=16)


async def read_pieces(model: Generator, prompts, **options) -> list[CompletionPiece]:
    return [piece async for piece in model.stream_pieces_async(prompts, CHANCE, **options)]


@pytest.mark.parametrize("stop", [[], ["e", " t", "th"]])
def test_pieces_of_concurrent_streams_join_to_completions(tokenizer, stop):
    model = fake(tokenizer, end_bias=-2.0)
    options = {"max_new_tokens": 31, "stop": stop, "num_samples": 2}
    expected = [model.generate_n_best([prompt], CHANCE, **options) for prompt in PROMPTS]

    async def read_all() -> list[list[CompletionPiece]]:
        return await asyncio.gather(*(read_pieces(model, prompt, **options) for prompt in PROMPTS))

    for pieces, [completions] in zip(asyncio.run(read_all()), expected, strict=True):
        for number, whole in enumerate(completions):
            mine = [piece for piece in pieces if piece.number == number]
            assert [piece.completion for piece in mine] == [None] * (len(mine) - 1) + [whole]
            assert "".join(piece.text for piece in mine) == whole.text
            assert sum((piece.tokens for piece in mine), ()) == whole.generated
            assert (
                tuple(one.log_prob for one in whole.generated) == whole.hypothesis.token_log_probs[: len(whole.tokens)]
            )
            assert "".join(whole.token_texts).startswith(whole.text)
            assert len(whole.token_texts) == len(whole.tokens)


def counted_steps(tokenizer: Tokenizer) -> tuple[Generator, list[int]]:
    """Return a generator that never ends its texts, and the number of rows of each step it takes."""
    rows: list[int] = []
    network = TextModel(PrefixModel(words=len(tokenizer.target) - 4, end_bias=-30.0))
    step = network.step
    object.__setattr__(network, "step", lambda tokens, *others: rows.append(len(tokens)) or step(tokens, *others))
    return Generator(network, tokenizer, context=97), rows


def test_streams_of_many_callers_share_steps(characters):
    model, rows = counted_steps(characters)

    async def read_all() -> None:
        await asyncio.gather(*(read_pieces(model, "a", max_new_tokens=50) for _ in range(16)))

    asyncio.run(read_all())
    assert sum(rows) == 16 * 51
    assert len(rows) < 3 * 51


def test_samples_of_different_seeds_share_steps(characters):
    model, rows = counted_steps(characters)
    expected = [model.generate("a", seed=seed, max_new_tokens=50) for seed in range(16)]
    rows.clear()

    async def generate_all() -> list[Completion]:
        return await asyncio.gather(*(model.generate_async("a", seed=seed, max_new_tokens=50) for seed in range(16)))

    assert asyncio.run(generate_all()) == expected
    assert len({one.text for one in expected}) == 16
    assert len(rows) < 3 * 51


def test_closed_stream_leaves_the_batch(characters):
    model, rows = counted_steps(characters)

    async def read_three() -> None:
        async with aclosing(model.stream_text_async("a", max_new_tokens=100_000)) as pieces:
            async for _ in pieces:
                if len(rows) > 3:
                    break
        await model.generate_async("a", CHANCE, max_new_tokens=2)

    asyncio.run(read_three())
    taken = len(rows)
    assert taken < 1000
    asyncio.run(asyncio.sleep(0.1))
    assert len(rows) == taken


def test_stream_that_starts_again_repeats_nothing(characters):
    """An error of one request starts the others of its batch again."""
    model, rows = counted_steps(characters)
    expected = model.generate(["a", "a"], CHANCE, max_new_tokens=50)
    step, failed = model.model.step, []

    def fail_once(tokens, *others):
        if len(tokens) == 2 and len(rows) > 20 and not failed:
            failed.append(len(rows))
            raise RuntimeError("a step fails")
        return step(tokens, *others)

    rows.clear()
    object.__setattr__(model.model, "step", fail_once)
    pieces = asyncio.run(read_pieces(model, ["a", "a"], max_new_tokens=50))
    assert failed
    for number, whole in enumerate(expected):
        mine = [piece for piece in pieces if piece.number == number]
        assert "".join(piece.text for piece in mine) == whole.text
        assert len(mine) > 20
        assert mine[-1].completion == whole


@pytest.mark.parametrize(
    ("prompts", "options", "message"),
    [
        ("a", {"temperature": -1}, "temperature = -1"),
        ("a", {"num_samples": 0}, "num_samples = 0"),
    ],
)
def test_invalid_streams_say_what_is_wrong(characters, prompts, options, message):
    with pytest.raises((ConfigError, TypeError), match=message):
        asyncio.run(read_pieces(generator(characters), prompts, **options))


def test_prompts_that_were_read_have_the_same_completions(tokenizer):
    model = generator(tokenizer)
    options = {"num_samples": 2, "max_new_tokens": 9}
    expected = model.generate_n_best(PROMPTS, CHANCE, **options)
    ids = [tokenizer.source.encode(prompt) for prompt in PROMPTS]
    for given in (PROMPTS, ids):
        read = [model.read_prompt(one) for one in given]
        found = asyncio.run(model.generate_n_best_async(read, CHANCE, **options))
        assert [[one.text for one in row] for row in found] == [[one.text for one in row] for row in expected]
        pieces = asyncio.run(read_pieces(model, read, **options))
        assert [one.completion for one in pieces if one.completion is not None and one.number == 3] == [found[1][1]]


def test_prompts_are_scored_as_texts_are(tokenizer):
    model = generator(tokenizer)
    scored = asyncio.run(model.score_prompts_async([model.read_prompt(one) for one in PROMPTS]))
    for prompt, log_probs in zip(PROMPTS, scored, strict=True):
        ids = tokenizer.source.encode(prompt)
        assert len(log_probs) == len(ids)
        if ids and len(ids) < CONTEXT:
            [expected] = model.score([prompt])
            assert log_probs == pytest.approx(expected.token_log_probs[:-1], abs=1e-5)


def test_texts_and_read_prompts_do_not_mix(characters):
    model = generator(characters)
    with pytest.raises(TypeError, match="Give all in one form"):
        asyncio.run(model.generate_n_best_async(["a", model.read_prompt("a")]))


def test_alternatives_are_those_of_the_distribution(characters):
    model = generator(characters)
    options = {"max_new_tokens": 5, "num_samples": 2}
    plain = model.generate_n_best(["a", "the"], CHANCE, **options)
    found = model.generate_n_best(["a", "the"], CHANCE, **options, alternatives=3)
    pieces = asyncio.run(read_pieces(model, ["a", "the"], **options, alternatives=3))
    assert [[one.text for one in row] for row in found] == [[one.text for one in row] for row in plain]
    assert [one.completion for one in pieces if one.completion is not None and one.number == 2] == [found[1][0]]
    best = model.generate("a", temperature=0, max_new_tokens=1, alternatives=20).generated[0]
    shares = [math.exp(log_prob) for _, log_prob in best.alternatives]
    assert best.alternatives[0][1] >= best.log_prob
    assert sorted(shares, reverse=True) == shares
    assert len(best.alternatives) == min(20, len(characters.target))
    for index, log_prob in best.alternatives:
        if index >= 4:
            [scored] = model.score(["a" + characters.target.decode([index])])
            assert log_prob == pytest.approx(scored.token_log_probs[1], abs=1e-5)
    for one in found[0]:
        assert [len(token.alternatives) for token in one.generated] == [3] * len(one.tokens)
        assert {token.id: token.log_prob for token in one.generated}.keys() == set(one.hypothesis.tokens)
    assert plain[0][0].generated[0].alternatives == ()


@pytest.mark.parametrize(
    ("config", "count", "message"),
    [
        (CHANCE, 21, "alternatives = 21"),
        (CHANCE, -1, "alternatives = -1"),
        (DecodingConfig(), 2, "no effect on a search"),
    ],
)
def test_refused_numbers_of_alternatives(characters, config, count, message):
    with pytest.raises(ConfigError, match=message):
        generator(characters).generate("a", config, max_new_tokens=5, alternatives=count)


def test_alternatives_of_prompts_are_those_of_their_distribution(tokenizer):
    model = generator(tokenizer)
    prompts = [model.read_prompt(one) for one in ("two dogs", "", "the cat")]
    scored = asyncio.run(model.score_prompts_async(prompts))
    found = asyncio.run(model.prompt_alternatives_async(prompts, 10_000))
    for prompt, log_probs, rows in zip(prompts, scored, found, strict=True):
        assert len(rows) == len(log_probs)
        for token, log_prob, best in zip(prompt.context, log_probs, rows, strict=True):
            assert dict(best)[token] == pytest.approx(log_prob, abs=1e-5)
            assert [share for _, share in best] == sorted((share for _, share in best), reverse=True)
