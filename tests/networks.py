"""Small networks whose weights are all random: biases, norms and positions too, which building leaves plain."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn

from dragoman.models.config import CausalConfig, DropoutConfig, EncoderConfig, TransformerConfig
from dragoman.models.decoder_only import CausalTransformer
from dragoman.models.encoder_decoder import Seq2SeqTransformer
from dragoman.models.encoder_only import EncoderTransformer
from dragoman.models.factory import build_causal, build_encoder, build_seq2seq

NO_DROPOUT = DropoutConfig(embedding=0.0, residual=0.0, attention=0.0, feed_forward=0.0)
M = TypeVar("M", bound=nn.Module)


def random_transformer(
    config: TransformerConfig, *, source_vocabulary: int, target_vocabulary: int, seed: int = 0
) -> Seq2SeqTransformer:
    """In evaluation mode; the ambient generator is left as it was."""
    sizes = {"source_vocabulary": source_vocabulary, "target_vocabulary": target_vocabulary}
    return stirred(lambda: build_seq2seq(config, **sizes), seed)


def random_causal(config: CausalConfig, *, vocabulary: int, seed: int = 0) -> CausalTransformer:
    return stirred(lambda: build_causal(config, vocabulary=vocabulary), seed)


def random_encoder(config: EncoderConfig, *, vocabulary: int, seed: int = 0) -> EncoderTransformer:
    return stirred(lambda: build_encoder(config, vocabulary=vocabulary), seed)


def stirred(build: Callable[[], M], seed: int) -> M:
    """What is built, every parameter moved at random."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = build()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()
