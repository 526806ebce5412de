"""Decoding times and their roofline, computed by hand."""

import numpy as np
import pytest
import torch

from dragoman.cli.bench import describe_roofline
from dragoman.decoding import DecodingConfig, OutputStart
from dragoman.inference.backends.torch_backend import TorchBackend
from dragoman.profiling.decoding_benchmark import DecodingStep, DecodingTimes, StepCost, roofline, time_decoding
from dragoman.profiling.peak_performance import memory_bandwidth, peak_flops
from tests.fake_models import PrefixModel

COST = StepCost(weight_bytes=1000, bytes_per_position=10, operations=700)


def test_roofline_by_hand():
    """Two steps of 2 sentences and one of 1, beam size 3, sources of 5 positions."""
    times = DecodingTimes(encoding=9.0, steps=(DecodingStep(2, 0.5), DecodingStep(2, 0.25), DecodingStep(1, 0.25)))
    assert (times.tokens, times.seconds, times.step_seconds) == (5, 10.0, 1.0)
    moved = 3 * 1000 + 10 * (2 * (3 * 1 + 5) + 2 * (3 * 2 + 5) + 1 * (3 * 3 + 5))
    found = roofline(times, COST, bytes_per_second=1e4, operations_per_second=1e5, beam_size=3, source_positions=5.0)
    assert found["megabytes_per_token"] == pytest.approx(moved / 5 / 1e6)
    assert found["megaoperations_per_token"] == pytest.approx(3 * 700 / 1e6)
    assert found["bandwidth_fraction"] == pytest.approx(moved / 10_000)
    assert found["compute_fraction"] == pytest.approx(5 * 3 * 700 / 100_000)
    assert (found["bound"], found["roofline_fraction"]) == ("memory", found["bandwidth_fraction"])
    other = roofline(times, COST, bytes_per_second=1e9, operations_per_second=1e5, beam_size=3, source_positions=5.0)
    assert (other["bound"], other["roofline_fraction"]) == ("compute", other["compute_fraction"])


def test_model_in_the_caches_is_not_bound_by_memory():
    times = DecodingTimes(encoding=9.0, steps=(DecodingStep(2, 0.5),))
    found = roofline(times, COST, bytes_per_second=1e2, operations_per_second=1e5, beam_size=3, source_positions=5.0)
    assert found["bandwidth_fraction"] > 1
    assert found["bound"] == "cache"
    assert "bandwidth of the memory is no bound" in describe_roofline(found)
    assert "% of the bandwidth" not in describe_roofline(found)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_time_decoding_times_every_step(beam_size):
    backend = TorchBackend(PrefixModel(words=5, end_bias=3.0))
    settings = DecodingConfig(beam_size=beam_size, min_length=7, max_length=7)
    rows = [[4, 5], [6], [7, 4, 5]]
    found = time_decoding(backend, rows, limits=np.full(3, 7), config=settings, starts=[OutputStart()] * 3)
    assert [step.sentences for step in found.steps[:8]] == [3] * 8  # seven tokens, and the end
    assert len(found.steps) == 8
    assert found.encoding > 0
    assert all(step.seconds > 0 for step in found.steps)


def test_machine_peaks_have_a_plausible_size():
    cpu = torch.device("cpu")
    assert 1e8 < memory_bandwidth(cpu) < 1e13
    assert 1e8 < peak_flops(cpu) < 1e15
