"""Small Transformers whose weights are all random: biases, norms and positions too, which building leaves plain."""

import torch

from dragoman.models.transformer.build import build_seq2seq
from dragoman.models.transformer.config import DropoutConfig, TransformerConfig
from dragoman.models.transformer.seq2seq import Seq2SeqTransformer

NO_DROPOUT = DropoutConfig(embedding=0.0, residual=0.0, attention=0.0, feed_forward=0.0)


def random_transformer(
    config: TransformerConfig, *, source_vocabulary: int, target_vocabulary: int, seed: int = 0
) -> Seq2SeqTransformer:
    """In evaluation mode; the ambient generator is left as it was."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = build_seq2seq(config, source_vocabulary=source_vocabulary, target_vocabulary=target_vocabulary)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()
