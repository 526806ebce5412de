"""Best answer spans, compared with an exhaustive search."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.inference.question_answerer import TokenSpan, best_spans


def by_hand(starts: list[float], ends: list[float], allowed: list[bool], longest: int, count: int) -> list[TokenSpan]:
    spans = [
        TokenSpan(start, end, starts[start] + ends[end])
        for start in range(len(starts))
        for end in range(start, min(start + longest, len(starts)))
        if allowed[start] and allowed[end]
    ]
    return sorted(spans, key=lambda span: (-span.score, span.start, span.end))[:count]


numbers = st.floats(-50, 50, width=32) | st.sampled_from([0.0, 1.0])


@given(
    windows=st.integers(1, 11).flatmap(
        lambda places: st.lists(
            st.tuples(
                *[st.lists(kind, min_size=places, max_size=places) for kind in (numbers, numbers, st.booleans())]
            ),
            min_size=1,
            max_size=3,
        )
    ),
    longest=st.integers(1, 13),
    count=st.integers(1, 17),
)
def test_best_spans_equal_exhaustive_search(windows, longest, count):
    starts, ends, allowed = (list(column) for column in zip(*windows, strict=True))
    tensors = (torch.tensor(side, dtype=torch.float64) for side in (starts, ends))
    found = best_spans(*tensors, torch.tensor(allowed), max_length=longest, count=count)
    assert found == [by_hand(*window, longest, count) for window in windows]


def test_window_without_allowed_position_has_no_span():
    nothing = torch.zeros(1, 5, dtype=torch.bool)
    assert best_spans(torch.zeros(1, 5), torch.zeros(1, 5), nothing, max_length=3, count=2) == [[]]


def test_best_start_and_best_end_may_not_combine():
    starts, ends = torch.tensor([[0.0, 1.0, 9.0]]), torch.tensor([[9.0, 2.0, 1.0]])
    everywhere = torch.ones(1, 3, dtype=torch.bool)
    [[best, second, third]] = best_spans(starts, ends, everywhere, max_length=2, count=3)
    assert (best, second, third) == (TokenSpan(2, 2, 10.0), TokenSpan(0, 0, 9.0), TokenSpan(1, 1, 3.0))
