"""Requests of any number of callers, answered by one thread that never lets the batch run empty."""

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Self, final

from dragoman.decoding.hypothesis import Hypothesis
from dragoman.inference.backends.protocol import Translating
from dragoman.inference.engine.request import Request
from dragoman.inference.engine.scheduler import REFILL, Finished, Running

Answer = Future[list[Hypothesis]]
"""The hypotheses of a request, best first, as soon as they are there; `cancel` takes the request back at any time."""

ROOM = 4096
WAITING = 16
"""Tokens that may wait, as a multiple of those that may run."""
AHEAD = 4096
"""Requests of a stream that are read ahead of the answer that is given out next."""


@final
class Engine:
    """A network at work for many.

    The answer to a request does not depend on the requests beside it. Callers that ask for more than there is room for
    wait (`submit` blocks), so that memory stays bounded. The network belongs to the engine until it is closed.
    """

    def __init__(
        self,
        network: Translating[Any, Any],
        *,
        room: int = ROOM,
        waiting: int | None = None,
        refill: float = REFILL,
    ) -> None:
        """`room` bounds the source tokens of what runs together, `waiting` those of what waits to.

        `refill` is the share of the room that must be free before others enter.
        """
        self._network = network
        self._running = Running(network, room=room, refill=refill)
        self._most_waiting = WAITING * room if waiting is None else waiting
        self._waiting: deque[Request] = deque()
        self._waiting_tokens = 0
        self._answers: dict[Request, Answer] = {}
        self._deadlines: dict[Request, float] = {}
        self._taken_back: set[Request] = set()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="dragoman engine", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(cancel=error is not None)

    def submit(self, request: Request, *, seconds: float | None = None) -> Answer:
        """Ask; the call waits while too much waits already.

        After `seconds`, if given, the request is given up and its answer is a TimeoutError; the call itself raises one
        where they pass before there is room. Raises RuntimeError where the engine is closed.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        with self._changed:
            there_is_room = self._changed.wait_for(lambda: self._closed or self._may_wait(request), timeout=seconds)
            if self._closed:
                raise RuntimeError("the engine is closed")
            if not there_is_room:
                raise TimeoutError(f"no room for the request within {seconds} seconds")
            answer: Answer = Future()
            request = replace(request)  # which may be asked again, while it is at work or is given up
            self._answers[request] = answer
            if deadline is not None:
                self._deadlines[request] = deadline
            self._waiting.append(request)
            self._waiting_tokens += request.tokens
            self._changed.notify_all()
        answer.add_done_callback(partial(self._note, request))
        return answer

    def stream(self, requests: Iterable[Request], *, ahead: int = AHEAD) -> Iterator[list[Hypothesis]]:
        """The answers to requests in their order, each as soon as those before it are there.

        Raises what went wrong with a request in its place. Requests are read `ahead` of the answers, at most so many.
        """
        asked: deque[Answer] = deque()
        try:
            for request in requests:
                asked.append(self.submit(request))
                while asked and (asked[0].done() or len(asked) >= ahead):
                    yield asked.popleft().result()
            while asked:
                yield asked.popleft().result()
        finally:
            for answer in asked:
                answer.cancel()

    def close(self, *, cancel: bool = False) -> None:
        """Take no more requests, and wait until those that are asked are answered, or cancelled."""
        with self._changed:
            self._closed = True
            for answer in self._answers.values() if cancel else ():
                answer.cancel()
            self._changed.notify_all()
        self._thread.join()

    def _may_wait(self, request: Request) -> bool:
        return self._waiting_tokens == 0 or self._waiting_tokens + request.tokens <= self._most_waiting

    def _work(self) -> None:
        try:
            with self._network.in_use():
                while self._has_work():
                    self._let_enter()
                    if len(self._running):
                        self._answer(self._running.step())
        except BaseException as error:
            self._fail(error)
            raise

    def _let_enter(self) -> None:
        """As many of those that wait as there is room for; meanwhile others may ask."""
        with self._changed:
            self._give_up()
            called = self._running.called(self._waiting)
            self._waiting_tokens -= sum(request.tokens for request in called)
        if called:
            self._answer(self._running.enter(called))

    def _note(self, request: Request, answer: Answer) -> None:
        """A request that its caller takes back is let go of before the next step."""
        if answer.cancelled():
            with self._changed:
                self._taken_back.add(request)

    def _has_work(self) -> bool:
        """Wait for something to do; False when nothing comes any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._waiting or len(self._running))
            return bool(self._waiting) or len(self._running) > 0

    def _give_up(self) -> None:
        """Let go of requests that were cancelled, or are too late."""
        now = time.monotonic()
        late = {request for request, deadline in self._deadlines.items() if deadline <= now}
        gone = late | self._taken_back & self._answers.keys()
        self._taken_back.clear()
        for request in gone:
            _settle(self._answers[request], [], TimeoutError("the request was not answered in time"))
        if gone:
            self._running.drop(gone)
            self._waiting = deque(request for request in self._waiting if request not in gone)
            self._waiting_tokens = sum(request.tokens for request in self._waiting)
            self._forget(gone)
            self._changed.notify_all()  # whoever waits for room

    def _answer(self, finished: Sequence[Finished]) -> None:
        with self._changed:
            for one in finished:
                _settle(self._answers[one.request], one.hypotheses, one.error)
            self._forget({one.request for one in finished})
            self._changed.notify_all()

    def _forget(self, requests: set[Request]) -> None:
        for request in requests:
            del self._answers[request]
            self._deadlines.pop(request, None)

    def _fail(self, error: BaseException) -> None:
        """Our fault: nobody is left waiting for an answer that never comes."""
        with self._changed:
            self._closed = True
            for answer in self._answers.values():
                if answer.cancelled() or not answer.done():
                    _settle(answer, [], error)
            self._changed.notify_all()


def _settle(answer: Answer, hypotheses: list[Hypothesis], error: BaseException | None) -> None:
    """Give an answer once; where the caller has taken the request back, tell who waits for it."""
    if not answer.set_running_or_notify_cancel():
        return
    if error is None:
        answer.set_result(hypotheses)
    else:
        answer.set_exception(error)
