"""Small models whose weights are all random, biases, norms and positions included."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn

from dragoman.models.config import DecoderOnlyConfig, DropoutConfig, EncoderDecoderConfig, EncoderOnlyConfig
from dragoman.models.decoder_only import DecoderOnlyTransformer
from dragoman.models.encoder_decoder import EncoderDecoderTransformer
from dragoman.models.encoder_only import EncoderOnlyTransformer
from dragoman.models.factory import build_decoder_only, build_encoder_decoder, build_encoder_only

NO_DROPOUT = DropoutConfig(embedding=0.0, residual=0.0, attention=0.0, feed_forward=0.0)
M = TypeVar("M", bound=nn.Module)


def random_transformer(
    config: EncoderDecoderConfig, *, source_vocabulary: int, target_vocabulary: int, seed: int = 0
) -> EncoderDecoderTransformer:
    """Return a model in evaluation mode; the ambient generator stays unchanged."""
    sizes = {"source_vocabulary": source_vocabulary, "target_vocabulary": target_vocabulary}
    return randomized(lambda: build_encoder_decoder(config, **sizes), seed)


def random_causal(config: DecoderOnlyConfig, *, vocabulary: int, seed: int = 0) -> DecoderOnlyTransformer:
    return randomized(lambda: build_decoder_only(config, vocabulary=vocabulary), seed)


def random_encoder(config: EncoderOnlyConfig, *, vocabulary: int, seed: int = 0) -> EncoderOnlyTransformer:
    return randomized(lambda: build_encoder_only(config, vocabulary=vocabulary), seed)


def randomized(build: Callable[[], M], seed: int) -> M:
    """Build a module and move every parameter at random."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = build()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()
