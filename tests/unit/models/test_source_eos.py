"""The option `source_eos`: whether the encoder sees the end symbol of sources."""

import pytest
import torch

from dragoman.decoding.config import LengthPenalty
from dragoman.inference.backends.cpu_backend import CpuBackend
from dragoman.inference.backends.torch_backend import TorchBackend
from dragoman.models.config import EncoderDecoderConfig
from dragoman.models.special_symbols import EOS
from dragoman.models.weight_storage import get_weights
from tests.random_models import random_transformer

SOURCES, TARGETS = [[4, 5, 6], [5], []], [[4, 5, EOS], [6, EOS], [5, EOS]]


def make_model(*, source_eos: bool):
    config = EncoderDecoderConfig(
        d_model=12, num_heads=3, d_ff=14, encoder_layers=2, decoder_layers=1, source_eos=source_eos
    )
    return config, random_transformer(config, source_vocabulary=11, target_vocabulary=11).eval()


@torch.no_grad()
def test_hidden_end_symbol_equals_sources_without_it():
    _, shown = make_model(source_eos=True)
    _, hiding = make_model(source_eos=False)
    target = torch.tensor([[2, 7, 8]] * 2)
    without = shown(torch.tensor([[4, 5, 6], [5, 0, 0]]), torch.tensor([3, 1]), target)
    hidden = hiding(torch.tensor([[4, 5, 6, EOS], [5, EOS, 0, 0]]), torch.tensor([4, 2]), target)
    torch.testing.assert_close(hidden, without)


@pytest.mark.parametrize("source_eos", [True, False])
def test_backends_agree(source_eos):
    config, model = make_model(source_eos=source_eos)
    weights = {name: one.numpy() for name, one in get_weights(model).items()}
    tree = config.model_dump(mode="json")
    cpu = CpuBackend(tree, weights, compute_type="float32", source_vocabulary=11, target_vocabulary=11)
    found = [
        [one.log_prob for one in backend.score(SOURCES, TARGETS, penalty=LengthPenalty())]
        for backend in (cpu, TorchBackend(model))
    ]
    assert found[0] == pytest.approx(found[1], abs=1e-4)
