"""Attribution: gradients against finite differences, and completeness of integrated gradients."""

import pytest
import torch

from dragoman.interpret.attention_recorder import record_pairs
from dragoman.interpret.attribution import (
    completeness_error,
    gradient_times_input,
    integrated_gradients,
    query_translation,
)
from dragoman.models.config import EncoderDecoderConfig
from dragoman.models.recurrent.config import RecurrentConfig
from tests.fake_models import SYMBOLS
from tests.random_models import random_transformer
from tests.random_recurrent_models import random_recurrent

SOURCE, TARGET = [5, 6, 7, 8, 9], [4, 11, 6]
TRANSFORMER = EncoderDecoderConfig(d_model=12, num_heads=3, d_ff=7, encoder_layers=1, decoder_layers=2)
RECURRENT = RecurrentConfig(d_model=6)


def models():
    sizes = {"source_vocabulary": 13, "target_vocabulary": 13}
    return [random_transformer(TRANSFORMER, **sizes), random_recurrent(RECURRENT, **sizes)]


@pytest.mark.parametrize("model", models(), ids=["transformer", "recurrent"])
def test_unread_tokens_contribute_nothing(model):
    found = gradient_times_input(query_translation(model, SOURCE, TARGET))
    assert found.shape == (4, 6 + 4)
    assert (found[:, 6:].triu(1) == 0).all()
    assert found[:, :6].abs().min() > 0


@pytest.mark.parametrize("model", models(), ids=["transformer", "recurrent"])
def test_integrated_gradients_are_complete(model):
    """Completeness (Sundararajan et al., 2017, proposition 1): their sum is the difference to the baseline."""
    query = query_translation(model, SOURCE, TARGET)
    found = integrated_gradients(query, points=400)
    (itself,) = record_pairs(model, [SOURCE], [TARGET])
    (unknown,) = record_pairs(model, [[SYMBOLS.unk] * 5], [[SYMBOLS.unk] * 3])
    baseline = unknown.log_probs.gather(1, torch.tensor(itself.target)[:, None])[:, 0]
    torch.testing.assert_close(found.sum(dim=1), itself.target_log_probs - baseline, atol=0.02, rtol=0.02)
    error = (found.sum(dim=1) - (itself.target_log_probs - baseline)).abs()
    torch.testing.assert_close(completeness_error(query, found), error, atol=1e-4, rtol=1e-3)


def test_gradient_times_input_matches_finite_differences():
    """The embedding of a source token is scaled by $1 + \\epsilon$."""
    model = random_transformer(TRANSFORMER, source_vocabulary=13, target_vocabulary=13).double()
    found = gradient_times_input(query_translation(model, SOURCE, TARGET))
    for place in (0, 3, 5):

        def scaled(module, arguments, output, place=place):
            longer = output.clone()
            longer[:, place] *= 1 + 1e-6
            return longer

        (before,) = record_pairs(model, [SOURCE], [TARGET])
        handle = model.source_embedding.register_forward_hook(scaled)
        (after,) = record_pairs(model, [SOURCE], [TARGET])
        handle.remove()
        slope = (after.target_log_probs - before.target_log_probs) / 1e-6
        torch.testing.assert_close(found[:, place], slope, atol=1e-4, rtol=1e-3)


def test_attribution_leaves_the_model_unchanged():
    model = models()[0].train()
    gradient_times_input(query_translation(model, SOURCE, TARGET))
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not model.source_embedding._forward_hooks
