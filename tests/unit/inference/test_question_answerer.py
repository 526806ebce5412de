"""Question answerer: windows, thresholds and streams."""

import math

import pytest
import torch
from torch import Tensor, nn

from dragoman.data.datasets.qa import WindowConfig
from dragoman.data.tokenizers import BpeConfig, CharacterConfig, LanguageTokenizer, Tokenizer
from dragoman.errors import ConfigError
from dragoman.inference import AnswerConfig, InputWarning, QuestionAnswerer
from dragoman.models.config import EncoderOnlyConfig, LearnedConfig
from dragoman.models.task_heads import ModelWithHead, SpanHead, SpanLogits, answer_mask
from tests.random_models import random_encoder

CONTEXT = "Two dogs play in the snow.\n A cat, asleep  by the sea, dreams of 2 dogs and a fish."
ASKED = [
    ("who sleeps?", CONTEXT),
    ("where?", "in the snow"),
    ("who sleeps by the sea?", CONTEXT * 3),
    ("猫?", "猫"),
    ("", CONTEXT),
]
LAYOUT = WindowConfig(max_length=23, max_question_length=7, stride=5)
WIDE = WindowConfig(max_length=99, max_question_length=7, stride=50)
BEST = AnswerConfig(n_best=5, max_answer_length=4)


@pytest.fixture(scope="module")
def side() -> LanguageTokenizer:
    return Tokenizer.train(lambda: [(CONTEXT, "who sleeps by the sea? where?")] * 3, BpeConfig(vocab_size=600)).source


def network(side: LanguageTokenizer, **choices) -> ModelWithHead:
    config = EncoderOnlyConfig(d_model=12, num_heads=2, d_ff=19, num_layers=1, num_segments=2, **choices)
    head = SpanHead(d_model=12, dropout=0.0)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        nn.init.normal_(head.output.weight)
    return ModelWithHead(random_encoder(config, vocabulary=len(side) + 1), head).eval()


class Table(nn.Module):
    """Model whose scores depend on the token only."""

    def __init__(self, vocabulary: int, starts: dict[int, float], ends: dict[int, float]) -> None:
        super().__init__()
        self.tokenizers = torch.zeros(2, vocabulary)
        for side, scores in enumerate((starts, ends)):
            for index, score in scores.items():
                self.tokenizers[side, index] = score

    def forward(self, tokens: Tensor, lengths: Tensor, segments: Tensor) -> SpanLogits:
        hidden = ~answer_mask(lengths, segments)
        return SpanLogits(*(side[tokens].masked_fill(hidden, torch.finfo(side.dtype).min) for side in self.tokenizers))


def pointing(
    side: LanguageTokenizer, start: str, end: str, *, nothing: float = 0.0, windows: WindowConfig = LAYOUT
) -> QuestionAnswerer:
    """Model that prefers one first and one last word; BOS has the score of no answer."""
    begin = 2
    starts = {side.encode(start)[0]: 7.0, begin: nothing}
    ends = {side.encode(end)[-1]: 7.0, begin: nothing}
    return QuestionAnswerer(Table(len(side), starts, ends), side, windows=windows)


@pytest.mark.parametrize("batch_tokens", [1, 53, 4096])
def test_batch_equals_alone_in_order(side, batch_tokens):
    model = network(side)
    together = QuestionAnswerer(model, side, windows=LAYOUT, batch_tokens=batch_tokens).answer_batch(ASKED, BEST)
    alone = [QuestionAnswerer(model, side, windows=LAYOUT).answer_batch([pair], BEST)[0] for pair in ASKED]
    for some, expected, (_, context) in zip(together, alone, ASKED, strict=True):
        assert [one.score for one in some] == pytest.approx([one.score for one in expected], abs=1e-5)
        assert some[0].text == expected[0].text
        for one in some:
            assert one.text == context[one.start : one.end] == one.text.strip() != ""
            assert one.probability == pytest.approx(math.exp(one.score))
            assert not one.no_answer
        assert [one.score for one in some] == sorted((one.score for one in some), reverse=True)
        assert len({(one.start, one.end) for one in some}) == len(some)


def test_answer_is_a_span_of_the_original_text(side):
    answer = pointing(side, "cat", "asleep", windows=WIDE).answer("who?", CONTEXT)
    assert answer.text == "cat, asleep"
    assert CONTEXT[answer.start : answer.end] == "cat, asleep"
    long = pointing(side, "snow", "A", windows=WIDE).answer("who?", CONTEXT)
    assert long.text == "snow.\n A"


