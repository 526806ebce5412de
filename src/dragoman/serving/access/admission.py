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


class Client(NamedTuple):
    """Origin of a request."""

    name: str
    """Owner of its key, or its address; never shown in the log and metrics."""
    interface: str
    """Interface that it speaks, a label of metrics."""


@final
class Admission:
    """Requests that are being answered."""

    def __init__(self, limits: LimitsConfig, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._tokens: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Requests that each client may still make at a time: a token bucket that holds those of one minute."""
        self.active = 0

    @contextmanager
    def enter(self, client: Client) -> Iterator[None]:
        """Answer a request of a client. Raises RequestError with status 429 or 503 above a limit."""
        self._check_rate(client.name)
        if self.active >= self._limits.max_requests:
            raise overloaded()
        self.active += 1
        try:
            yield
        finally:
            self.active -= 1

    def _check_rate(self, client: str) -> None:
        most = self._limits.requests_per_minute
        if not most:
            return
        now = self._clock()
        left, since = self._tokens.pop(client, (float(most), now))
        left = min(float(most), left + (now - since) * most / 60)
        if left < 1:
            self._tokens[client] = left, now
            wait = math.ceil((1 - left) * 60 / most)
            raise RequestError(429, f"Too many requests: {most} per minute are allowed.", retry_after=wait)
        self._tokens[client] = left - 1, now
        while len(self._tokens) > MAX_CLIENTS:
            self._tokens.popitem(last=False)
