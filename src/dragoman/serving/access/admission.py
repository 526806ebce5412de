"""Admission of requests: a bounded number at once, and a rate for each client. Others are turned away at once."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, final

from dragoman.serving.config import LimitsConfig
from dragoman.serving.http.errors import RequestError, overloaded

MAX_CLIENTS = 10_000
"""Clients whose rates are remembered; the oldest are forgotten."""
Clock = Callable[[], float]


class Client(NamedTuple):
    """Origin of a request."""

    name: str
    """Owner of its key, or its address; never shown in the log and metrics."""
    interface: str
    """Interface that it speaks, a label of metrics."""


@final
class RateLimit:
    """At most so many events of each client per minute; a token bucket for each, which holds those of one minute."""

    def __init__(self, per_minute: int, *, clock: Clock = time.monotonic) -> None:
        """`per_minute` is 0 for any number."""
        self._most = per_minute
        self._clock = clock
        self._tokens: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Events that each client may still cause, and the time at which it could."""

    def take(self, client: str) -> int:
        """Count an event, and return 0; or do not, and return the seconds after which the client may cause one."""
        if not self._most:
            return 0
        now = self._clock()
        left, since = self._tokens.pop(client, (float(self._most), now))
        left = min(float(self._most), left + (now - since) * self._most / 60)
        is_allowed = left >= 1
        self._tokens[client] = left - is_allowed, now
        while len(self._tokens) > MAX_CLIENTS:
            self._tokens.popitem(last=False)
        return 0 if is_allowed else math.ceil((1 - left) * 60 / self._most)


@final
class Admission:
    """Requests that are being answered."""

    def __init__(self, limits: LimitsConfig, *, clock: Clock = time.monotonic) -> None:
        self._limits = limits
        self._rate = RateLimit(limits.requests_per_minute, clock=clock)
        self.active = 0

    @contextmanager
    def enter(self, client: Client) -> Iterator[None]:
        """Answer a request of a client. Raises RequestError with status 429 or 503 above a limit."""
        if wait := self._rate.take(client.name):
            most = self._limits.requests_per_minute
            raise RequestError(429, f"Too many requests: {most} per minute are allowed.", retry_after=wait)
        if self.active >= self._limits.max_requests:
            raise overloaded()
        self.active += 1
        try:
            yield
        finally:
            self.active -= 1
