"""From settings to a recurrent network: the parts list."""

import math

from torch import nn

from dragoman.models.recurrent.config import NoAttentionConfig, RecurrentConfig
from dragoman.models.recurrent.encoder_decoder import RecurrentEncoderDecoder
from dragoman.models.weights import build_tied_embeddings
from dragoman.nn.embedding import TokenEmbedding, Unembedding
from dragoman.nn.recurrent.attention import SourceAttention
from dragoman.nn.recurrent.decoder import DecoderInit, RecurrentDecoder, RecurrentLayer
from dragoman.nn.recurrent.encoder import BidirectionalLayer, RecurrentEncoder
from dragoman.nn.scores import build_score


def build_recurrent_model(
    config: RecurrentConfig, *, source_vocabulary: int, target_vocabulary: int
) -> RecurrentEncoderDecoder:
    """A network with fresh weights, drawn from the ambient generator; raises ConfigError where sizes cannot be tied."""
    source, target, last = build_tied_embeddings(
        config.tie_embeddings,
        source_vocabulary=source_vocabulary,
        target_vocabulary=target_vocabulary,
        embedding_size=config.resolved_embedding_size,
        size=config.d_model,
    )
    model = RecurrentEncoderDecoder(
        source_embedding=_build_embedding(config, source),
        target_embedding=_build_embedding(config, target),
        encoder=build_encoder(config),
        bridges=[
            DecoderInit(cell=config.cell, encoder_size=config.resolved_encoder_size, size=config.d_model)
            for _ in range(config.decoder_layers)
        ],
        decoder=build_decoder(config),
        unembedding=Unembedding(weight=last.weight, bias=True),
    )
    _initialise(model)
    return model


def build_encoder(config: RecurrentConfig) -> RecurrentEncoder:
    width = config.resolved_encoder_size
    inputs = [config.resolved_embedding_size] + [width] * (config.encoder_layers - 1)
    return RecurrentEncoder(
        layers=[BidirectionalLayer(cell=config.cell, input_size=size, size=width) for size in inputs],
        dropout=config.dropout.layers,
    )


def build_decoder(config: RecurrentConfig) -> RecurrentDecoder:
    inputs = [config.resolved_embedding_size] + [config.d_model] * (config.decoder_layers - 1)
    return RecurrentDecoder(
        layers=[RecurrentLayer(cell=config.cell, input_size=size, size=config.d_model) for size in inputs],
        attention=build_attention(config),
        use_input_feeding=config.use_input_feeding,
        layer_dropout=config.dropout.layers,
        output_dropout=config.dropout.output,
    )


def build_attention(config: RecurrentConfig) -> SourceAttention | None:
    if isinstance(config.attention, NoAttentionConfig):
        return None
    width = config.resolved_encoder_size
    score = build_score(config.attention, query_size=config.d_model, key_size=width, heads=1, key_heads=1)
    return SourceAttention(score=score, size=config.d_model, value_size=width)


def _build_embedding(config: RecurrentConfig, tokens: nn.Embedding) -> TokenEmbedding:
    return TokenEmbedding(tokens=tokens, positions=None, dropout=config.dropout.embedding)


def _initialise(model: RecurrentEncoderDecoder) -> None:
    r"""Embeddings from $N(0, 1/d)$, times $\sqrt d$ of unit variance; other maps by Glorot and Bengio (2010)."""
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=1 / math.sqrt(module.embedding_dim))
        elif isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.LSTM | nn.GRU):
            _initialise_gates(module)
    nn.init.normal_(model.unembedding.weight, std=1 / math.sqrt(model.unembedding.weight.shape[1]))


def _initialise_gates(layer: nn.LSTM | nn.GRU) -> None:
    """Each gate by itself: orthogonal from the hidden state (Saxe et al., 2014), Glorot and Bengio from the input.

    An LSTM begins with its forget gates open, at a bias of 1 (Jozefowicz et al., 2015).
    """
    size = layer.hidden_size
    for name, parameter in layer.named_parameters():
        for gate in parameter.detach().split(size):
            if name.startswith("weight_hh"):
                nn.init.orthogonal_(gate)
            elif name.startswith("weight_ih"):
                nn.init.xavier_uniform_(gate)
            else:
                nn.init.zeros_(gate)
        if name.startswith("bias_ih") and isinstance(layer, nn.LSTM):
            nn.init.ones_(parameter.detach()[size : 2 * size])
