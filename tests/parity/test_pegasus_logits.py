"""Hugging Face's Pegasus computes the logits of our Transformer from the same weights.

Pegasus has pre-norm layers and its own sinusoidal positions, into which nothing is copied.
"""

import torch

from dragoman.models.config import EncoderDecoderConfig
from dragoman.models.weight_storage import get_weights
from tests.fake_models import SYMBOLS, rectangle
from tests.pegasus import pegasus
from tests.random_models import NO_DROPOUT, random_transformer

VOCABULARY = 43
CONFIG = EncoderDecoderConfig(
    d_model=35, num_heads=5, d_ff=53, encoder_layers=2, decoder_layers=3, tie_embeddings="all", dropout=NO_DROPOUT
)
SOURCES = [[5, 11, 7, 13, 41, 3], [17, 3], [29, 31, 5, 3]]
TARGETS = [[19, 23, 37], [5, 7, 11, 13, 41, 4, 4], []]


@torch.no_grad()
def test_logits_equal_pegasus() -> None:
    model = random_transformer(CONFIG, source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY)
    arrays = {name: tensor.numpy() for name, tensor in get_weights(model).items()}
    partner = pegasus(CONFIG.model_dump(mode="json"), arrays)
    source, lengths = rectangle(SOURCES)
    target, target_lengths = rectangle([[SYMBOLS.bos, *row] for row in TARGETS])
    real = torch.arange(target.shape[1]) < target_lengths[:, None]
    theirs = partner(
        source,
        attention_mask=(source != SYMBOLS.pad).long(),
        decoder_input_ids=target,
        decoder_attention_mask=real.long(),
        use_cache=False,
    ).logits
    torch.testing.assert_close(model(source, lengths, target)[real], theirs[real], atol=1e-4, rtol=1e-4)
    assert float(theirs[real].std()) > 0.5
