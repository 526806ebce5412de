"""LoRA: initial identity, trainable parameters and merging."""

import pytest
import torch
from torch import nn

from dragoman.errors import ConfigError
from dragoman.models.config import EncoderDecoderConfig
from dragoman.models.weight_storage import get_weights, set_weights
from dragoman.nn.lora import LoraConfig, apply_lora, merge_lora
from tests.random_models import NO_DROPOUT, random_transformer

CONFIG = EncoderDecoderConfig(
    d_model=8, num_heads=2, encoder_layers=1, decoder_layers=1, d_ff=11, dropout=NO_DROPOUT, tie_embeddings="all"
)
EVERYTHING = LoraConfig(rank=3, alpha=7.0, targets=("query", "key", "value", "output", "inner", "outer"))
SOURCE, LENGTHS, TARGET = torch.tensor([[5, 7, 3]]), torch.tensor([3]), torch.tensor([[2, 4, 9, 11, 5]])


def network(seed: int = 0) -> nn.Module:
    return random_transformer(CONFIG, source_vocabulary=13, target_vocabulary=13, seed=seed)


def adapted(config: LoraConfig, *, stirred: bool) -> nn.Module:
    model = network()
    with torch.random.fork_rng():
        torch.manual_seed(3)
        apply_lora(model, config)
        for parameter in model.parameters():
            if stirred and parameter.requires_grad:
                parameter.data.add_(0.3 * torch.randn_like(parameter))
    return model


@pytest.mark.parametrize("config", [LoraConfig(), EVERYTHING])
def test_new_adapters_change_nothing(config):
    expected = network()(SOURCE, LENGTHS, TARGET)
    torch.testing.assert_close(adapted(config, stirred=False)(SOURCE, LENGTHS, TARGET), expected, atol=0, rtol=0)


@pytest.mark.parametrize("config", [LoraConfig(), EVERYTHING])
def test_merged_weights_give_same_output(config):
    model = adapted(config, stirred=True)
    expected = model(SOURCE, LENGTHS, TARGET)
    plain = network(seed=1)
    set_weights(plain, merge_lora(get_weights(model), config))
    torch.testing.assert_close(plain(SOURCE, LENGTHS, TARGET), expected, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(network()(SOURCE, LENGTHS, TARGET), expected, atol=1e-3)


@pytest.mark.parametrize("targets", [("query", "value"), ("input", "forget_gate")])
def test_ssru_model_can_be_adapted(targets):
    config = LoraConfig(rank=2, targets=targets)
    model = random_transformer(
        CONFIG.model_copy(update={"decoder_layer": "ssru"}), source_vocabulary=13, target_vocabulary=13
    )
    expected = model(SOURCE, LENGTHS, TARGET)
    apply_lora(model, config)
    torch.testing.assert_close(model(SOURCE, LENGTHS, TARGET), expected, atol=0, rtol=0)
    adapted_parts = {name.split(".parametrizations")[0] for name, one in model.named_parameters() if one.requires_grad}
    assert {name.rpartition(".")[2] for name in adapted_parts} == set(targets)


def test_change_equals_paper_equation():
    """Hu et al. (2021), equation 3, by hand on one matrix."""
    model = adapted(LoraConfig(rank=3, alpha=7.0), stirred=True)
    tensors = get_weights(model)
    place = "encoder.0.attention.query"
    up, down = (tensors[f"{place}.parametrizations.weight.0.{part}"] for part in ("up", "down"))
    assert (up.shape, down.shape) == ((8, 3), (3, 8))
    expected = get_weights(network())[f"{place}.weight"] + 7 / 3 * sum(torch.outer(up[:, n], down[n]) for n in range(3))
    torch.testing.assert_close(merge_lora(tensors, LoraConfig(rank=3, alpha=7.0))[f"{place}.weight"], expected)


def test_only_adapters_are_trainable():
    model = adapted(LoraConfig(rank=3), stirred=True)
    model(SOURCE, LENGTHS, TARGET).square().sum().backward()
    learning = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert learning == {name for name, _ in model.named_parameters() if name.endswith((".up", ".down"))}
    assert len(learning) == 2 * 2 * 3  # two matrices of query and value in each of three attentions


def test_unknown_target_is_refused():
    with pytest.raises(ConfigError, match=r"targets = gate: the model has no such linear map"):
        apply_lora(network(), LoraConfig(targets=("gate",)))
