"""From a configuration to objects."""

import torch

from dragoman.data.tokenizer import Tokenizer
from dragoman.experiment.config import Experiment
from dragoman.models.transformer.build import build_seq2seq
from dragoman.models.transformer.seq2seq import Seq2SeqTransformer
from dragoman.training.randomness import seeded


def build_model(experiment: Experiment, tokenizer: Tokenizer, *, device: torch.device) -> Seq2SeqTransformer:
    """The network with its first weights, the same on every device for one seed."""
    with seeded(experiment.training.seed, device=torch.device("cpu")):
        model = build_seq2seq(
            experiment.model, source_vocabulary=len(tokenizer.source), target_vocabulary=len(tokenizer.target)
        )
    return model.to(device)
