"""Continuous batching: requests enter the running batch while they fit into the token budget, and leave when complete.

The scheduler serves translation and generation, and has no threads. The result of a request does not depend on other
requests: exactly with the CPU library, and up to rounding with PyTorch. Where the backend refuses a batch, the
scheduler searches each of its requests alone, and a request fails only if it fails alone.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, final

import numpy as np

from dragoman.data.readers.conllu import Heads
from dragoman.decoding.choose_search import Search, build_search, search
from dragoman.decoding.config import DecodingConfig, SamplingConfig
from dragoman.decoding.hypothesis import Hypothesis, OutputStart
from dragoman.errors import DragomanError
from dragoman.inference.backends.protocol import InferenceBackend, TokenIds
from dragoman.inference.backends.sliding_context_backend import SlidingContext
from dragoman.inference.concurrent_calls import FairQueue, Turn
from dragoman.inference.length_batches import run_in_batches
from dragoman.inference.stream_chunks import is_ready

REFILL = 0.25
"""Share of the token budget that must be free before requests enter: encoding costs a forward pass of its own."""


AnyBackend = InferenceBackend[Any, Any] | SlidingContext


@dataclass(frozen=True, eq=False, slots=True)
class Request:
    """Source without its end symbol, or prompt, and how to decode it; compared by identity."""

    ids: TokenIds
    config: DecodingConfig | SamplingConfig
    limit: int
    """Most output tokens, end symbol not counted."""
    heads: Heads | None = None
    """Dependency tree of the source, for a model that needs it."""
    start: OutputStart = field(default_factory=OutputStart)
    size: int | None = None
    """Tokens counted against a token budget; by default those of the source, end symbol included."""

    @property
    def tokens(self) -> int:
        return len(self.ids) + 1 if self.size is None else self.size


class RequestResult(NamedTuple):
    """Completed request with its hypotheses, best first, or its error."""

    request: Request
    hypotheses: list[Hypothesis]
    error: Exception | None = None

    def get(self) -> list[Hypothesis]:
        """Return the hypotheses, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.hypotheses


BACKEND_ERRORS = (DragomanError, ValueError, IndexError, MemoryError)
"""Errors a backend raises for invalid or oversized requests."""


@dataclass
class _Group:
    """Requests of one decoding configuration, by sentence id of their search."""

    search: Search
    requests: dict[int, Request] = field(default_factory=dict)


@final
class Scheduler:
    """Batch of active requests; those of one decoding configuration share every step."""

    def __init__(self, backend: AnyBackend, *, max_tokens: int, refill: float = REFILL) -> None:
        """`max_tokens` bounds the tokens of the active requests; a longer request runs alone."""
        self._backend = backend
        self._max_tokens = max_tokens
        self._refill = refill
        self._groups: dict[DecodingConfig | SamplingConfig, _Group] = {}
        self._tokens = 0

    def __len__(self) -> int:
        """Number of active requests."""
        return sum(len(group.requests) for group in self._groups.values())

    def admit(self, waiting: deque[Request]) -> list[RequestResult]:
        """Start the first waiting requests that fit, and return the requests that fail at once."""
        return self.start(self.take(waiting))

    def take(self, waiting: deque[Request] | FairQueue[Request]) -> list[Request]:
        """Remove the first waiting requests that fit from the queue, and reserve their tokens."""
        taken: list[Request] = []
        while waiting and self._has_room(waiting, already=len(taken)):
            request = waiting.popleft()
            self._tokens += request.tokens
            taken.append(request)
        return taken

    def start(self, requests: Sequence[Request]) -> list[RequestResult]:
        """Start the search of requests from `take`, and return the requests that fail at once."""
        failed = []
        for config in dict.fromkeys(request.config for request in requests):
            some = [request for request in requests if request.config == config]
            try:
                if config not in self._groups:
                    self._groups[config] = _Group(build_search(self._backend, config=config))
                group = self._groups[config]
                keys = group.search.add(encode_requests(self._backend, some), **_arguments(some))
            except BACKEND_ERRORS as error:
                failed += self._search_alone(some, error)
            else:
                group.requests |= dict(zip(keys, some, strict=True))
        return failed

    def step(self) -> list[RequestResult]:
        """Take one step with every active request and return the completed ones; drop searches without requests."""
        completed = []
        self._groups = {config: group for config, group in self._groups.items() if group.requests}
        for group in self._groups.values():
            try:
                found = group.search.step()
            except BACKEND_ERRORS as error:
                refused = list(group.requests.values())
                group.search.remove(list(group.requests))
                group.requests.clear()
                completed += self._search_alone(refused, error)
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

    def _has_room(self, waiting: deque[Request] | FairQueue[Request], *, already: int) -> bool:
        """Return whether the first waiting request fits; once refilling has begun, it continues until full."""
        if self._tokens == 0:
            return True
        if self._tokens + waiting[0].tokens > self._max_tokens:
            return False
        free = self._max_tokens - self._tokens
        return bool(already) or free >= self._refill * self._max_tokens

    def _search_alone(self, requests: Sequence[Request], error: Exception) -> list[RequestResult]:
        """Search each request that the backend refused with others; one that was alone fails with its error."""
        if len(requests) == 1:
            return [self._complete(requests[0], [], error)]
        results = []
        for request in requests:
            try:
                results.append(self._complete(request, search_requests(self._backend, [request])[0]))
            except BACKEND_ERRORS as own_error:
                results.append(self._complete(request, [], own_error))
        return results

    def _complete(
        self, request: Request, hypotheses: list[Hypothesis], error: Exception | None = None
    ) -> RequestResult:
        self._tokens -= request.tokens
        return RequestResult(request, hypotheses, error)


