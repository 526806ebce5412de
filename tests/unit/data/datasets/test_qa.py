"""Questions and contexts as windows of ids."""

import numpy as np
import pytest
import torch

from dragoman.config import parse
from dragoman.data.batching.in_memory import batches_once, example_stream
from dragoman.data.datasets.qa import (
    QuestionData,
    QuestionIds,
    Window,
    WindowSettings,
    read_question_parts,
    tokens_of,
    windows,
)
from dragoman.data.readers import Located, Question
from dragoman.data.tokenizers import BEGIN, END, PAD, Bpe, Side, Tokenizer, Words
from dragoman.errors import ConfigError

SMALL = WindowSettings(longest=10, longest_question=3, stride=2)
CONTEXT = "a b c d e f g h"


@pytest.fixture(scope="module")
def side() -> Side:
    return Tokenizer.train(lambda: [(CONTEXT, "who is it")], Words()).source


def asked(*answers: tuple[str, int], question: str = "who is", context: str = CONTEXT, place: str = "p") -> Question:
    return Question("q", question, context, tuple(Located(*answer) for answer in answers), place)


def test_a_window_holds_the_question_and_a_part_of_the_context():
    assert windows([7, 8], [20, 21, 22, 23, 24, 25, 26], SMALL) == [
        Window([BEGIN, 7, 8, END, 20, 21, 22, 23, 24, END], 4, 0),
        Window([BEGIN, 7, 8, END, 22, 23, 24, 25, 26, END], 4, 2),
    ]
    assert windows([7, 8], [20, 21], SMALL) == [Window([BEGIN, 7, 8, END, 20, 21, END], 4, 0)]
    assert windows([7], [], SMALL) == [Window([BEGIN, 7, END, END], 3, 0)]


def test_a_long_question_loses_its_end():
    [window] = windows([7, 8, 9, 10], [20], SMALL)
    assert window == Window([BEGIN, 7, 8, 9, END, 20, END], 5, 0)


def test_the_last_window_ends_with_the_context():
    found = windows([7, 8, 9], list(range(20, 31)), SMALL)
    assert [(window.first, window.held) for window in found] == [(0, 4), (2, 4), (4, 4), (6, 4), (7, 4)]


def test_an_answer_is_at_its_places_where_it_is_whole():
    window = Window([BEGIN, 7, END, 22, 23, 24, END], 3, 2)
    assert window.place_of(2, 4) == (3, 5)
    assert window.place_of(3, 3) == (4, 4)
    assert window.place_of(1, 2) == window.place_of(4, 5) == window.place_of(7, 9) == (0, 0)


@pytest.mark.parametrize(
    ("start", "text", "expected"),
    [(0, "a", (0, 0)), (2, "b c", (1, 2)), (1, " b ", (1, 1)), (14, "h", (7, 7)), (1, " ", None)],
)
def test_an_answer_has_the_tokens_that_it_touches(side, start, text, expected):
    _, spans = side.encode_with_offsets(CONTEXT)
    assert CONTEXT[start : start + len(text)] == text
    assert tokens_of(Located(text, start), spans) == expected


def test_a_batch_of_windows(side):
    questions = [asked(("d e", 6), ("a", 0)), asked(question="it", context="b a"), asked(("b", 0), context="b")]
    ids = QuestionIds.build(questions, side, SMALL)
    assert ids.owners.tolist() == [0, 0, 0, 1, 2]
    a, b, c, d, e, f, g, h = side.encode(CONTEXT)
    who, is_, it = side.encode("who is it")
    batch = ids.collate(np.array([0, 1, 2, 3, 4]))
    assert batch.tokens.tolist() == [
        [BEGIN, who, is_, END, a, b, c, d, e, END],
        [BEGIN, who, is_, END, c, d, e, f, g, END],
        [BEGIN, who, is_, END, d, e, f, g, h, END],
        [BEGIN, it, END, b, a, END, PAD, PAD, PAD, PAD],
        [BEGIN, who, is_, END, b, END, PAD, PAD, PAD, PAD],
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
    assert ids.places == ("p",) * 3


def test_cut_questions_are_counted(side):
    ids = QuestionIds.build([asked(question="who is it a"), asked()], side, SMALL)
    assert ids.cut == 1


@pytest.mark.parametrize("stride", [5, 99])
def test_windows_that_leave_something_out_are_refused(stride):
    with pytest.raises(ConfigError, match=rf"stride = {stride} leaves tokens of the context out .* hold 4 of them"):
        parse(WindowSettings, {"longest": 10, "longest_question": 3, "stride": stride})
    with pytest.raises(ConfigError, match="hold 0 of them beside a question of 64"):
        parse(WindowSettings, {"longest": 10, "stride": 1})


def test_streams_and_passes(side):
    questions = [asked(("b", 2), context=" ".join(CONTEXT.split()[: 3 + n % 6])) for n in range(19)]
    ids = QuestionIds.build(questions, side, SMALL)
    stream = example_stream(ids, budget=41, seed=3)
    rows = [row for _ in range(stream.batches_per_epoch()) for row in next(stream).rows]
    assert sorted(rows) == list(range(len(ids)))
    assert sum(len(batch) for batch in batches_once(ids, budget=41)) == len(ids) > 19


def test_squad_is_split_by_articles_and_its_answers_are_found_back(shared_data):
    path = str(shared_data / "qa" / "squad" / "dev-v1.1.json.gz")
    parts = {"train": [1, 2], "valid": [3, 3], "test": [48, 48]}
    tree = {name: {"kind": "squad", "path": path, "articles": numbers} for name, numbers in parts.items()}
    found = read_question_parts(parse(QuestionData, tree), seed=1)
    assert found.notes == ()
    assert not {one.name for one in found.train} & {one.name for one in (*found.valid, *found.test)}
    texts = [text for one in found.train for text in (one.question, one.context)]
    side = Tokenizer.train(lambda: [(text, text) for text in texts], Bpe(vocabulary=2000)).source
    layout = WindowSettings(longest=128, longest_question=32, stride=48)
    ids = QuestionIds.build(found.train, side, layout)
    held = {int(owner) for owner, span in zip(ids.owners, ids.spans, strict=True) if span[0]}
    assert len(held) > 0.99 * len(found.train)  # but for answers longer than two windows share
    exact = 0
    for one in found.train:
        _, spans = side.encode_with_offsets(one.context)
        first, last = tokens_of(one.answers[0], spans)
        text = one.context[spans[first][0] : spans[last][1]]
        assert one.answers[0].text.strip() in text
        exact += text == one.answers[0].text
    assert exact > 0.97 * len(found.train)  # the others begin or end inside a token


def test_whole_contexts_are_held_out(shared_data):
    path = str(shared_data / "qa" / "squad" / "dev-v1.1.json.gz")
    train = {"kind": "squad", "path": path, "articles": [5, 5]}
    found = read_question_parts(parse(QuestionData, {"train": train, "held_out": 3}), seed=1)
    assert len({one.context for one in found.valid}) == 3
    assert not {one.context for one in found.valid} & {one.context for one in found.train}
    with pytest.raises(ConfigError, match="held_out has no effect beside valid"):
        parse(QuestionData, {"train": train, "valid": train, "held_out": 5})
