"""Streams of requests: results in order, bounded reading, and errors in their place."""

import warnings
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.data.tokenizers import CharacterConfig, Tokenizer
from dragoman.decoding import DecodingConfig
from dragoman.errors import DataError, RunError
from dragoman.inference import Translation, Translator
from dragoman.inference.backends.torch_backend import TorchBackend
from dragoman.inference.scheduler import Request, Scheduler, run_in_order
from tests.fake_models import PrefixModel
from tests.property_settings import examples
from tests.unit.inference.test_engine_thread import DAMAGED, WANTED, Slow, alone, assert_same

PAIRS = [("two dogs and a cat", "zwei Hunde und eine Katze")]


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(lambda: PAIRS, CharacterConfig(shared=False))


@pytest.fixture
def freely(monkeypatch):
    """Enable continuous batching with the PyTorch backend."""
    monkeypatch.setattr(TorchBackend, "continuous_batching", True)


asked = st.tuples(st.lists(st.integers(4, 8), max_size=7).map(tuple), st.sampled_from(WANTED), st.integers(1, 7))


@examples(40)
@given(st.lists(st.lists(asked, max_size=3), max_size=13), st.sampled_from([1, 7, 23, 1000]), st.integers(1, 17))
def test_jobs_equal_alone_in_order_and_bound_reading(tokenizer, asked, room, ahead):
    network = TorchBackend(Slow())
    jobs = [[Request(*one) for one in job] for job in asked]
    read, given_out = [], []

    def reading() -> Iterator[list[Request]]:
        for job in jobs:
            read.append(job)
            assert len(read) - len(given_out) <= ahead
            yield job

    for answer in run_in_order(Scheduler(network, max_tokens=room), reading(), ahead=ahead):
        given_out.append(answer)
    assert len(given_out) == len(jobs)
    for job, answer in zip(jobs, given_out, strict=True):
        assert len(answer) == len(job)
        for request, found in zip(job, answer, strict=True):
            assert_same(found, alone(network, request))


@pytest.mark.parametrize("ahead", [1, 2, 50])
def test_errors_are_raised_in_their_place(tokenizer, ahead):
    network = TorchBackend(Slow())
    sources = [(4, 5), (6,), (4, DAMAGED), (7, 7), (5,)]
    jobs = [[Request(ids, DecodingConfig(beam_size=2), 7)] for ids in sources]
    given_out = []
    with pytest.raises(RunError, match="not finite"):
        given_out.extend(run_in_order(Scheduler(network, max_tokens=23), jobs, ahead=ahead))
    assert len(given_out) == 2

    def broken() -> Iterator[list[Request]]:
        yield from (jobs[0], jobs[1], jobs[3])
        raise DataError("line 4: is not UTF-8")

    given_out.clear()
    with pytest.raises(DataError, match="line 4"):
        given_out.extend(run_in_order(Scheduler(network, max_tokens=23), broken(), ahead=ahead))
    assert len(given_out) == 3


def test_longest_requests_go_first_once_all_are_read(tokenizer):
    """With a budget of one request, the first result comes at once if the first job is the longest."""
    network = TorchBackend(Slow())
    entered: list[tuple[int, ...]] = []
    encode = network.encode

    class Watched:
        def __getattr__(self, name: str) -> object:
            return getattr(network, name)

        def encode(self, sources: list[tuple[int, ...]], trees: tuple[()] = ()) -> object:
            entered.extend(sources)
            return encode(sources, trees)

    lengths = (2, 5, 1, 4, 3)
    jobs = [[Request((4,) * length, DecodingConfig(beam_size=1), 3)] for length in lengths]
    for ahead, order in ((6, [5, 4, 3, 2, 1]), (3, [2, 5, 1, 4, 3])):
        entered.clear()
        assert len(list(run_in_order(Scheduler(Watched(), max_tokens=1), jobs, ahead=ahead))) == 5
        assert [len(ids) for ids in entered] == order


def texts_of(found: Iterator[Sequence[Translation]]) -> list[str]:
    return [translations[0].text for translations in found]


@pytest.mark.usefixtures("freely")
@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_continuous_stream_equals_list(tokenizer, chunk):
    lines = ["two dogs", "", "a cat", "", "", "dogs and a cat", "and two cats and a dog " * 3, "a"]
    model = Translator(PrefixModel(words=len(tokenizer.target) - 4, end_bias=2.0), tokenizer, max_segment_length=29)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        expected = texts_of(model.translate(lines))
        apart = [str(one.message) for one in told]
        told.clear()
        assert texts_of(model.translate_stream(iter(lines), chunk=chunk)) == expected
    assert any(one.startswith("texts[6]:") and "segments" in one for one in apart)
    assert sorted(str(one.message) for one in told) == sorted(apart)


@pytest.mark.usefixtures("freely")
def test_stream_of_empty_lines_is_read_lazily(tokenizer):
    read = []
    model = Translator(PrefixModel(words=len(tokenizer.target) - 4, end_bias=2.0), tokenizer)
    lines = (read.append(number) or "" for number in range(10_000))
    streamed = model.translate_stream(lines, chunk=64)
    for number in range(1000):
        assert next(streamed)[0].text == ""
        assert len(read) <= number + 2 * 64


@pytest.mark.usefixtures("freely")
@pytest.mark.parametrize("chunk", [1, 100])
def test_refused_line_stops_a_stream_after_earlier_lines(tokenizer, chunk):
    model = Translator(PrefixModel(words=len(tokenizer.target) - 4, end_bias=2.0), tokenizer)
    given_out = []
    with pytest.raises(DataError, match=r"texts\[2\]: 79999 tokens"):
        given_out.extend(model.translate_stream(["a cat", "two dogs", "cat " * 20_000, "a cat"], chunk=chunk))
    assert len(given_out) == 2
