"""Weights on disk and in the model."""

import pytest
import torch

from dragoman.errors import RunError
from dragoman.models.config import EncoderDecoderConfig
from dragoman.models.weight_storage import get_weights, load_tensors, save_tensors, set_weights
from tests.random_models import NO_DROPOUT, random_transformer


def network(*, seed=1, **options):
    config = EncoderDecoderConfig(
        **{"d_model": 15, "num_heads": 3, "d_ff": 19, "encoder_layers": 1, "decoder_layers": 2, **options},
        dropout=NO_DROPOUT,
    )
    return random_transformer(config, source_vocabulary=17, target_vocabulary=17, seed=seed)


def logits(model):
    with torch.no_grad():
        return model(torch.tensor([[5, 7, 3]]), torch.tensor([3]), torch.tensor([[2, 11, 13]]))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


@pytest.mark.parametrize("tie", ["all", "target", "none"])
def test_saved_weights_load_unchanged(path, tie):
    model, other = network(tie_embeddings=tie), network(tie_embeddings=tie, seed=2)
    save_tensors(path, get_weights(model))
    assert not torch.equal(logits(other), logits(model))
    set_weights(other, load_tensors(path))
    assert torch.equal(logits(other), logits(model))


@pytest.mark.parametrize(("tie", "matrices"), [("all", 1), ("target", 2), ("none", 3)])
def test_tied_weight_is_stored_once(path, tie, matrices):
    model = network(tie_embeddings=tie)
    save_tensors(path, get_weights(model))
    stored = load_tensors(path)
    assert sum(tensor.shape == (17, 15) for tensor in stored.values()) == matrices
    assert sum(tensor.numel() for tensor in stored.values()) == sum(each.numel() for each in model.parameters())
    assert path.stat().st_size < 4 * sum(each.numel() for each in model.parameters()) + 16_384


def test_tied_weights_stay_tied_when_set(path):
    model = network(tie_embeddings="all")
    set_weights(model, get_weights(network(tie_embeddings="all", seed=2)))
    assert model.unembedding.weight is model.source_embedding.tokens.weight


def test_get_shares_and_set_copies():
    model, other = network(), network(seed=2)
    taken = get_weights(model)
    set_weights(other, taken)
    name, parameter = next(iter(model.named_parameters()))
    assert taken[name].data_ptr() == parameter.data_ptr()
    assert dict(other.named_parameters())[name].data_ptr() != parameter.data_ptr()
    assert not taken[name].requires_grad


@pytest.mark.parametrize("kept", [0, 3, 8, 100, 0.5, -1])
def test_truncated_file_is_named(path, kept):
    save_tensors(path, get_weights(network()))
    content = path.read_bytes()
    cut = int(len(content) * kept) if isinstance(kept, float) else kept
    path.write_bytes(content[:cut])
    with pytest.raises(RunError, match="damaged or not a safetensors file") as caught:
        load_tensors(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_other_file_format_is_named(path):
    path.write_text("these are not the weights you are looking for")
    with pytest.raises(RunError, match="damaged or not a safetensors file"):
        load_tensors(path)


def test_missing_file_is_named(path):
    with pytest.raises(RunError, match="no such file; is the folder a complete run"):
        load_tensors(path)


def test_folder_is_named(tmp_path):
    with pytest.raises(RunError, match=str(tmp_path)):
        load_tensors(tmp_path)


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"decoder_layers": 3}, r"has an unknown decoder\.2"),
        ({"decoder_layers": 1}, r"lacks decoder\.1"),
        ({"d_ff": 23}, r"has another shape of decoder\.0\.feed_forward\.inner"),
        ({"tie_embeddings": "none"}, "has an unknown target_embedding"),
        ({"bias": False}, "lacks decoder"),
        ({"d_model": 21}, "has another shape"),
    ],
)
def test_other_weights_are_refused_without_change(options, fault):
    model = network()
    before = {name: tensor.clone() for name, tensor in get_weights(model).items()}
    with pytest.raises(RunError, match=fault) as caught:
        set_weights(model, get_weights(network(**options)), where="runs/a/model.safetensors")
    assert str(caught.value).startswith("runs/a/model.safetensors: ")
    assert "Use the config.yaml they were trained with" in str(caught.value)
    assert all(torch.equal(tensor, before[name]) for name, tensor in get_weights(model).items())
