"""Factory of recurrent models."""

from torch import nn

from dragoman.models.recurrent.config import NoAttentionConfig, RecurrentConfig
from dragoman.models.recurrent.encoder_decoder import RecurrentEncoderDecoder
from dragoman.models.weight_initialization import build_tied_embeddings, initialize_weights
from dragoman.nn.attention_score_functions import build_score
from dragoman.nn.embedding import TokenEmbedding, Unembedding
from dragoman.nn.recurrent.decoder import DecoderInit, RecurrentDecoder, RecurrentLayer
from dragoman.nn.recurrent.encoder import RecurrentEncoder, RecurrentEncoderLayer
from dragoman.nn.recurrent.global_attention import SourceAttention


def build_recurrent_model(
    config: RecurrentConfig, *, source_vocabulary: int, target_vocabulary: int
) -> RecurrentEncoderDecoder:
    """Build a model with new weights from the ambient generator; raises ConfigError if embeddings cannot be tied."""
    source, target, output = build_tied_embeddings(
        config.tie_embeddings,
        source_vocabulary=source_vocabulary,
        target_vocabulary=target_vocabulary,
        embedding_size=config.resolved_embedding_size,
        size=config.d_model,
    )
    model = RecurrentEncoderDecoder(
        source_embedding=_embedding(config, source),
        target_embedding=_embedding(config, target),
        encoder=_encoder(config),
        bridges=[
            DecoderInit(
                bridge=config.bridge, cell=config.cell, encoder_size=config.resolved_encoder_size, size=config.d_model
            )
            for _ in range(config.decoder_layers)
        ],
        decoder=_decoder(config),
        unembedding=Unembedding(weight=output.weight, bias=True),
    )
    initialize_weights(model, model.unembedding.weight)
    return model


def _embedding(config: RecurrentConfig, tokens: nn.Embedding) -> TokenEmbedding:
    return TokenEmbedding(
        tokens=tokens, positions=None, dropout=config.dropout.embedding, scaled=config.scale_embedding
    )


def _encoder(config: RecurrentConfig) -> RecurrentEncoder:
    size = config.resolved_encoder_size
    inputs = [config.resolved_embedding_size] + [size] * (config.encoder_layers - 1)
    return RecurrentEncoder(
        layers=[
            RecurrentEncoderLayer(
                cell=config.cell, input_size=input_size, size=size, bidirectional=config.bidirectional
            )
            for input_size in inputs
        ],
        dropout=config.dropout.layers,
    )


def _decoder(config: RecurrentConfig) -> RecurrentDecoder:
    inputs = [config.resolved_embedding_size] + [config.d_model] * (config.decoder_layers - 1)
    return RecurrentDecoder(
        layers=[RecurrentLayer(cell=config.cell, input_size=size, size=config.d_model) for size in inputs],
        attention=_attention(config),
        use_input_feeding=config.use_input_feeding,
        layer_dropout=config.dropout.layers,
        output_dropout=config.dropout.output,
    )


def _attention(config: RecurrentConfig) -> SourceAttention | None:
    if isinstance(config.attention, NoAttentionConfig):
        return None
    size = config.resolved_encoder_size
    score = build_score(config.attention, query_size=config.d_model, key_size=size, heads=1, key_heads=1)
    return SourceAttention(score=score, size=config.d_model, value_size=size)
