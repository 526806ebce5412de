"""Norms compared with their formulas."""

import pytest
import torch

from dragoman.nn.norms import build_norm
from tests.reference_layers import normalized


@pytest.mark.parametrize("name", ["layer", "rms"])
def test_norm_equals_formula(name):
    generator = torch.Generator().manual_seed(1)
    norm = build_norm(name, 7)
    for parameter in norm.parameters():
        parameter.data = torch.randn(7, generator=generator)
    x = 3 + 5 * torch.randn(2, 3, 7, generator=generator)
    torch.testing.assert_close(norm(x), normalized(norm, x))


@pytest.mark.parametrize(("name", "default"), [("layer", 1e-5), ("rms", 1e-6)])
def test_epsilon_is_added_to_the_variance(name, default):
    x = torch.tensor([[3e-3, -3e-3]])
    assert build_norm(name, 2).eps == default
    expected = x / (9e-6 + 1e-4) ** 0.5
    torch.testing.assert_close(build_norm(name, 2, epsilon=1e-4)(x), expected)


@pytest.mark.parametrize("name", ["layer", "rms"])
def test_zeros_stay_finite(name):
    assert build_norm(name, 7)(torch.zeros(2, 3, 7)).tolist() == torch.zeros(2, 3, 7).tolist()


def test_new_norm_gives_unit_scale():
    x = 11 * torch.randn(5, 1009, generator=torch.Generator().manual_seed(1)) + 3
    layer, rms = build_norm("layer", 1009)(x), build_norm("rms", 1009)(x)
    torch.testing.assert_close(layer.mean(-1), torch.zeros(5), atol=1e-5, rtol=0)
    torch.testing.assert_close(layer.std(-1, unbiased=False), torch.ones(5))
    torch.testing.assert_close(rms.square().mean(-1), torch.ones(5))
