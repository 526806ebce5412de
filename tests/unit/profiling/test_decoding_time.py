"""Times of steps, and what they are of what a machine does: counted by hand."""

import numpy as np
import pytest

from dragoman.data.tokenizers import CharacterConfig, Tokenizer
from dragoman.decoding import DecodingConfig
from dragoman.inference.backends.torch_backend import TorchBackend
from dragoman.profiling.decoding_time import Costs, Decoding, Machine, Step, roofline, timed
from dragoman.profiling.machine import bytes_per_second, operations_per_second
from tests.fake_models import PrefixModel

COSTS = Costs(weight_bytes=1000, place_bytes=10, operations=700)


def test_a_roofline_counted_by_hand():
    """Two steps of 2 sentences and one of 1, beams of 3, sources of 5 places."""
    decoding = Decoding(read=9.0, steps=(Step(2, 0.5), Step(2, 0.25), Step(1, 0.25)))
    assert (decoding.tokens, decoding.seconds, decoding.stepping) == (5, 10.0, 1.0)
    moved = 3 * 1000 + 10 * (2 * (3 * 1 + 5) + 2 * (3 * 2 + 5) + 1 * (3 * 3 + 5))
    found = roofline(decoding, COSTS, Machine(bytes=1e4, operations=1e5), beam=3, places=5.0)
    assert found.bytes_per_token == moved / 5
    assert found.operations_per_token == 3 * 700
    assert found.bandwidth_share == pytest.approx(moved / 10_000)
    assert found.product_share == pytest.approx(5 * 3 * 700 / 100_000)
    assert (found.bound, found.share) == ("memory", found.bandwidth_share)
    other = roofline(decoding, COSTS, Machine(bytes=1e9, operations=1e5), beam=3, places=5.0)
    assert (other.bound, other.share) == ("products", other.product_share)


@pytest.mark.parametrize("beam", [1, 3])
def test_outputs_of_exactly_so_many_tokens_are_timed(beam):
    side = Tokenizer.train(lambda: [("a", "b")], CharacterConfig()).source
    network = TorchBackend(PrefixModel(words=5, end_bias=3.0), side, target_vocabulary=len(side), device="cpu")
    settings = DecodingConfig(beam_size=beam, min_length=7, max_length=7)
    rows = [[4, 5], [6], [7, 4, 5]]
    found = timed(lambda: (network, network.encode(rows)), limits=np.full(3, 7), settings=settings, first=None)
    assert [step.sentences for step in found.steps[:8]] == [3] * 8  # seven tokens, and the end
    assert len(found.steps) == 8
    assert found.read > 0
    assert all(step.seconds > 0 for step in found.steps)


def test_what_a_machine_does_is_of_a_size_that_machines_have():
    import torch

    cpu = torch.device("cpu")
    assert 1e8 < bytes_per_second(cpu) < 1e13
    assert 1e8 < operations_per_second(cpu) < 1e15
