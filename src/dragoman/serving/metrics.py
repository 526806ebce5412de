"""Metrics for Prometheus, with the names that servers of language models use.

Labels hold the names of models and interfaces only: no client, no key, no text.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from dragoman.inference.concurrent_calls import EngineStatistics
from dragoman.inference.concurrent_calls import Histogram as Counts

PREFIX = "dragoman:"
EngineReader = Callable[[], Iterable[tuple[str, EngineStatistics]]]
"""Return the measurements of each engine, with the name of its model."""
AnswerObserver = Callable[[str, Iterable[str] | int], None]
"""Receives the name of the model that answers a request, and the texts of its answer, or their characters."""
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_LABELS = ("model_name", "interface")


@final
class Metrics:
    """Measurements of one server."""

    def __init__(self, *, active_requests: Callable[[], int], engines: EngineReader) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_EngineCollector(engines))
        running = Gauge(f"{PREFIX}http_requests_running", "HTTP requests in progress", registry=self.registry)
        running.set_function(active_requests)
        self._responses = self._counter("http_responses", "Responses by status", ("interface", "status"))
        self._characters_in = self._counter("prompt_characters", "Characters of answered requests")
        self._characters_out = self._counter("generation_characters", "Characters of their answers")
        self._success = self._counter("request_success", "Requests answered")
        self._terms = self._counter("terms", "Terms of glossaries in translated texts")
        self._placeholders = self._counter("placeholders", "Placeholders that were protected")
        self._unmet = self._counter(
            "unmet_constraints", "Words that translations should have and lack, or have and should not"
        )
        timeouts = Counter(
            f"{PREFIX}analysis_timeouts",
            "Analyses of texts or files that were ended at their deadline",
            registry=self.registry,
        )
        self.count_analysis_timeout = timeouts.inc
        self._latency = Histogram(
            f"{PREFIX}e2e_request_latency_seconds",
            "Time to answer a request",
            _LABELS,
            buckets=_SECONDS,
            registry=self.registry,
        )

    def _counter(self, name: str, help_text: str, labels: Sequence[str] = _LABELS) -> Counter:
        return Counter(f"{PREFIX}{name}", help_text, labels, registry=self.registry)

    @contextmanager
    def observe(self, count: int, *, interface: str) -> Iterator[AnswerObserver]:
        """Measure the work for as many characters; the block passes the name of the model, and what it answers."""
        begin = time.monotonic()

        def observed(model_name: str, answers: Iterable[str] | int) -> None:
            written = answers if isinstance(answers, int) else sum(map(len, answers))
            self._characters_in.labels(model_name, interface).inc(count)
            self._characters_out.labels(model_name, interface).inc(written)
            self._success.labels(model_name, interface).inc()
            self._latency.labels(model_name, interface).observe(time.monotonic() - begin)

        yield observed

    def count_control(self, model_name: str, interface: str, *, terms: int, placeholders: int, unmet: int) -> None:
        """Count the terms and placeholders of a text, and the words that its translation lacks."""
        self._terms.labels(model_name, interface).inc(terms)
        self._placeholders.labels(model_name, interface).inc(placeholders)
        self._unmet.labels(model_name, interface).inc(unmet)

    def count_response(self, interface: str, status: int) -> None:
        """Count a response of an interface."""
        self._responses.labels(interface, str(status)).inc()

    def render(self) -> bytes:
        """Return the measurements in the text format of Prometheus."""
        return generate_latest(self.registry)


@final
class _EngineCollector(Collector):
    """Measurements of the engines, which are read when they are asked for."""

    def __init__(self, engines: EngineReader) -> None:
        self._engines = engines

    def collect(self) -> Iterator[Metric]:
        engines = list(self._engines())
        for name, text, gauge in (
            ("num_requests_running", "Texts that are decoded", lambda one: one.running),
            ("num_requests_waiting", "Texts that wait to enter the batch", lambda one: one.waiting),
        ):
            yield _family(GaugeMetricFamily(PREFIX + name, text, labels=["model_name"]), engines, gauge)
        for name, text, count in (
            ("prompt_tokens", "Tokens of sources and prompts", lambda one: one.prompt_tokens),
            ("generation_tokens", "Tokens of translations and completions", lambda one: one.generation_tokens),
        ):
            yield _family(CounterMetricFamily(PREFIX + name, text, labels=["model_name"]), engines, count)
        for name, text, counts in (
            ("request_queue_time_seconds", "Time until a text enters the batch", lambda one: one.queue_time),
            ("time_to_first_token_seconds", "Time until its first token", lambda one: one.time_to_first_token),
            ("batch_size", "Texts that are decoded in a step", lambda one: one.batch_size),
        ):
            yield _histogram(HistogramMetricFamily(PREFIX + name, text, labels=["model_name"]), engines, counts)


def _family(
    family: GaugeMetricFamily | CounterMetricFamily,
    engines: Iterable[tuple[str, EngineStatistics]],
    read: Callable[[EngineStatistics], float],
) -> Metric:
    """Return a metric with the value of each model."""
    for model_name, statistics in engines:
        family.add_metric([model_name], read(statistics))
    return family


def _histogram(
    family: HistogramMetricFamily,
    engines: Iterable[tuple[str, EngineStatistics]],
    read: Callable[[EngineStatistics], Counts],
) -> Metric:
    """Return a metric with the histogram of each model."""
    for model_name, statistics in engines:
        counts = read(statistics)
        bounds = [*map(str, counts.bounds), "+Inf"]
        family.add_metric([model_name], list(zip(bounds, accumulate(counts.counts), strict=True)), counts.sum)
    return family
