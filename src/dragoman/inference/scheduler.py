"""Continuous batching: requests enter the running batch while they fit into the token budget, and leave when complete.

The scheduler serves translation and generation, and has no threads. The result of a request does not depend on other
requests: exactly with the CPU library, and up to rounding with PyTorch. Requests that take their steps together form a
lane; each step goes to the lane that had the least work, so that a lane with little work never waits for more than one
step of another. Where the backend fails with the requests of a lane, they start again in two lanes of half of them, so
that a request fails only if it fails alone.
"""

import traceback
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from dragoman.data.readers.conllu import Heads
from dragoman.decoding.choose_search import Search, build_search
from dragoman.decoding.config import DecodingConfig, SamplingConfig
from dragoman.decoding.hypothesis import Hypothesis, OutputStart
from dragoman.inference.backends.protocol import InferenceBackend, TokenIds
from dragoman.inference.backends.sliding_context_backend import SlidingContext
from dragoman.inference.concurrent_calls import FairQueue, Turn, stop_if_cancelled, time_slice
from dragoman.inference.length_batches import run_in_batches
from dragoman.inference.stream_chunks import is_ready

if TYPE_CHECKING:
    from dragoman.inference.control.output_check import OutputCheck
    from dragoman.inference.term_searches import SegmentTerms

