"""Engine: results equal those of single requests, and no caller waits for ever."""

import asyncio
import random
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.data.tokenizers import CharacterConfig, Tokenizer
from dragoman.decoding import DecodingConfig, search
from dragoman.errors import RunError
from dragoman.inference.backends.torch_backend import TorchBackend
from dragoman.inference.engine_thread import Engine, RequestRunner
from dragoman.inference.scheduler import Request, Scheduler
from tests.fake_models import Prefixes, PrefixModel, Sources
from tests.property_settings import examples

WANTED = [
    DecodingConfig(beam_size=3, n_best=2),
    DecodingConfig(beam_size=1),
    DecodingConfig(beam_size=2, length_penalty_kind="gnmt"),
]
DAMAGED = 9
"""Source token for which the model returns NaN."""
UNKNOWN = 99
"""Source token outside the vocabulary."""
PAIRS = [("a", "b")]


class Slow:
    """`PrefixModel` that returns NaN for a damaged source and steps only while `may_go` is set."""

    def __init__(self) -> None:
        self.network = PrefixModel(words=3, end_bias=1.0)
        self.may_go = threading.Event()
        self.may_go.set()
        self.steps = 0

    def encode(self, source: torch.Tensor, lengths: torch.Tensor) -> Sources:
        if (source == UNKNOWN).any():
            raise IndexError("token 99 is not in the vocabulary")
        return self.network.encode(source, lengths)

    def start(self, memory: Sources, *, beam_size: int) -> Prefixes:
        return self.network.start(memory, beam_size=beam_size)

    def step(self, tokens: torch.Tensor, memory: Sources, state: Prefixes) -> tuple[torch.Tensor, Prefixes]:
        assert self.may_go.wait(timeout=60)
        self.steps += 1
        logits, after = self.network.step(tokens, memory, state)
        for row, ids in enumerate(memory.ids):
            if DAMAGED in ids:
                logits[row] = torch.nan
        return logits, after

    def hidden(self, source: torch.Tensor, source_lengths: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return self.network.hidden(source, source_lengths, target)

    def unembed(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden


@pytest.fixture(scope="module")
def side():
    return Tokenizer.train(lambda: PAIRS, CharacterConfig()).source


@pytest.fixture
def slow():
    return Slow()


@pytest.fixture
def network(slow, side):
    return TorchBackend(slow)


def alone(network: TorchBackend, request: Request) -> list:
    memory = network.encode([request.ids])
    limits = np.array([request.limit])
    [found] = search(network, memory, limits=limits, config=request.config)
    return found


def assert_same(found: list, expected: list) -> None:
    assert [one.tokens for one in found] == [one.tokens for one in expected]
    assert [one.score for one in found] == pytest.approx([one.score for one in expected], abs=1e-5)


asked = st.tuples(st.lists(st.integers(4, 8), max_size=7).map(tuple), st.sampled_from(WANTED), st.integers(1, 7))


@examples(40)
@given(st.lists(asked, max_size=11), st.sampled_from([1, 7, 23, 1000]), st.sampled_from([0.0, 0.25, 1.0]))
def test_results_do_not_depend_on_the_batch(side, asked, room, refill):
    network = TorchBackend(Slow())
    requests = [Request(*one) for one in asked]
    running, waiting, found = Scheduler(network, max_tokens=room, refill=refill), deque(requests), {}
    while waiting or len(running):
        running.admit(waiting)
        running_tokens = sum(one.tokens for one in requests) - sum(one.tokens for one in [*waiting, *found])
        assert running_tokens <= room or len(running) == 1
        finished = running.step()
        assert all(one.error is None for one in finished)
        found |= {one.request: one.hypotheses for one in finished}
    assert found.keys() == set(requests)
    for request, hypotheses in found.items():
        assert_same(hypotheses, alone(network, request))


def test_concurrent_callers_get_the_results_of_single_requests(network):
    generator = random.Random(3)
    requests = [
        Request(tuple(generator.choices(range(4, 9), k=generator.randint(0, 7))), generator.choice(WANTED), 7)
        for _ in range(30)
    ]
    answers = {}

    def call(engine: Engine, mine: list[Request], seed: int) -> None:
        pauses = random.Random(seed)
        for request in mine:
            time.sleep(pauses.random() / 300)
            answers[request] = engine.submit(request)

    with Engine(network, max_tokens=19) as engine:
        callers = [threading.Thread(target=call, args=(engine, requests[start::5], start)) for start in range(5)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
    assert answers.keys() == set(requests)
    for request, answer in answers.items():
        assert_same(answer.result(timeout=0), alone(network, request))


def test_run_keeps_order_and_raises_an_error(network):
    requests = [Request((4,) * (length % 5), WANTED[0], 1 + length % 7) for length in range(40)]
    with Engine(network, max_tokens=29) as engine:
        for request, hypotheses in zip(requests, engine.run(requests), strict=True):
            assert_same(hypotheses, alone(network, request))
        with pytest.raises(RunError, match="not finite numbers"):
            engine.run([requests[0], Request((DAMAGED,), WANTED[0], 5), requests[1]])


def test_non_finite_logits_fail_one_request_only(network):
    requests = [Request((4, 5), WANTED[0], 5), Request((DAMAGED,), WANTED[0], 5), Request((6,), WANTED[0], 5)]
    with Engine(network) as engine:
        answers = [engine.submit(request) for request in requests]
        with pytest.raises(RunError, match="not finite numbers"):
            answers[1].result(timeout=60)
        for place in (0, 2):
            assert_same(answers[place].result(timeout=60), alone(network, requests[place]))


def test_unreadable_request_fails_alone(network):
    good = Request((4, 5), WANTED[0], 5)
    with Engine(network) as engine:
        answers = [engine.submit(request) for request in (good, Request((UNKNOWN,), WANTED[0], 5), good)]
        with pytest.raises(IndexError, match="not in the vocabulary"):
            answers[1].result(timeout=60)
        for answer in (answers[0], answers[2], engine.submit(good)):
            assert_same(answer.result(timeout=60), alone(network, good))


def test_requests_can_be_cancelled_at_any_time(network, slow):
    slow.may_go.clear()
    with Engine(network) as engine:
        first, second = (engine.submit(Request((4, 5), WANTED[0], 5)) for _ in range(2))
        time.sleep(0.05)
        assert first.cancel()
        slow.may_go.set()
        assert second.result(timeout=60)
        assert first.cancelled()
        assert not wait([first], timeout=60).not_done, "who waits for it is told"


def test_cancelled_requests_make_room(network, slow):
    slow.may_go.clear()
    request = Request((4, 5), WANTED[0], 5)
    with Engine(network, max_tokens=3) as engine:
        running, waiting, last = (engine.submit(request) for _ in range(3))
        time.sleep(0.1)
        assert waiting.cancel()
        assert running.cancel()
        slow.may_go.set()
        assert_same(last.result(timeout=30), alone(network, request))


def test_short_call_does_not_wait_for_a_long_one(network, slow):
    slow.may_go.clear()
    with Engine(network, max_tokens=9) as engine:
        call = object()
        long = [engine.submit(Request((4, 5), WANTED[0], 5), call=call) for _ in range(300)]
        short = engine.submit(Request((5, 4), WANTED[0], 5))
        slow.may_go.set()
        assert short.result(timeout=60)
        assert sum(one.done() for one in long) < 30
        for one in long:
            one.cancel()


def test_cancelled_coroutine_leaves_the_batch(network, slow):
    """Its requests are dropped before the next step, and other calls go on."""
    requests = [Request((4, 5), WANTED[0], 5) for _ in range(300)]
    runner = RequestRunner(network, batch_tokens=9)
    steps: list[int] = []

    async def run() -> list:
        slow.may_go.clear()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(runner.run_async(requests), timeout=0.2)
        slow.may_go.set()
        found = await runner.run_async(requests[:1])
        steps.append(slow.steps)
        return found

    [found] = asyncio.run(run())
    assert_same(found, alone(network, requests[0]))
    assert steps[0] < 30


def test_calls_of_threads_and_coroutines_take_turns(network, slow):
    """A coroutine gets its result while a thread runs a long job, whose results do not change."""
    requests = [Request((4, 5), DecodingConfig(beam_size=1), 5) for _ in range(300)]
    runner = RequestRunner(network, batch_tokens=9)
    with ThreadPoolExecutor() as pool:
        job = pool.submit(runner.run, requests)
        while not slow.steps:
            time.sleep(0.001)
        [short] = asyncio.run(runner.run_async(requests[:1]))
        assert not job.done()
        assert_same(short, job.result(timeout=60)[0])


def test_same_request_may_be_submitted_again(network, slow):
    """Each submission is a request of its own, during and after an earlier one."""
    with Engine(network, max_tokens=100) as engine:
        slow.may_go.clear()
        request = Request([4, 5], DecodingConfig(beam_size=1), 5)
        other = engine.submit(Request([5, 4], DecodingConfig(beam_size=1), 5))
        twice = [engine.submit(request), engine.submit(request)]
        taken_back = engine.submit(request)
        taken_back.cancel()
        again = engine.submit(request)
        slow.may_go.set()
        found = [answer.result(timeout=60)[0].tokens for answer in (*twice, again)]
        assert len(set(found)) == 1
        assert other.result(timeout=60)
    assert taken_back.cancelled()


def test_closed_engine_completes_submitted_requests(network):
    with Engine(network) as engine:
        answer = engine.submit(Request((4, 5), DecodingConfig(beam_size=2), 5))
    assert answer.done()
    with pytest.raises(RuntimeError, match="closed"):
        engine.submit(Request((4,), WANTED[0], 5))


def test_internal_errors_reach_every_caller(network, slow, monkeypatch):
    slow.may_go.clear()
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    engine = Engine(network)
    answers = [engine.submit(Request((4, 5), WANTED[0], 5)) for _ in range(2)]
    monkeypatch.setattr(Scheduler, "step", lambda *_: 1 / 0)
    slow.may_go.set()
    for answer in answers:
        with pytest.raises(ZeroDivisionError):
            answer.result(timeout=60)
    engine.close()


def test_statistics_count_each_request_and_each_step(network, slow):
    requests = [Request((4, *([5] * size)), WANTED[0], 5) for size in range(7)]
    with Engine(network) as engine:
        found = engine.run(requests)
        steps, statistics = slow.steps, engine.statistics
    assert (statistics.running, statistics.waiting) == (0, 0)
    assert statistics.prompt_tokens == sum(len(one.ids) for one in requests)
    assert statistics.generation_tokens == sum(len(one.tokens) for some in found for one in some)
    assert sum(statistics.batch_size.counts) == steps
    assert sum(statistics.queue_time.counts) == sum(statistics.time_to_first_token.counts) == len(requests)
    assert statistics.time_to_first_token.sum >= statistics.queue_time.sum


def test_statistics_tell_running_from_waiting_requests(network, slow):
    slow.may_go.clear()
    requests = [Request((4, 5, 6), WANTED[1], 5) for _ in range(5)]
    with Engine(network, max_tokens=8) as engine:
        pending = [engine.submit(one) for one in requests]
        deadline = time.monotonic() + 60
        while engine.statistics.running != 2 and time.monotonic() < deadline:
            time.sleep(0.001)
        assert (engine.statistics.running, engine.statistics.waiting) == (2, 3)
        slow.may_go.set()
        wait(pending, timeout=60)


def test_queues_forget_completed_calls(network):
    with Engine(network) as engine:
        for _ in range(3):
            engine.run([Request((4, 5), WANTED[0], 5)] * 3)
        assert not any(queue._ends for queue in engine._waiting.values())
