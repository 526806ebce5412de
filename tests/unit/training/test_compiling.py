"""What a compiler of networks makes of ours: one piece for all shapes, with the same values and gradients."""

import pytest
import torch
from torch import Tensor, nn

from dragoman.errors import ConfigError
from dragoman.models.transformer.build import build_causal, build_encoder, build_seq2seq
from dragoman.models.transformer.config import (
    AlibiConfig,
    CausalConfig,
    DropoutConfig,
    EncoderConfig,
    RelativeConfig,
    RotaryConfig,
    TransformerConfig,
)
from dragoman.training.compiling import compile_network

CERTAIN = DropoutConfig(embedding=0.0, residual=0.0, feed_forward=0.0, attention=0.0)
"""What dropout takes is drawn otherwise on a GPU."""
SMALL = {"size": 16, "heads": 2, "feed_forward": 24, "dropout": CERTAIN}
WORDS = 19
POSITIONS = {
    "as published": {},
    "norms before": {"norm_position": "pre"},
    "rotary": {"positions": RotaryConfig()},
    "alibi": {"positions": AlibiConfig()},
    "relative": {"positions": RelativeConfig()},
}


def translator(**settings: object) -> nn.Module:
    config = TransformerConfig(encoder_layers=2, decoder_layers=2, **SMALL, **settings)
    return build_seq2seq(config, source_vocabulary=WORDS, target_vocabulary=WORDS)


NETWORKS = {f"translator, {name}": lambda given=given: translator(**given) for name, given in POSITIONS.items()} | {
    "language model": lambda: build_causal(CausalConfig(layers=2, **SMALL), vocabulary=WORDS),
    "reader": lambda: build_encoder(EncoderConfig(layers=2, **SMALL), vocabulary=WORDS),
}


def texts(rows: int, width: int, *, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, width + 1, (rows,), generator=generator)
    lengths[0] = width
    return torch.randint(4, WORDS, (rows, width), generator=generator), lengths


def batch(name: str, rows: int, width: int) -> tuple[Tensor, ...]:
    tokens, lengths = texts(rows, width, seed=rows)
    if name == "language model":
        return (tokens,)
    return (tokens, lengths) if name == "reader" else (tokens, lengths, texts(rows, width + 2, seed=width)[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_are_compiled_whole_and_once_for_all_shapes(name):
    """By PyTorch's tracer, and without the code generator, which needs a compiler of C++."""
    torch.manual_seed(7)
    network = NETWORKS[name]().train()
    torch._dynamo.reset()
    whole = torch.compile(network.hidden, dynamic=True, fullgraph=True, backend="aot_eager")
    with torch._dynamo.config.patch(error_on_recompile=True):
        for rows, width in ((5, 7), (3, 11), (8, 4)):
            given = batch(name, rows, width)
            values, gradients = zip(*(learnt(one, network, given) for one in (whole, network.hidden)), strict=True)
            torch.testing.assert_close(*values)
            torch.testing.assert_close(*gradients)


def learnt(entrance, network, given):
    """The hidden states, and the gradients of the sum of their squares."""
    hidden = entrance(*given)
    parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
    found = torch.autograd.grad(hidden.square().sum(), parameters, allow_unused=True)
    return hidden.detach(), [one for one in found if one is not None]


def test_on_a_cpu_it_is_refused():
    with pytest.raises(ConfigError, match=r"training\.compile = true is for GPUs"):
        compile_network(translator(), device=torch.device("cpu"))
