"""Metrics in the text format of Prometheus, read by its own parser."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from dragoman.inference.concurrent_calls import EngineStatistics
from dragoman.serving.metrics import Metrics


@given(st.lists(st.floats(min_value=0, max_value=1e4), max_size=31))
def test_histograms_count_values_up_to_each_bound(values):
    statistics = EngineStatistics(running=2, waiting=3, prompt_tokens=5)
    for value in values:
        statistics.queue_time.add(value)
    metrics = Metrics(active_requests=lambda: 7, engines=lambda: [("one", statistics)])
    samples = {
        (sample.name, sample.labels.get("le")): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
    }
    for (name, bound), count in samples.items():
        if name == "dragoman:request_queue_time_seconds_bucket":
            assert count == sum(value <= float(bound) for value in values)
    assert samples["dragoman:request_queue_time_seconds_count", None] == len(values)
    assert samples["dragoman:num_requests_running", None] == 2
    assert samples["dragoman:num_requests_waiting", None] == 3
    assert samples["dragoman:http_requests_running", None] == 7
    assert samples["dragoman:prompt_tokens_total", None] == 5


def test_labels_are_models_and_interfaces_only():
    metrics = Metrics(active_requests=lambda: 0, engines=list)
    with metrics.observe(len("two dogs"), interface="DeepL") as observed:
        observed("en-de", ["zwei Hunde"])
    labels = {
        label
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
        for label in sample.labels
    }
    assert labels == {"model_name", "interface", "le"}
