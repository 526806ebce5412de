"""Engine under fire: callers that misuse it in every way do not hurt others, and no call waits long for another."""

import asyncio
import gc
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any, NamedTuple

import pytest

from dragoman.decoding import DecodingConfig, SamplingConfig
from dragoman.decoding.hypothesis import Hypothesis, OutputStart
from dragoman.errors import ConfigError, DataError
from dragoman.inference.backends.cpu_backend import CpuBackend
from dragoman.inference.backends.torch_backend import TorchBackend
from dragoman.inference.engine_thread import MAX_SHARED_BEAM_SIZE, Engine, RequestRunner, check_request
from dragoman.inference.scheduler import ENCODED_TOKENS, Request, Scheduler, search_requests
from dragoman.models.config import EncoderDecoderConfig
from tests.unit.inference.test_engine_thread import UNKNOWN, WANTED, Slow, assert_same

CALLERS = 64
TIMEOUT = 120
"""Seconds after which a request counts as forgotten."""
EXHAUSTING = 97
"""Source token for which the backend runs out of memory."""
GREEDY, BEAM, SAMPLE = DecodingConfig(beam_size=1), DecodingConfig(beam_size=4, n_best=2), SamplingConfig(seed=3)


class Exhausted:
    """Backend that runs out of memory, as PyTorch does, with some sources."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def encode(self, sources: Sequence[Sequence[int]], source_features: tuple[()] = ()) -> Any:
        if any(EXHAUSTING in ids for ids in sources):
            raise RuntimeError("CUDA out of memory")
        return self._backend.encode(sources, source_features)


def changed(original: Any, **values: Any) -> Any:
    """Return a copy with values of any type; constructors check types in tests."""
    copy = object.__new__(type(original))
    for one in fields(original):
        object.__setattr__(copy, one.name, values.get(one.name, getattr(original, one.name)))
    return copy


GOOD = Request((4, 5, 6), GREEDY, 7)
START = OutputStart()
MALFORMED: dict[str, Any] = {
    "nothing": None,
    "no request": "two dogs",
    "no ids": changed(GOOD, ids=None),
    "ids in text": changed(GOOD, ids="45"),
    "an id in text": changed(GOOD, ids=("4", 5)),
    "no id": changed(GOOD, ids=(4, None)),
    "half an id": changed(GOOD, ids=(4, 5.5)),
    "negative id": changed(GOOD, ids=(4, -1)),
    "huge id": changed(GOOD, ids=(4, 2**63)),
    "too many ids": changed(GOOD, ids=(4,) * 1_000_000),
    "ids without end": changed(GOOD, ids=(4 for _ in iter(int, 1))),
    "no config": changed(GOOD, config=None),
    "config of another kind": changed(GOOD, config={"beam_size": 2}),
    "no beam": changed(GOOD, config=DecodingConfig.model_construct(beam_size=None)),
    "beam of no hypotheses": changed(GOOD, config=GREEDY.model_copy(update={"beam_size": 0})),
    "no settings": changed(GOOD, config=SamplingConfig.model_construct(temperature=None)),
    "large beam": changed(GOOD, config=DecodingConfig(beam_size=MAX_SHARED_BEAM_SIZE + 1)),
    "no limit": changed(GOOD, limit=None),
    "limit of nothing": changed(GOOD, limit=0),
    "limit in text": changed(GOOD, limit="7"),
    "huge limit": changed(GOOD, limit=10**30),
    "trees": changed(GOOD, heads=(0, 1, 1)),
    "no start": changed(GOOD, start=None),
    "no key": changed(GOOD, start=changed(START, key=(1, 2, 3))),
    "negative size": changed(GOOD, size=-5),
    "size in text": changed(GOOD, size="5"),
}


@pytest.fixture
def slow_model():
    return Slow()


@pytest.fixture
def network(slow_model):
    return TorchBackend(slow_model)


def alone(backend: Any, request: Request) -> list[Hypothesis]:
    return search_requests(backend, [request])[0]


@pytest.mark.parametrize("malformed", MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_requests_are_refused_by_submit(network, malformed):
    with Engine(network) as engine:
        good = engine.submit(GOOD)
        with pytest.raises((TypeError, ConfigError, DataError)):
            engine.submit(malformed)
        with pytest.raises((TypeError, ConfigError, DataError)) as caught:
            check_request(malformed, network)
        message = str(caught.value)
        assert len(message.splitlines()) < 4 or message.startswith("Type-check error"), "the tests check types, too"
        assert good.result(timeout=TIMEOUT)


def test_caller_may_change_a_request_it_submitted(network, slow_model):
    """The engine decodes the ids as they were."""
    ids = [4, 5, 6]
    slow_model.may_go.clear()
    with Engine(network) as engine:
        first = engine.submit(Request([7], GREEDY, 7))
        answer = engine.submit(Request(ids, GREEDY, 7))
        ids[:] = [UNKNOWN] * 9
        slow_model.may_go.set()
        assert first.result(timeout=TIMEOUT)
        assert_same(answer.result(timeout=TIMEOUT), alone(network, GOOD))


class Failing(Slow):
    """Model that raises an error of any kind in a step with some sources."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def step(self, tokens: Any, memory: Any, state: Any) -> Any:
        if any(EXHAUSTING in ids for ids in memory.ids):
            raise self.error
        return super().step(tokens, memory, state)


