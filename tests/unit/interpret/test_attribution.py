"""Attribution: gradients against differences, and integrated gradients against what they promise."""

import pytest
import torch

from dragoman.interpret.attribution import gradient_times_input, integrated_gradients, left_unexplained
from dragoman.interpret.forward_pass import watched
from dragoman.interpret.model_calls import of_pair
from dragoman.models.config import EncoderDecoderConfig
from dragoman.models.recurrent.config import RecurrentConfig
from tests.fake_models import SYMBOLS
from tests.random_models import random_transformer
from tests.random_recurrent_models import random_recurrent

SOURCE, TARGET = [5, 6, 7, 8, 9], [4, 11, 6]
TRANSFORMER = EncoderDecoderConfig(d_model=12, num_heads=3, d_ff=7, encoder_layers=1, decoder_layers=2)
RECURRENT = RecurrentConfig(d_model=6)


def networks():
    sizes = {"source_vocabulary": 13, "target_vocabulary": 13}
    return [random_transformer(TRANSFORMER, **sizes), random_recurrent(RECURRENT, **sizes)]


@pytest.mark.parametrize("model", networks(), ids=["transformer", "recurrent"])
def test_shapes_and_what_was_not_yet_read(model):
    found = gradient_times_input(of_pair(model, SOURCE, TARGET, symbols=SYMBOLS))
    assert found.shape == (4, 6 + 4)
    assert (found[:, 6:].triu(1) == 0).all()
    assert found[:, :6].abs().min() > 0


@pytest.mark.parametrize("model", networks(), ids=["transformer", "recurrent"])
def test_integrated_gradients_share_out_what_the_tokens_are_worth(model):
    """Completeness (Sundararajan et al., 2017, proposition 1): their sum is the difference to the baseline."""
    asked = of_pair(model, SOURCE, TARGET, symbols=SYMBOLS)
    found = integrated_gradients(asked, points=400)
    (itself,) = watched(model, [SOURCE], [TARGET], symbols=SYMBOLS)
    (unknown,) = watched(model, [[SYMBOLS.unk] * 5], [[SYMBOLS.unk] * 3], symbols=SYMBOLS)
    baseline = unknown.log_probs.gather(1, torch.tensor(itself.target)[:, None])[:, 0]
    torch.testing.assert_close(found.sum(dim=1), itself.token_log_probs - baseline, atol=0.02, rtol=0.02)
    missed = (found.sum(dim=1) - (itself.token_log_probs - baseline)).abs()
    torch.testing.assert_close(left_unexplained(asked, found), missed, atol=1e-4, rtol=1e-3)


def test_gradient_times_input_is_the_slope_of_scaling_a_token():
    """Where the embedding of a source token is scaled by $1 + \\epsilon$."""
    model = random_transformer(TRANSFORMER, source_vocabulary=13, target_vocabulary=13).double()
    found = gradient_times_input(of_pair(model, SOURCE, TARGET, symbols=SYMBOLS))
    for place in (0, 3, 5):

        def scaled(module, arguments, output, place=place):
            longer = output.clone()
            longer[:, place] *= 1 + 1e-6
            return longer

        (before,) = watched(model, [SOURCE], [TARGET], symbols=SYMBOLS)
        handle = model.source_embedding.register_forward_hook(scaled)
        (after,) = watched(model, [SOURCE], [TARGET], symbols=SYMBOLS)
        handle.remove()
        slope = (after.token_log_probs - before.token_log_probs) / 1e-6
        torch.testing.assert_close(found[:, place], slope, atol=1e-4, rtol=1e-3)


def test_nothing_is_left_behind():
    model = networks()[0].train()
    gradient_times_input(of_pair(model, SOURCE, TARGET, symbols=SYMBOLS))
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not model.source_embedding._forward_hooks