def encode_requests(backend: AnyBackend, requests: Sequence[Request]) -> Any:
    """Encode the sources of requests; samples of one source share its encoding."""
    source_features = [request.heads for request in requests if request.heads is not None]
    sources = [tuple(request.ids) for request in requests]
    different = {ids: row for row, ids in enumerate(dict.fromkeys(sources))}
    if len(different) == len(sources) or not isinstance(requests[0].config, SamplingConfig):
        return backend.encode(sources, source_features)
    return backend.encode(list(different)).select(np.array([different[ids] for ids in sources]))


def search_requests(backend: AnyBackend, requests: Sequence[Request]) -> list[list[Hypothesis]]:
    """Decode requests of one configuration in one batch."""
    return search(backend, encode_requests(backend, requests), config=requests[0].config, **_arguments(requests))


def _arguments(requests: Sequence[Request]) -> dict[str, Any]:
    return {"limits": np.array([one.limit for one in requests]), "starts": [one.start for one in requests]}


def run_requests(
    backend: AnyBackend, requests: Sequence[Request], *, batch_tokens: int, turn: Turn = nullcontext
) -> list[list[Hypothesis]]:
    """Return the hypotheses of each request of one configuration.

    Requests run by continuous batching where the backend supports it, otherwise in batches of similar length.
    """
    if backend.continuous_batching:
        scheduler = Scheduler(backend, max_tokens=batch_tokens)
        jobs = ([request] for request in requests)
        return [found for [found] in run_in_order(scheduler, jobs, ahead=len(requests) + 1, turn=turn)]

    lengths = [request.tokens for request in requests]
    return run_in_batches(requests, lengths, partial(search_requests, backend), batch_tokens=batch_tokens, turn=turn)


def run_in_order(
    scheduler: Scheduler, jobs: Iterable[Sequence[Request]], *, ahead: int, turn: Turn = nullcontext
) -> Iterator[list[list[Hypothesis]]]:
    """Yield the hypotheses for the requests of each job, in the order of the jobs, as soon as earlier jobs are done.

    At most `ahead` jobs are read but not yielded; while the jobs pause, those read continue. Requests enter the batch
    in their order; once all are read the longest go first, so that no long one is left for the end. An error of a
    request, or of reading the jobs, is raised in its place.
    """
    coming, more = iter(jobs), True
    reading_error: Exception | None = None
    pending: deque[Sequence[Request]] = deque()
    waiting: deque[Request] = deque()
    completed: dict[Request, RequestResult] = {}
    while pending or more:
        while more and len(pending) < ahead and (not pending or is_ready(jobs)):
            try:
                job = next(coming, None)
            except Exception as error:
                job, reading_error = None, error
            if job is None:
                more, waiting = False, deque(sorted(waiting, key=lambda request: -request.tokens))
            else:
                pending.append(job)
                waiting.extend(job)
        with turn():
            completed |= {one.request: one for one in (*scheduler.admit(waiting), *scheduler.step())}
        while pending and all(request in completed for request in pending[0]):
            yield [completed.pop(request).get() for request in pending.popleft()]
    if reading_error is not None:
        raise reading_error