@pytest.mark.parametrize("error", [RuntimeError("out of memory"), MemoryError(), ZeroDivisionError(), StopIteration()])
@pytest.mark.parametrize("guilty", [1, 3])
def test_any_error_of_a_step_fails_the_guilty_only(error, guilty):
    network = TorchBackend(Failing(error))
    requests = [Request((4 + row % 3, 5), (GREEDY, BEAM)[row % 2], 7) for row in range(23)]
    bad = [Request((4, EXHAUSTING), BEAM, 7)] * guilty
    with Engine(network) as engine:
        mixed = [*requests[:11], *bad, *requests[11:]]
        answers = [engine.submit(one) for one in mixed]
        for request, answer in zip(mixed, answers, strict=True):
            if request in bad:
                assert isinstance(answer.exception(timeout=TIMEOUT), type(error))
            else:
                assert_same(answer.result(timeout=TIMEOUT), alone(network, request))
        assert engine.submit(GOOD).result(timeout=TIMEOUT)


def test_memory_of_a_failed_step_is_released():
    """The error that its caller keeps does not hold what the step computed."""

    class Large(Slow):
        def step(self, tokens: Any, memory: Any, state: Any) -> Any:
            computed = Witness()
            raise RuntimeError(f"out of memory {computed}"[:13])

    class Witness:
        alive = 0

        def __init__(self) -> None:
            Witness.alive += 1

        def __del__(self) -> None:
            Witness.alive -= 1

    with Engine(TorchBackend(Large())) as engine:
        error = engine.submit(GOOD).exception(timeout=TIMEOUT)
        assert isinstance(error, RuntimeError)
        assert not Witness.alive


def test_callbacks_may_do_everything_but_wait(network, slow_model):
    """Callbacks submit while many requests wait, cancel, raise errors of any kind, and close the engine."""
    slow_model.may_go.clear()
    later: list[Future[Any]] = []
    errors: list[BaseException] = []

    def wait_for_others(_: object) -> None:
        try:
            engine.run([GOOD])
        except RuntimeError as error:
            errors.append(error)

    def leave(_: object) -> None:
        raise SystemExit(3)

    engine = Engine(network, max_tokens=9)
    answers = [engine.submit(GOOD) for _ in range(200)]
    answers[0].add_done_callback(lambda _: later.append(engine.submit(GOOD)))
    answers[1].add_done_callback(lambda _: 1 / 0)
    answers[2].add_done_callback(leave)
    answers[3].add_done_callback(lambda _: answers[199].cancel())
    answers[4].add_done_callback(wait_for_others)
    answers[5].cancel()
    answers[198].add_done_callback(lambda _: engine.close())
    slow_model.may_go.set()
    for row, answer in enumerate(answers):
        if row not in (5, 199):
            assert answer.result(timeout=TIMEOUT)
    assert later[0].result(timeout=TIMEOUT)
    assert errors
    assert answers[199].cancelled()
    engine.close()
    with pytest.raises(RuntimeError, match="closed"):
        engine.submit(GOOD)


def test_engine_closes_while_busy(network, slow_model):
    """Every request is answered or cancelled, and no thread waits for ever."""
    slow_model.may_go.clear()
    engine = Engine(network, max_tokens=9)
    answers = [engine.submit(GOOD) for _ in range(99)]
    with ThreadPoolExecutor() as pool:
        closings = [pool.submit(engine.close, cancel=True) for _ in range(5)]
        slow_model.may_go.set()
        for closing in closings:
            closing.result(timeout=TIMEOUT)
    assert all(answer.done() for answer in answers)


