"""Shapes of imported networks."""

from dragoman.interop.imported_model import network_shapes
from dragoman.models.config import DecoderOnlyConfig, EncoderDecoderConfig


def test_shapes_name_each_tied_weight_once() -> None:
    config = EncoderDecoderConfig(d_model=8, num_heads=2, d_ff=12, encoder_layers=1, decoder_layers=1)
    shapes = network_shapes(config, source_vocabulary=11, target_vocabulary=11)
    assert [name for name, shape in shapes.items() if shape == (11, 8)] == ["source_embedding.tokens.weight"]
    assert shapes["unembedding.bias"] == (11,)


def test_decoder_only_networks_use_the_target_vocabulary() -> None:
    config = DecoderOnlyConfig(d_model=8, num_heads=2, d_ff=12, num_layers=1, tie_embeddings=False)
    shapes = network_shapes(config, source_vocabulary=5, target_vocabulary=13)
    assert shapes["unembedding.weight"] == (13, 8)
