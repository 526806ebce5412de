"""Questions and contexts as windows of ids."""

import numpy as np
import pytest
import torch

from dragoman.config import parse
from dragoman.data.batching.example_batches import example_stream, examples_in_order
from dragoman.data.datasets.qa import (
    QuestionDataConfig,
    QuestionDataset,
    Window,
    WindowConfig,
    answer_tokens,
    make_windows,
    read_question_splits,
)
from dragoman.data.readers.qa import AnswerSpan, Question
from dragoman.data.tokenizers import BOS, EOS, PAD, BpeConfig, LanguageTokenizer, Tokenizer, WordConfig
from dragoman.errors import ConfigError

SMALL = WindowConfig(max_length=10, max_question_length=3, stride=2)
CONTEXT = "a b c d e f g h"


@pytest.fixture(scope="module")
def side() -> LanguageTokenizer:
    return Tokenizer.train(lambda: [(CONTEXT, "who is it")], WordConfig()).source


def asked(*answers: tuple[str, int], question: str = "who is", context: str = CONTEXT, place: str = "p") -> Question:
    return Question("q", question, context, tuple(AnswerSpan(*answer) for answer in answers), place)


def test_window_holds_question_and_part_of_the_context():
    assert make_windows([7, 8], [20, 21, 22, 23, 24, 25, 26], SMALL) == [
        Window([BOS, 7, 8, EOS, 20, 21, 22, 23, 24, EOS], 4, 0),
        Window([BOS, 7, 8, EOS, 22, 23, 24, 25, 26, EOS], 4, 2),
    ]
    assert make_windows([7, 8], [20, 21], SMALL) == [Window([BOS, 7, 8, EOS, 20, 21, EOS], 4, 0)]
    assert make_windows([7], [], SMALL) == [Window([BOS, 7, EOS, EOS], 3, 0)]


def test_long_question_is_truncated():
    [window] = make_windows([7, 8, 9, 10], [20], SMALL)
    assert window == Window([BOS, 7, 8, 9, EOS, 20, EOS], 5, 0)


def test_last_window_ends_with_the_context():
    found = make_windows([7, 8, 9], list(range(20, 31)), SMALL)
    assert [(window.first_token, window.num_context_tokens) for window in found] == [
        (0, 4),
        (2, 4),
        (4, 4),
        (6, 4),
        (7, 4),
    ]


def test_answer_is_located_in_windows_that_hold_it():
    window = Window([BOS, 7, EOS, 22, 23, 24, EOS], 3, 2)
    assert window.locate(2, 4) == (3, 5)
    assert window.locate(3, 3) == (4, 4)
    assert window.locate(1, 2) == window.locate(4, 5) == window.locate(7, 9) == (0, 0)


@pytest.mark.parametrize(
    ("start", "text", "expected"),
    [(0, "a", (0, 0)), (2, "b c", (1, 2)), (1, " b ", (1, 1)), (14, "h", (7, 7)), (1, " ", None)],
)
def test_answer_has_the_tokens_it_overlaps(side, start, text, expected):
    _, spans = side.encode_with_offsets(CONTEXT)
    assert CONTEXT[start : start + len(text)] == text
    assert answer_tokens(AnswerSpan(text, start), spans) == expected


def test_batch_pads_windows(side):
    questions = [asked(("d e", 6), ("a", 0)), asked(question="it", context="b a"), asked(("b", 0), context="b")]
    ids = QuestionDataset.build(questions, side, SMALL)
    assert ids.question_ids.tolist() == [0, 0, 0, 1, 2]
    a, b, c, d, e, f, g, h = side.encode(CONTEXT)
    who, is_, it = side.encode("who is it")
    batch = ids.collate(np.array([0, 1, 2, 3, 4]))
    assert batch.tokens.tolist() == [
        [BOS, who, is_, EOS, a, b, c, d, e, EOS],
        [BOS, who, is_, EOS, c, d, e, f, g, EOS],
        [BOS, who, is_, EOS, d, e, f, g, h, EOS],
        [BOS, it, EOS, b, a, EOS, PAD, PAD, PAD, PAD],
        [BOS, who, is_, EOS, b, EOS, PAD, PAD, PAD, PAD],
    ]
    assert batch.segments.tolist() == [
        *[[0, 0, 0, 0, 1, 1, 1, 1, 1, 1]] * 3,
        [0, 0, 0, 1, 1, 1, 0, 0, 0, 0],
        [0, 0, 0, 0, 1, 1, 0, 0, 0, 0],
    ]
    assert batch.starts.tolist() == [7, 5, 4, 0, 4]
    assert batch.ends.tolist() == [8, 6, 5, 0, 4]
    assert batch.lengths.tolist() == [10, 10, 10, 6, 6]
    assert len(batch) == batch.target_count == 5
    moved = batch.to(torch.device("meta"))
    assert {one.device.type for one in (moved.tokens, moved.segments, moved.starts, moved.ends)} == {"meta"}
    assert ids.locations == ("p",) * 3


