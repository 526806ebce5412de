"""Metrics for Prometheus, with the names that servers of language models use.

No label holds a client, a key or a text.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from dragoman.serving.admission import Admission

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


@final
class Metrics:
    """Measurements of one server."""

    def __init__(self, admission: Admission) -> None:
        self.registry = CollectorRegistry()
        Gauge("dragoman:num_requests_running", "Requests that are being answered", registry=self.registry).set_function(
            lambda: admission.active
        )
        self._latency = Histogram(
            "dragoman:e2e_request_latency_seconds", "Time to answer", buckets=_SECONDS, registry=self.registry
        )
        self._characters_in = Counter("dragoman:prompt_characters", "Characters received", registry=self.registry)
        self._characters_out = Counter("dragoman:generation_characters", "Characters sent", registry=self.registry)
        self.characters = 0
        """Characters received."""
        self._success = Counter("dragoman:request_success", "Requests answered", registry=self.registry)

    @contextmanager
    def observe(self, texts: Sequence[str]) -> Iterator[Callable[[Iterable[str]], None]]:
        """Measure the work for texts; the block passes the texts that answer them."""
        begin, count = time.monotonic(), sum(map(len, texts))
        self.characters += count
        self._characters_in.inc(count)

        def observed(answers: Iterable[str]) -> None:
            self._characters_out.inc(sum(map(len, answers)))
            self._success.inc()
            self._latency.observe(time.monotonic() - begin)

        yield observed

    def render(self) -> bytes:
        """Return the measurements in the text format of Prometheus."""
        return generate_latest(self.registry)