REFILL = 0.25
"""Share of the token budget that must be free before requests enter: encoding costs a forward pass of its own."""
ENCODED_TOKENS = 1024
"""Tokens that are encoded before a step; of more requests, the next enter after it. A longer request enters alone."""
ROWS_PER_LANE = 1024
"""Hypotheses that take a step together; further requests form another lane."""
HYPOTHESES_PER_TOKEN = 8
"""Beam size up to which a token of a request counts once against the token budget; one of a larger beam counts more."""
STEP_WORK = 16
"""Work of a step whatever its hypotheses, in hypotheses."""


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
    small: bool = False
    """True for a small call, whose requests have a token budget and lanes of their own."""
    guard: "Guard | None" = None
    """Check of the outputs, which the caller makes, and the request that it makes where they fail."""
    terms: "SegmentTerms | None" = None
    """Terms that the outputs should have, which the caller puts into outputs that lack them."""
    check: "OutputCheck | None" = None
    """Check of the constraints on the texts of the outputs, which the caller makes."""

    @property
    def beam_size(self) -> int:
        return self.config.beam_size if isinstance(self.config, DecodingConfig) else 1

    @property
    def tokens(self) -> int:
        """Tokens counted against a token budget, in proportion to the memory of a large beam."""
        size = len(self.ids) + 1 if self.size is None else self.size
        return size * -(-self.beam_size // HYPOTHESES_PER_TOKEN)


class Guard(NamedTuple):
    """Check of the outputs of a request, and another request for outputs that pass it."""

    is_met: Callable[[Hypothesis], bool]
    request: Request


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


@dataclass
class _Lane:
    """Requests of one decoding configuration that take their steps together."""

    key: tuple[object, bool] | None
    """Configuration, and whether requests are of small calls; None for a lane that no request joins."""
    search: Search
    work: int
    """Work of all steps, in hypotheses; a lane begins with that of the lane whose turn it is."""
    entering: deque[Request] = field(default_factory=deque)
    """Requests to encode before the next steps."""
    requests: dict[int, Request] = field(default_factory=dict)
    """Active requests, by sentence id of the search."""

    def __len__(self) -> int:
        return len(self.entering) + len(self.requests)

    def take_entering(self) -> list[Request]:
        """Remove and return the requests to encode before the next step."""
        taken = [self.entering.popleft()]
        tokens = taken[0].tokens
        while self.entering and (tokens := tokens + self.entering[0].tokens) <= ENCODED_TOKENS:
            taken.append(self.entering.popleft())
        return taken


@final
class Scheduler:
    """Active requests in lanes."""

    def __init__(self, backend: AnyBackend, *, max_tokens: int, refill: float = REFILL) -> None:
        """`max_tokens` bounds the tokens of the active requests, and of those of small calls; a longer one is alone."""
        self._backend = backend
        self._max_tokens = max_tokens
        self._refill = refill
        self._lanes: list[_Lane] = []
        self._work = 0
        self._tokens: Counter[bool] = Counter()
        self.entered: list[Request] = []
        """Requests that were encoded in the last step."""
        self.batch_size = 0
        """Requests that took part in the last step."""

    def __len__(self) -> int:
        """Number of active requests."""
        return sum(map(len, self._lanes))

    def admit(self, waiting: deque[Request] | FairQueue[Request]) -> None:
        """Let the first waiting requests that fit enter; all are of small calls, or none is."""
        admitted = 0
        while waiting and self._has_room(waiting[0], already=admitted):
            request = waiting.popleft()
            self._tokens[request.small] += request.tokens
            self._lane_for(request).entering.append(request)
            admitted += 1

    def step(self) -> list[RequestResult]:
        """Take one step with the requests of a lane, and return those completed or failed."""
        self._lanes = [lane for lane in self._lanes if len(lane)]
        if not self._lanes:
            return []
        lane = min(self._lanes, key=lambda one: one.work)
        self._work = lane.work
        self.entered, self.batch_size = [], 0
        return self._enter(lane) + self._advance(lane)

    def cancel(self, requests: Collection[Request]) -> None:
        """Remove active requests."""
        for lane in self._lanes:
            keys = [key for key, request in lane.requests.items() if request in requests]
            if keys:
                lane.search.remove(keys)
            gone = [*(lane.requests.pop(key) for key in keys), *(one for one in lane.entering if one in requests)]
            lane.entering = deque(one for one in lane.entering if one not in requests)
            for request in gone:
                self._tokens[request.small] -= request.tokens

    def _has_room(self, request: Request, *, already: int) -> bool:
        """Return whether a request fits; once refilling has begun, it continues until full."""
        tokens = self._tokens[request.small]
        if tokens == 0:
            return True
        if tokens + request.tokens > self._max_tokens:
            return False
        return request.small or already > 0 or self._max_tokens - tokens >= self._refill * self._max_tokens

    def _lane_for(self, request: Request) -> _Lane:
        """Return the lane that a request joins."""
        key = request.config, request.small
        for lane in self._lanes:
            if lane.key == key and (len(lane) + 1) * request.beam_size <= ROWS_PER_LANE:
                return lane
        return self._add_lane(key, request)

    def _add_lane(self, key: tuple[object, bool] | None, *requests: Request) -> _Lane:
        lane = _Lane(key, build_search(self._backend, config=requests[0].config), self._work)
        self._lanes.append(lane)
        return lane

    def _enter(self, lane: _Lane) -> list[RequestResult]:
        """Encode requests of a lane that wait for it."""
        if not lane.entering:
            return []
        some = lane.take_entering()
        lane.work += sum(request.tokens for request in some)
        try:
            keys = lane.search.add(encode_requests(self._backend, some), **_arguments(some))
        except Exception as error:  # of any kind: the callers of other requests must not see it
            return self._retry(some, error)
        lane.requests |= dict(zip(keys, some, strict=True))
        self.entered = some
        return []

    def _advance(self, lane: _Lane) -> list[RequestResult]:
        """Take a step with the active requests of a lane."""
        active = list(lane.requests.values())
        if not active:
            return []
        self.batch_size = len(active)
        lane.work += STEP_WORK + len(active) * active[0].beam_size
        try:
            found = lane.search.step()
        except Exception as error:
            lane.requests.clear()
            lane.search = build_search(self._backend, config=active[0].config)
            return self._retry(active, error)
        return [self._complete(lane.requests.pop(key), hypotheses) for key, hypotheses in found.items()]

    def _retry(self, requests: Sequence[Request], error: Exception) -> list[RequestResult]:
        """Start requests that failed together again, in two lanes; a request that failed alone gets its error."""
        traceback.clear_frames(error.__traceback__)  # which hold the memory of the failed step
        if len(requests) == 1:
            return [self._complete(requests[0], [], error)]
        middle = len(requests) // 2
        for half in (requests[:middle], requests[middle:]):
            self._add_lane(None, *half).entering.extend(half)
        return []

    def _complete(
        self, request: Request, hypotheses: list[Hypothesis], error: Exception | None = None
    ) -> RequestResult:
        self._tokens[request.small] -= request.tokens
        return RequestResult(request, hypotheses, error)


def encode_requests(backend: AnyBackend, requests: Sequence[Request]) -> Any:
    """Encode the sources of requests; samples of one source share its encoding."""
    source_features = [request.heads for request in requests if request.heads is not None]
    sources = [tuple(request.ids) for request in requests]
    different = {ids: row for row, ids in enumerate(dict.fromkeys(sources))}
    if len(different) == len(sources) or not isinstance(requests[0].config, SamplingConfig):
        automata = [request.start.constraints for request in requests]
        if not any(automata) or backend.shortlist is None:
            return backend.encode(sources, source_features)
        needed = [() if one is None else sorted(one.alphabet) for one in automata]
        return backend.encode(sources, source_features, needed=needed)
    return backend.encode(list(different)).select(np.array([different[ids] for ids in sources]))


def search_requests(
    backend: AnyBackend, requests: Sequence[Request], *, turn: Turn = nullcontext
) -> list[list[Hypothesis]]:
    """Decode requests of one configuration in one batch, in turns of one time slice."""
    search = build_search(backend, config=requests[0].config)
    with turn():
        keys = search.add(encode_requests(backend, requests), **_arguments(requests))
    found: dict[int, list[Hypothesis]] = {}
    while len(search):
        stop_if_cancelled()
        with turn():
            for _ in time_slice():
                found |= search.step()
                if not len(search):
                    break
    return [found[key] for key in keys]


def _arguments(requests: Sequence[Request]) -> dict[str, Any]:
    return {"limits": np.array([one.limit for one in requests]), "starts": [one.start for one in requests]}


def run_requests(
    backend: AnyBackend, requests: Sequence[Request], *, batch_tokens: int, turn: Turn = nullcontext
) -> list[list[Hypothesis]]:
    """Return the hypotheses of each request.

    Several requests run by continuous batching where the backend supports it, otherwise those of each configuration in
    batches of similar length.
    """
    if len(requests) == 1:
        return search_requests(backend, requests, turn=turn)
    if backend.continuous_batching:
        scheduler = Scheduler(backend, max_tokens=batch_tokens)
        jobs = ([request] for request in requests)
        return [found for [found] in run_in_order(scheduler, jobs, ahead=len(requests) + 1, turn=turn)]

    run = partial(search_requests, backend, turn=turn)
    found: dict[Request, list[Hypothesis]] = {}
    for config in dict.fromkeys(request.config for request in requests):
        some = [request for request in requests if request.config == config]
        lengths = [request.tokens for request in some]
        found |= zip(some, run_in_batches(some, lengths, run, batch_tokens=batch_tokens), strict=True)
    return [found[request] for request in requests]


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
            for _ in time_slice():
                scheduler.admit(waiting)
                completed |= {one.request: one for one in scheduler.step()}
                if not len(scheduler) or all(request in completed for request in pending[0]):
                    break
        while pending and all(request in completed for request in pending[0]):
            yield [completed.pop(request).get() for request in pending.popleft()]
    if reading_error is not None:
        raise reading_error
