"""Continuous batching: requests enter the running batch while it has room, and leave when they are complete.

The scheduler has no threads and waits for nobody. The result of a request does not depend on the others: where the
backend refuses a batch, each request of it is searched alone, and only those fail that fail alone.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import numpy as np

from dragoman.data.readers.conllu import Heads
from dragoman.decoding.config import DecodingConfig
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.search import build_search, search
from dragoman.decoding.search_protocol import Search
from dragoman.errors import DragomanError
from dragoman.inference.backends.protocol import Ids, Seq2SeqBackend

REFILL = 0.25
"""Share of the token budget that must be free before requests enter: encoding costs a forward pass of its own."""


@dataclass(frozen=True, eq=False, slots=True)
class Request:
    """Source without its end symbol, and how to decode it; compared by identity."""

    ids: Ids
    config: DecodingConfig
    limit: int
    """Most output tokens, end symbol not counted."""
    heads: Heads | None = None
    """Dependency tree of the source, for a model that needs it."""

    @property
    def tokens(self) -> int:
        """Source tokens counted against a token budget, end symbol included."""
        return len(self.ids) + 1


class RequestResult(NamedTuple):
    """Completed request with its hypotheses, best first, or its error."""

    request: Request
    hypotheses: list[Hypothesis]
    error: Exception | None = None


BACKEND_ERRORS = (DragomanError, ValueError, IndexError, MemoryError)
"""Errors a backend raises for invalid or oversized requests."""


@dataclass
class _Group:
    """Requests of one decoding configuration, by sentence id of their search."""

    search: Search[Any]
    requests: dict[int, Request] = field(default_factory=dict)


@final
class Scheduler:
    """Batch of active requests; those of one decoding configuration share every step."""

    def __init__(self, backend: Seq2SeqBackend[Any, Any], *, max_tokens: int, refill: float = REFILL) -> None:
        """`max_tokens` bounds the source tokens of the active requests; a longer request runs alone."""
        self._backend = backend
        self._max_tokens = max_tokens
        self._refill = refill
        self._groups: dict[DecodingConfig, _Group] = {}
        self._tokens = 0

    def __len__(self) -> int:
        """Number of active requests."""
        return sum(len(group.requests) for group in self._groups.values())

    def admit(self, waiting: deque[Request]) -> list[RequestResult]:
        """Start the first waiting requests that fit, and return those that fail at once."""
        return self.start(self.take(waiting))

    def take(self, waiting: deque[Request]) -> list[Request]:
        """Remove the first waiting requests that fit from the queue, and reserve their tokens."""
        taken: list[Request] = []
        while waiting and self._has_room(waiting, already=len(taken)):
            request = waiting.popleft()
            self._tokens += request.tokens
            taken.append(request)
        return taken

    def start(self, requests: Sequence[Request]) -> list[RequestResult]:
        """Start the search of requests from `take`, and return those that fail at once."""
        failed = []
        for config in dict.fromkeys(request.config for request in requests):
            failed += self._start(config, [request for request in requests if request.config == config])
        return failed

    def step(self) -> list[RequestResult]:
        """Take one step with every active request and return the completed ones; drop searches without requests."""
        completed = []
        self._groups = {config: group for config, group in self._groups.items() if group.requests}
        for group in self._groups.values():
            try:
                found = group.search.step()
            except BACKEND_ERRORS:
                completed += self._search_alone(self._dissolve(group))
                continue
            completed += [self._complete(group.requests.pop(key), hypotheses) for key, hypotheses in found.items()]
        return completed

    def cancel(self, requests: Collection[Request]) -> None:
        """Remove active requests."""
        for group in self._groups.values():
            keys = [key for key, request in group.requests.items() if request in requests]
            if keys:
                group.search.remove(keys)
            for key in keys:
                self._tokens -= group.requests.pop(key).tokens

    def _has_room(self, waiting: deque[Request], *, already: int) -> bool:
        """Return whether the first waiting request fits; once refilling has begun, it continues until full."""
        if self._tokens == 0:
            return True
        if self._tokens + waiting[0].tokens > self._max_tokens:
            return False
        free = self._max_tokens - self._tokens
        return bool(already) or free >= self._refill * self._max_tokens

    def _start(self, config: DecodingConfig, requests: Sequence[Request]) -> list[RequestResult]:
        try:
            if config not in self._groups:
                self._groups[config] = _Group(build_search(self._backend, config=config))
            group = self._groups[config]
            keys = group.search.add(self._encode(requests), limits=np.array([one.limit for one in requests]))
        except BACKEND_ERRORS:
            return self._search_alone(requests)
        group.requests |= dict(zip(keys, requests, strict=True))
        return []

    def _dissolve(self, group: _Group) -> list[Request]:
        """Remove and return the requests of a group that the backend refused."""
        requests = list(group.requests.values())
        group.search.remove(list(group.requests))
        group.requests.clear()
        return requests

    def _search_alone(self, requests: Sequence[Request]) -> list[RequestResult]:
        results = []
        for request in requests:
            try:
                [found] = search(
                    self._backend,
                    self._encode([request]),
                    limits=np.array([request.limit]),
                    config=request.config,
                )
            except BACKEND_ERRORS as error:
                results.append(self._complete(request, [], error))
            else:
                results.append(self._complete(request, found))
        return results

    def _encode(self, requests: Sequence[Request]) -> Any:
        features = [request.heads for request in requests if request.heads is not None]
        return self._backend.encode([request.ids for request in requests], features)

    def _complete(
        self, request: Request, hypotheses: list[Hypothesis], error: Exception | None = None
    ) -> RequestResult:
        self._tokens -= request.tokens
        return RequestResult(request, hypotheses, error)


def run_in_order(
    scheduler: Scheduler, jobs: Iterable[Sequence[Request]], *, ahead: int
) -> Iterator[list[list[Hypothesis]]]:
    """Yield the hypotheses for the requests of each job, in the order of the jobs, as soon as earlier jobs are done.

    At most `ahead` jobs are read but not yielded. Requests enter the batch in their order; once all are read the
    longest go first, so that no long one is left for the end. An error of a request, or of reading the
    jobs, is raised in its place.
    """
    coming, more = iter(jobs), True
    reading_error: DragomanError | None = None
    pending: deque[Sequence[Request]] = deque()
    waiting: deque[Request] = deque()
    completed: dict[Request, RequestResult] = {}
    while pending or more:
        while more and len(pending) < ahead:
            try:
                job = next(coming, None)
            except DragomanError as error:
                job, reading_error = None, error
            if job is None:
                more, waiting = False, deque(sorted(waiting, key=lambda request: -request.tokens))
            else:
                pending.append(job)
                waiting.extend(job)
        completed |= {one.request: one for one in (*scheduler.admit(waiting), *scheduler.step())}
        while pending and all(request in completed for request in pending[0]):
            yield [_hypotheses(completed.pop(request)) for request in pending.popleft()]
    if reading_error is not None:
        raise reading_error


def _hypotheses(result: RequestResult) -> list[Hypothesis]:
    if result.error is not None:
        raise result.error
    return result.hypotheses