def test_most_probable_window_wins(side):
    """The same words are found wherever they are in several windows."""
    filler = "and a fish. " * 11
    for context in (f"cat {filler}", f"{filler} cat {filler}", f"{filler} cat"):
        answer = pointing(side, "cat", "cat").answer("who?", context)
        assert (answer.text, answer.start) == ("cat", context.index("cat"))


def test_span_in_two_windows_counts_once(side):
    context = "and a cat, and a fish. " * 4
    answers = pointing(side, "cat", "cat").answer_batch([("who?", context)], BEST)[0]
    assert [one.text for one in answers[:4]] == ["cat"] * 4
    assert len({one.start for one in answers[:4]}) == 4


@pytest.mark.parametrize(
    ("nothing", "threshold", "answered"), [(9, None, True), (9, 0.0, False), (9, 5.0, True), (5, 0.0, True)]
)
def test_no_answer_depends_on_the_threshold(side, nothing, threshold, answered):
    """No answer exceeds the best answer by 2 · (nothing - 7)."""
    answerer = pointing(side, "cat", "cat", nothing=nothing)
    answer = answerer.answer("who?", "a cat", AnswerConfig(no_answer_threshold=threshold))
    assert answer.no_answer is not answered
    assert (answer.text, answer.start, answer.end) == (("cat", 2, 5) if answered else ("", 0, 0))
    assert answer.probability == pytest.approx(math.exp(answer.score))


def test_call_configuration_replaces_the_default(side):
    table = pointing(side, "cat", "cat", nothing=9.0).model
    answerer = QuestionAnswerer(table, side, windows=LAYOUT, config=AnswerConfig(no_answer_threshold=0.0))
    assert answerer.answer("who?", "a cat").no_answer
    assert not answerer.answer("who?", "a cat", AnswerConfig()).no_answer


def test_no_answer_is_followed_by_the_best_spans(side):
    answerer = pointing(side, "cat", "cat", nothing=9.0)
    first, second, *_ = answerer.answer_batch([("who?", "a cat")], AnswerConfig(n_best=3, no_answer_threshold=0.0))[0]
    assert first.no_answer
    assert second.text == "cat"


@pytest.mark.parametrize("context", ["", " \n\t"])
def test_blank_context_has_no_answer(side, context):
    answer = pointing(side, "cat", "cat").answer("who?", context)
    assert answer.no_answer
    assert answer.text == ""
    assert answer.probability == pytest.approx(1.0)


def test_answers_never_begin_or_end_with_white_space():
    side = Tokenizer.train(lambda: [("a b c", "d")], CharacterConfig(byte_fallback=False)).source
    space = {side.encode("a b")[1]: 9.0}
    answerer = QuestionAnswerer(Table(len(side), space, space), side, windows=LAYOUT)
    for one in answerer.answer_batch([("d", "a  b c")], AnswerConfig(n_best=9))[0]:
        assert one.text == one.text.strip() != ""


def test_max_answer_length_bounds_answers(side):
    answerer = pointing(side, "cat", "sea", windows=WIDE)
    context = "cat asleep by the sea"
    tokens = len(side.encode(context))
    assert answerer.answer("who?", context, AnswerConfig(max_answer_length=tokens)).text == context
    assert answerer.answer("who?", context, AnswerConfig(max_answer_length=tokens - 1)).text != context


def test_long_question_is_truncated_with_a_warning(side):
    with pytest.warns(InputWarning, match=r"pairs\[1\]\[0\]: the question has \d+ tokens, more than the limit of 7"):
        found = pointing(side, "cat", "cat").answer_batch(
            [("who?", "a cat"), ("who sleeps by the sea? where?", "a cat")]
        )
    assert [best.truncated for best, *_ in found] == [False, True]


@pytest.mark.parametrize("chunk", [1, 2, 100])
def test_stream_equals_list(side, chunk):
    answerer = QuestionAnswerer(network(side), side, windows=LAYOUT)
    streamed = [some[0].text for some in answerer.answer_stream(iter(ASKED), BEST, chunk=chunk)]
    assert streamed == [some[0].text for some in answerer.answer_batch(ASKED, BEST)]


def test_windows_beyond_the_positions_are_refused(side):
    with pytest.raises(ConfigError, match=r"windows\.max_length = 23: the model has 19 positions only; lower it"):
        QuestionAnswerer(network(side, positions=LearnedConfig(max_length=19)), side, windows=LAYOUT)
