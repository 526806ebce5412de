"""Feed-forward network compared with its equation."""

import pytest
import torch

from dragoman.nn.feed_forward import FeedForward, activation_function
from tests.reference_layers import activate, feed_forward


def network(*, activation="relu", gated=False, bias=True, dropout=0.0):
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return FeedForward(d_model=5, d_ff=11, activation=activation, gated=gated, bias=bias, dropout=dropout)


X = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", ["relu", "gelu", "silu"])
def test_activation_equals_equation(name):
    x = torch.linspace(-7, 7, 101)
    torch.testing.assert_close(activation_function(x, name), activate(x, name))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu", "silu"])
def test_feed_forward_equals_equation(activation, gated, bias):
    own = network(activation=activation, gated=gated, bias=bias)
    torch.testing.assert_close(own(X), feed_forward(own, X))


def test_positions_are_independent():
    own = network(gated=True)
    torch.testing.assert_close(own(X)[:, 1:2], own(X[:, 1:2]))


def test_dropout_applies_in_training_only():
    own = network(dropout=0.5)
    assert not torch.equal(own(X), own(X))
    own.eval()
    torch.testing.assert_close(own(X), feed_forward(own, X))
    with torch.no_grad():
        own.outer.weight.zero_()
    own.train()  # whatever falls inside, the output bias never does
    assert torch.equal(own(X), own.outer.bias.expand(2, 3, 5))
