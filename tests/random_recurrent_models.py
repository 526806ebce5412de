"""Small recurrent models whose weights are all random, and all their configurations."""

import torch
from hypothesis import strategies as st
from pydantic import BaseModel

from dragoman.models.recurrent.config import NoAttentionConfig, RecurrentConfig, RecurrentDropoutConfig
from dragoman.models.recurrent.encoder_decoder import RecurrentEncoderDecoder
from dragoman.models.recurrent.factory import build_recurrent_model
from tests.attention_variants import OF_ONE_SIZE, SCORES

NO_DROPOUT = RecurrentDropoutConfig(embedding=0.0, layers=0.0, output=0.0)
ATTENTIONS: dict[str, BaseModel] = {"none": NoAttentionConfig(), **SCORES}


def random_recurrent(
    config: RecurrentConfig, *, source_vocabulary: int, target_vocabulary: int, seed: int = 0
) -> RecurrentEncoderDecoder:
    """Return a model in evaluation mode; the ambient generator stays unchanged."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = build_recurrent_model(config, source_vocabulary=source_vocabulary, target_vocabulary=target_vocabulary)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


@st.composite
def recurrent_configs(draw: st.DrawFn) -> RecurrentConfig:
    """Draw a configuration. Sizes are primes, or twice a prime if the model halves them."""
    attention = ATTENTIONS[draw(st.sampled_from(list(ATTENTIONS)))]
    tie = draw(st.sampled_from(["all", "target", "none"]))
    if attention.kind in OF_ONE_SIZE or draw(st.booleans()):
        size, encoder_size = draw(st.sampled_from([4, 6, 10])), None
    else:
        size, encoder_size = draw(st.sampled_from([2, 3, 5, 7])), draw(st.sampled_from([4, 6, 10]))
    return RecurrentConfig(
        cell=draw(st.sampled_from(["lstm", "gru"])),
        d_model=size,
        encoder_size=encoder_size,
        embedding_size=draw(st.sampled_from([None, 11])) if tie == "none" else None,
        encoder_layers=draw(st.integers(1, 3)),
        decoder_layers=draw(st.integers(1, 3)),
        attention=attention,
        input_feeding=None if attention.kind == "none" else draw(st.booleans()),
        dropout=NO_DROPOUT,
        tie_embeddings=tie,
    )
