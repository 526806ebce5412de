"""With the weights that the benchmarks hand to Hugging Face's Pegasus, it gives the logits of our Transformer.

Pegasus is normed before each sublayer and has sinusoidal positions of its own, which nothing is copied into.
"""

import torch

from benchmarks.decode.partners import pegasus
from dragoman.models.config import TransformerConfig
from dragoman.models.weights import weights
from tests.fakes import SYMBOLS, rectangle
from tests.networks import NO_DROPOUT, random_transformer

VOCABULARY = 43
CONFIG = TransformerConfig(
    size=35, heads=5, feed_forward=53, encoder_layers=2, decoder_layers=3, tie="all", dropout=NO_DROPOUT
)
SOURCES = [[5, 11, 7, 13, 41, 3], [17, 3], [29, 31, 5, 3]]
TARGETS = [[19, 23, 37], [5, 7, 11, 13, 41, 4, 4], []]


@torch.no_grad()
def test_the_same_logits() -> None:
    model = random_transformer(CONFIG, source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY)
    arrays = {name: tensor.numpy() for name, tensor in weights(model).items()}
    partner = pegasus(CONFIG.model_dump(mode="json"), arrays)
    source, lengths = rectangle(SOURCES)
    target, target_lengths = rectangle([[SYMBOLS.begin, *row] for row in TARGETS])
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