def test_truncated_questions_are_counted(side):
    ids = QuestionDataset.build([asked(question="who is it a"), asked()], side, SMALL)
    assert ids.num_truncated == 1


@pytest.mark.parametrize("stride", [5, 99])
def test_stride_that_skips_tokens_is_refused(stride):
    with pytest.raises(ConfigError, match=rf"stride = {stride} skips tokens of the context .* hold 4 of them"):
        parse(WindowConfig, {"max_length": 10, "max_question_length": 3, "stride": stride})
    with pytest.raises(ConfigError, match="hold 0 of them with a question of 64"):
        parse(WindowConfig, {"max_length": 10, "stride": 1})


def test_stream_and_validation_yield_every_window(side):
    questions = [asked(("b", 2), context=" ".join(CONTEXT.split()[: 3 + n % 6])) for n in range(19)]
    ids = QuestionDataset.build(questions, side, SMALL)
    stream = example_stream(ids, budget=41, seed=3)
    rows = [row for _ in range(stream.batches_per_epoch()) for row in next(stream).rows]
    assert sorted(rows) == list(range(len(ids)))
    assert sum(len(batch) for batch in examples_in_order(ids, budget=41)) == len(ids) > 19


def test_squad_answers_are_found_in_windows(shared_data):
    path = str(shared_data / "qa" / "squad" / "dev-v1.1.json.gz")
    parts = {"train": [1, 2], "valid": [3, 3], "test": [48, 48]}
    tree = {name: {"kind": "squad", "path": path, "articles": numbers} for name, numbers in parts.items()}
    found = read_question_splits(parse(QuestionDataConfig, tree), seed=1)
    assert found.notes == ()
    assert not {one.id for one in found.train} & {one.id for one in (*found.valid, *found.test)}
    texts = [text for one in found.train for text in (one.question, one.context)]
    side = Tokenizer.train(lambda: [(text, text) for text in texts], BpeConfig(vocab_size=2000)).source
    layout = WindowConfig(max_length=128, max_question_length=32, stride=48)
    ids = QuestionDataset.build(found.train, side, layout)
    held = {int(owner) for owner, span in zip(ids.question_ids, ids.spans, strict=True) if span[0]}
    assert len(held) > 0.99 * len(found.train)  # but for answers longer than two windows share
    exact = 0
    for one in found.train:
        _, spans = side.encode_with_offsets(one.context)
        first, last = answer_tokens(one.answers[0], spans)
        text = one.context[spans[first][0] : spans[last][1]]
        assert one.answers[0].text.strip() in text
        exact += text == one.answers[0].text
    assert exact > 0.97 * len(found.train)  # the others begin or end inside a token


def test_whole_contexts_are_held_out(shared_data):
    path = str(shared_data / "qa" / "squad" / "dev-v1.1.json.gz")
    train = {"kind": "squad", "path": path, "articles": [5, 5]}
    found = read_question_splits(parse(QuestionDataConfig, {"train": train, "valid_size": 3}), seed=1)
    assert len({one.context for one in found.valid}) == 3
    assert not {one.context for one in found.valid} & {one.context for one in found.train}
    with pytest.raises(ConfigError, match="valid_size has no effect if valid is given"):
        parse(QuestionDataConfig, {"train": train, "valid": train, "valid_size": 5})


def test_cropped_windows_hold_the_answer(side):
    ids = QuestionDataset.build(
        [asked(("d e", 6)), asked()], side, WindowConfig(max_length=20, max_question_length=3, stride=9)
    )
    _, b, c, d, e, f, g, _ = side.encode(CONTEXT)
    head = [BOS, *side.encode("who is"), EOS]
    parts = {(b, c, d, e), (c, d, e, f), (d, e, f, g)}
    seen = set()
    for seed in range(23):
        batch = ids.crop(9, np.random.default_rng(seed)).collate(np.array([0, 1]))
        tokens, start, end = batch.tokens[0].tolist(), int(batch.starts[0]), int(batch.ends[0])
        assert tokens[:4] == head
        assert tokens[-1] == EOS
        assert tokens[start : end + 1] == [d, e]
        assert (batch.starts[1], batch.ends[1]) == (0, 0)
        seen.add(tuple(tokens[4:-1]))
    assert seen == parts


def test_cropping_keeps_short_windows_and_loses_long_answers(side):
    ids = QuestionDataset.build([asked(("c d e f", 4)), asked(("b", 0), context="b")], side, SMALL)
    cropped = ids.crop(8, np.random.default_rng(1))
    assert cropped.spans.tolist() == [[0, 0], [0, 0], [0, 0], [4, 4]]
    assert cropped.lengths.tolist() == [8, 8, 8, 6]


@pytest.mark.parametrize("length", [6, 11])
def test_training_length_out_of_range_is_refused(length):
    with pytest.raises(ConfigError, match=rf"training_length = {length} is not between .* = 7 and max_length = 10"):
        parse(WindowConfig, {"max_length": 10, "max_question_length": 3, "stride": 2, "training_length": length})