def test_coroutines_get_a_new_engine_after_an_internal_error(network, monkeypatch):
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    runner = RequestRunner(network, batch_tokens=99)
    with monkeypatch.context() as patched:
        patched.setattr(Scheduler, "admit", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            asyncio.run(runner.run_async([GOOD]))
    [found] = asyncio.run(runner.run_async([GOOD]))
    assert_same(found, alone(network, GOOD))


LARGE = Request((4, 5), DecodingConfig(beam_size=MAX_SHARED_BEAM_SIZE, min_length=20), 21)
LONGEST_WAIT = 1.0
"""Seconds that a small request may take next to a large one, on a busy machine; alone it takes 0.02 s."""


class SlowRows(Slow):
    """Model whose steps take 2 ms for each hypothesis."""

    def step(self, tokens: Any, memory: Any, state: Any) -> Any:
        time.sleep(0.002 * tokens.numel())
        return super().step(tokens, memory, state)


def longest_wait(send: Callable[[Request], Any], large: Future[Any]) -> float:
    """Return the longest time of a small request while a large one runs."""
    waits = []
    for _ in range(2):
        time.sleep(0.1)
        start = time.monotonic()
        send(GOOD)
        waits.append(time.monotonic() - start)
    assert not large.done()
    return max(waits)


def test_small_request_does_not_wait_for_a_large_one():
    with Engine(TorchBackend(SlowRows())) as engine:
        large = engine.submit(LARGE)
        assert longest_wait(lambda one: engine.submit(one).result(timeout=TIMEOUT), large) < LONGEST_WAIT
        large.cancel()


@pytest.mark.parametrize("continuous", [False, True])
def test_small_call_of_a_thread_does_not_wait_for_a_large_one(monkeypatch, continuous):
    monkeypatch.setattr(TorchBackend, "continuous_batching", continuous)
    runner = RequestRunner(TorchBackend(SlowRows()), batch_tokens=4096)
    with ThreadPoolExecutor() as pool:
        large = pool.submit(runner.run, [LARGE])
        assert longest_wait(lambda one: runner.run([one]), large) < LONGEST_WAIT
        assert longest_wait(lambda one: asyncio.run(runner.run_async([one])), large) < LONGEST_WAIT
        assert large.result(timeout=TIMEOUT)


def test_small_call_is_done_after_two_steps_of_a_large_one(network, slow_model, monkeypatch):
    """A small call has lanes of its own, with the same configuration, too."""
    scheduler = Scheduler(network, max_tokens=4096)
    config = DecodingConfig(beam_size=1, min_length=20)
    waiting = deque([Request((4,) * 9, config, 30) for _ in range(300)])
    for _ in range(9):
        scheduler.admit(waiting)
        scheduler.step()
    rows: list[int] = []
    step = Slow.step
    monkeypatch.setattr(Slow, "step", lambda *given: rows.append(len(given[1])) or step(*given))
    scheduler.admit(deque([replace(GOOD, config=config, limit=21, small=True)]))
    completed: list[RequestResult] = []
    while not completed:
        completed = scheduler.step()
    assert completed[0].request.small
    assert sum(count > 1 for count in rows) <= 2


def test_large_beams_count_more_and_encoding_pauses(network):
    """The memory of a beam counts against the budget, and steps are taken between encodings."""
    assert Request((4,) * 9, BEAM, 7).tokens == 10
    assert Request((4,) * 9, DecodingConfig(beam_size=100), 7).tokens == 130
    scheduler = Scheduler(network, max_tokens=4096)
    config = DecodingConfig(beam_size=1, min_length=20)
    scheduler.admit(deque([Request((4,) * 9, config, 30) for _ in range(400)]))
    scheduler.step()
    [lane] = scheduler._lanes
    assert 0 < len(lane.requests) <= ENCODED_TOKENS / 10


def test_thread_of_an_engine_ends_with_its_runner(network):
    before = {*threading.enumerate()}
    runner = RequestRunner(network, batch_tokens=99)
    asyncio.run(runner.run_async([GOOD] * 600))
    assert len(new := {*threading.enumerate()} - before) == 1
    del runner
    gc.collect()
    assert not new & {*threading.enumerate()}


class Caller(NamedTuple):
    """One of many callers of an engine; its requests are good, or of every other kind."""

    engine: Engine
    pool: list[tuple[Request, list[Hypothesis]]]
    generator: random.Random
    same: Callable[[list[Hypothesis], list[Hypothesis]], None]
    unknown: int
    """Source token that the backend refuses."""

    def behave(self, count: int) -> int:
        """Send good requests, several at a time, and return how many were answered as alone."""
        call = object()
        for _ in range(0, count, 4):
            some = self.generator.sample(self.pool, 4)
            answers = [self.engine.submit(request, call=call) for request, _ in some]
            for (_, expected), answer in zip(some, answers, strict=True):
                self.same(answer.result(timeout=TIMEOUT), expected)
        return count

    def misbehave(self, count: int) -> int:
        """Send requests of every wrong kind, and return 0."""
        kinds = [self._malformed, self._refused, self._cancelled, self._late, self._in_callbacks, self._in_observers]
        for _ in range(count):
            self.generator.choice(kinds)()
        return 0

    def _malformed(self) -> None:
        with pytest.raises((TypeError, ConfigError, DataError)):
            self.engine.submit(self.generator.choice([*MALFORMED.values()]))

    def _refused(self) -> None:
        request = Request((4, self.generator.choice([self.unknown, EXHAUSTING])), BEAM, 7)
        assert self.engine.submit(request).exception(timeout=TIMEOUT) is not None

    def _cancelled(self) -> None:
        answer = self.engine.submit(self.generator.choice(self.pool)[0])
        time.sleep(self.generator.choice([0, 0.001, 0.01]))
        answer.cancel()

    def _late(self) -> None:
        answer = self.engine.submit(self.generator.choice(self.pool)[0])
        with suppress(TimeoutError):
            answer.result(timeout=0)

    def _in_callbacks(self) -> None:
        request, _ = self.generator.choice(self.pool)

        def callback(_: object) -> None:
            self.engine.submit(request).cancel()
            raise self.generator.choice([ValueError, SystemExit, KeyboardInterrupt])

        self.engine.submit(request).add_done_callback(callback)

    def _in_observers(self) -> None:
        start = OutputStart(observe=lambda: lambda *_: bool(1 / 0))
        answer = self.engine.submit(Request((4, 5), SAMPLE, 7, start=start))
        with suppress(ZeroDivisionError, CancelledError):
            answer.result(timeout=TIMEOUT)


def attack(backend: Any, requests: list[Request], *, count: int, same: Any, unknown: int) -> None:
    """Assert that all good requests among `count` of 64 callers, a quarter of them hostile, are answered as alone."""
    backend = Exhausted(backend)
    pool = [(request, search_requests(backend, [request])[0]) for request in requests]
    each = count // CALLERS
    with Engine(backend, max_tokens=331) as engine, ThreadPoolExecutor(CALLERS) as threads:
        callers = [Caller(engine, pool, random.Random(row), same, unknown) for row in range(CALLERS)]
        jobs = [
            threads.submit(Caller.behave if row % 4 else Caller.misbehave, caller, each)
            for row, caller in enumerate(callers)
        ]
        answered = sum(job.result(timeout=600) for job in jobs)
        assert answered >= count * 3 // 4 - CALLERS
        assert engine.is_open
        request, expected = pool[0]
        same(engine.submit(request).result(timeout=TIMEOUT), expected)


def good_requests(configs: Sequence[Any], *, most: int) -> list[Request]:
    generator = random.Random(2)
    return [
        Request(
            tuple(generator.choices(range(4, most), k=generator.randint(0, 9))),
            configs[row % len(configs)],
            generator.randint(1, 9),
            start=OutputStart(key=(row, 0)),
        )
        for row in range(48)
    ]


@pytest.mark.parametrize("count", [512, pytest.param(10_048, marks=pytest.mark.slow)])
def test_hostile_callers_change_no_bit_of_other_results(monkeypatch, count):
    """With the CPU library, results are those of the requests alone, to the last bit."""
    cpu_models = pytest.importorskip("tests.cpu_models")
    monkeypatch.setenv("DRAGOMAN_THREADS", "1")
    config = EncoderDecoderConfig(d_model=12, num_heads=2, encoder_layers=1, decoder_layers=1, d_ff=17)
    network = cpu_models.random_model(config)
    backend = CpuBackend(
        config.model_dump(),
        cpu_models.arrays(network),
        compute_type="float32",
        source_vocabulary=cpu_models.VOCABULARY,
        target_vocabulary=cpu_models.VOCABULARY,
    )

    def same(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
        assert found == expected

    requests = good_requests([GREEDY, BEAM, SAMPLE], most=43)
    attack(backend, requests, count=count, same=same, unknown=UNKNOWN)


def test_hostile_callers_do_not_change_results_of_pytorch(network):
    attack(network, good_requests(WANTED, most=9), count=256, same=assert_same, unknown=UNKNOWN)
