"""Dropout masks: probability, independence and reproducibility.

Bounds are five standard deviations of the binomial distribution; seeds are fixed.
"""

import math

import pytest
import torch

from dragoman.nn.dropout import Dropout, dropout, dropout_keys

COUNT = 4 * 65_537 + 3  # the last word serves three elements
LANES = 4
PROBABILITIES = pytest.mark.parametrize("probability", [0.01, 0.05, 0.1, 0.3, 0.5, 0.9])


def dropped(x, probability, *, seed=1):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return dropout(x, probability)


def deviations(share, probability, count):
    return abs(float(share) - probability) / math.sqrt(probability * (1 - probability) / count)


@PROBABILITIES
def test_dropped_share_equals_probability(probability):
    fallen = dropped(torch.ones(COUNT), probability) == 0
    assert deviations(fallen.float().mean(), probability, COUNT) < 5


@PROBABILITIES
def test_each_part_of_a_word_is_unbiased(probability):
    fallen = dropped(torch.ones(COUNT), probability) == 0
    for lane in range(LANES):
        mine = fallen[lane::LANES]
        assert deviations(mine.float().mean(), probability, len(mine)) < 5


@pytest.mark.parametrize("distance", [1, 2, 3, 4, 5, 8])
def test_neighboring_elements_are_independent(distance):
    fallen = dropped(torch.ones(COUNT), 0.3) == 0
    both = fallen[distance:] & fallen[:-distance]
    assert deviations(both.float().mean(), 0.09, len(both)) < 5


@PROBABILITIES
def test_expectation_is_preserved(probability):
    x = torch.ones(COUNT)
    kept = dropped(x, probability)
    assert kept[kept != 0].unique().tolist() == pytest.approx([1 / (1 - probability)])
    spread = math.sqrt(probability / (1 - probability) / COUNT)
    assert abs(float(kept.double().mean()) - 1) < 5 * spread


def test_half_precision_keeps_its_format():
    kept = dropped(torch.ones(COUNT, dtype=torch.bfloat16), 0.3)
    assert kept.dtype == torch.bfloat16
    assert float(kept.float().mean()) == pytest.approx(1, abs=0.01)


def test_same_seed_gives_same_mask():
    x = torch.randn(3, 5, 701, generator=torch.Generator().manual_seed(2))
    assert torch.equal(dropped(x, 0.3), dropped(x, 0.3))
    assert not torch.equal(dropped(x, 0.3), dropped(x, 0.3, seed=2))


def test_consecutive_calls_differ():
    with torch.random.fork_rng():
        torch.manual_seed(1)
        assert not torch.equal(dropout(torch.ones(701), 0.5), dropout(torch.ones(701), 0.5))


def test_row_mask_follows_from_key():
    x = torch.ones(5, 3, 71)
    with dropout_keys(torch.tensor([11, 7, 13, 2, 5])):
        all_five = dropped(x, 0.3)
    with dropout_keys(torch.tensor([13, 11])):
        two_of_them = dropped(x[:2], 0.3)
    assert torch.equal(two_of_them, all_five[[2, 0]])
    assert not torch.equal(all_five[1], all_five[0])


def test_mask_does_not_depend_on_padding():
    assert torch.equal(dropped(torch.ones(5, 3, 70), 0.3), dropped(torch.ones(5, 7, 71), 0.3)[:, :3, :70])


def test_rows_of_one_example_differ():
    with dropout_keys(torch.tensor([11, 7])):
        six = dropped(torch.ones(6, 101), 0.3)
    with dropout_keys(torch.tensor([7])):
        three = dropped(torch.ones(3, 101), 0.3)
    assert torch.equal(six[3:], three)
    assert len(six.unique(dim=0)) == 6


@pytest.mark.parametrize("shape", [(41, 43, 3, 8), (127, 11, 12)])
def test_elements_of_rectangle_are_independent(shape):
    """The four elements of two lines and two columns, which share words."""
    fallen = (dropped(torch.ones(shape), 0.3) == 0).float() - 0.3
    four = fallen[1:, ..., 4:] * fallen[:-1, ..., 4:] * fallen[1:, ..., :-4] * fallen[:-1, ..., :-4]
    assert abs(float(four.sum())) < 5 * math.sqrt(four.numel() * 0.21**4)


def test_zero_probability_changes_nothing():
    x = torch.ones(7)
    assert dropout(x, 0.0) is x


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (2, 3, 5), (7, 11)])
def test_shape_is_preserved(shape):
    x = torch.full(shape, 2.0)
    kept = dropped(x, 0.5)
    assert kept.shape == shape
    assert ((kept == 0) | (kept == 4.0)).all()


def test_transposed_tensor_is_supported():
    x = torch.arange(1.0, 36.0).view(5, 7).t()
    kept = dropped(x, 0.5)
    assert torch.equal(kept[kept != 0], 2 * x[kept != 0])


@pytest.mark.parametrize("probability", [0.999, 1 - 2**-17])
def test_probability_near_one_is_supported(probability):
    assert (dropped(torch.ones(COUNT), probability) == 0).float().mean() > 0.99


def test_dropped_elements_get_no_gradient():
    x = torch.ones(1009, requires_grad=True)
    kept = dropped(x, 0.3)
    kept.sum().backward()
    assert torch.equal(x.grad, kept.detach())
    assert (x.grad == 0).any()


def test_module_drops_in_training_only():
    module = Dropout(0.5)
    x = torch.ones(1009)
    assert (module(x) == 0).any()
    assert module.eval()(x) is x
