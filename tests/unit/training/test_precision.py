"""Linear maps with factors rounded to bfloat16: near the exact ones, only where that pays, and in training alone."""

import pytest
import torch
import torch.nn.functional as F

from dragoman.training import precision
from dragoman.training.precision import SMALLEST, RoundedLinear, linear_maps

CPU = torch.device("cpu")


def leaves(*shape: int, rows: tuple[int, ...] = (5, 7)) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    shapes = [(*rows, shape[0]), (shape[1], shape[0]), (shape[1],)]
    return [torch.randn(one, generator=generator).requires_grad_() for one in shapes]


@pytest.fixture
def rounding(monkeypatch):
    """As on a CPU that has the instructions."""
    monkeypatch.setattr(precision, "_cpu_has_bfloat16", lambda device: device.type == "cpu")


@pytest.mark.parametrize("rows", [(11,), (5, 7), (2, 3, 5)])
@pytest.mark.parametrize("bias", [True, False])
def test_rounded_maps_are_near_the_exact_ones(rows, bias):
    r"""Both factors are off by at most $2^{-9}$ of themselves, and so is the result; 1 % of the norm holds that all."""
    x, weight, offset = leaves(71, 67, rows=rows)
    given = (x, weight, offset) if bias else (x, weight)
    exact = F.linear(*given)
    rounded = RoundedLinear.apply(x, weight, offset if bias else None)
    towards = torch.randn(exact.shape, generator=torch.Generator().manual_seed(5))
    found, wanted = (torch.autograd.grad((y * towards).sum(), given) for y in (rounded, exact))
    for one, other in zip((rounded.detach(), *found), (exact.detach(), *wanted), strict=True):
        assert one.dtype == torch.float32
        assert one.shape == other.shape
        assert float((one - other).norm()) < 0.01 * float(other.norm())
    assert not torch.equal(rounded, exact)


def test_large_maps_are_rounded_in_training_alone(rounding):
    x, weight, bias = leaves(64, 67)
    exact = F.linear(x, weight, bias)
    with linear_maps("auto", CPU):
        assert F.linear(x, weight, bias).grad_fn.name() == "RoundedLinearBackward"
        with torch.no_grad():
            assert torch.equal(F.linear(x, weight, bias), exact)
        assert F.linear(x.double(), weight.double()).dtype == torch.float64
        small = leaves(61, 67)
        assert small[1].numel() < SMALLEST
        assert F.linear(*small).grad_fn.name() != "RoundedLinearBackward"
    assert torch.equal(F.linear(x, weight, bias), exact)


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_who_names_a_format_gets_that(rounding, name):
    x, weight, bias = leaves(64, 67)
    with linear_maps(name, CPU):
        assert F.linear(x, weight, bias).grad_fn.name() != "RoundedLinearBackward"


def test_a_cpu_without_the_instructions_rounds_nothing(monkeypatch):
    monkeypatch.setattr(precision, "_cpu_has_bfloat16", lambda device: False)
    x, weight, bias = leaves(64, 67)
    with linear_maps("auto", CPU):
        assert F.linear(x, weight, bias).grad_fn.name() != "RoundedLinearBackward"
