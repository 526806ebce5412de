"""Check models under `torch.compile` in a process of its own, because the tracer cannot follow the shape checks of
tests.

python -m tests.torch_compile_models
"""

import json

import torch
from torch import Tensor, nn

from dragoman.models.config import (
    AlibiConfig,
    DecoderOnlyConfig,
    DropoutConfig,
    EncoderDecoderConfig,
    EncoderOnlyConfig,
    RotaryConfig,
)
from dragoman.models.factory import build_decoder_only, build_encoder_decoder, build_encoder_only
from dragoman.nn.cpu_training_ops import without_cpu_ops

CERTAIN = DropoutConfig(embedding=0.0, residual=0.0, feed_forward=0.0, attention=0.0)
"""What dropout takes is drawn otherwise on a GPU."""
SMALL = {"d_model": 16, "num_heads": 2, "d_ff": 24, "dropout": CERTAIN}
WORDS = 19
SHAPES = ((5, 7), (3, 11), (8, 4))
"""Rows and width of batches."""


def translator(**settings: object) -> nn.Module:
    config = EncoderDecoderConfig(encoder_layers=1, decoder_layers=1, **SMALL, **settings)
    return build_encoder_decoder(config, source_vocabulary=WORDS, target_vocabulary=WORDS)


NETWORKS = {
    "translator": translator,
    "translator with norms before": lambda: translator(norm_position="pre"),
    "translator, rotary": lambda: translator(positions=RotaryConfig()),
    "translator, alibi": lambda: translator(positions=AlibiConfig()),
    "language model": lambda: build_decoder_only(DecoderOnlyConfig(num_layers=1, **SMALL), vocabulary=WORDS),
    "reader": lambda: build_encoder_only(EncoderOnlyConfig(num_layers=1, **SMALL), vocabulary=WORDS),
}


def batch(name: str, rows: int, width: int) -> tuple[Tensor, ...]:
    tokens = torch.randint(4, WORDS, (rows, width))
    lengths = torch.cat([torch.tensor([width]), torch.randint(1, width + 1, (rows - 1,))])
    if name == "language model":
        return (tokens,)
    return (tokens, lengths) if name == "reader" else (tokens, lengths, torch.randint(4, WORDS, (rows, width + 2)))


def largest_difference(name: str) -> float:
    """Return the largest difference of hidden states and gradients between a model and its compiled form.

    Raises if the model does not compile as one graph or compiles again for another shape.
    """
    torch.manual_seed(7)
    network = NETWORKS[name]().train()
    torch._dynamo.reset()
    whole = torch.compile(network.hidden, dynamic=True, fullgraph=True, backend="eager")
    with torch._dynamo.config.patch(error_on_recompile=True):
        given = [batch(name, rows, width) for rows, width in SHAPES]
        with without_cpu_ops():  # whose operations the compiler was given
            pairs = [
                (hidden_and_gradients(whole, network, one), hidden_and_gradients(network.hidden, network, one))
                for one in given
            ]
    return max(float((a - b).abs().max()) for one, other in pairs for a, b in zip(one, other, strict=True))


def hidden_and_gradients(entrance, network, given):
    """Return the hidden states and the gradients of the sum of their squares."""
    hidden = entrance(*given)
    found = torch.autograd.grad(hidden.square().sum(), list(network.parameters()), allow_unused=True)
    return [hidden.detach(), *(one for one in found if one is not None)]


if __name__ == "__main__":
    print(json.dumps({name: largest_difference(name) for name in NETWORKS}))
