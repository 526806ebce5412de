"""Measurement of the greatest inputs of each matrix product, from which Marian's activation multipliers follow."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from dragoman.models.special_symbols import BOS, EOS

Pairs = Sequence[tuple[Sequence[int], Sequence[int]]]
"""Ids of sources and targets, without special symbols."""


@torch.inference_mode()
def greatest_inputs(network: nn.Module, pairs: Pairs) -> Mapping[str, list[float]]:
    """Return the greatest absolute input of each linear layer and of the output layer, for each pair.

    Keys are the names of the layers' weights. Targets are given to the decoder.
    """
    found: dict[str, list[float]] = {}
    with _recording(network, found):
        for source, target in pairs:
            tokens = torch.tensor([[*source, EOS]])
            network(tokens, torch.tensor([tokens.shape[1]]), torch.tensor([[BOS, *target]]))
    return found


@contextmanager
def _recording(network: nn.Module, found: dict[str, list[float]]) -> Iterator[None]:
    def record(name: str) -> Any:
        def hook(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            found.setdefault(name, []).append(float(inputs[0].abs().max()))

        return hook

    layers = {name: layer for name, layer in network.named_modules() if name == "unembedding" or _is_linear(layer)}
    handles = [layer.register_forward_pre_hook(record(f"{name}.weight")) for name, layer in layers.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _is_linear(layer: nn.Module) -> bool:
    return isinstance(layer, nn.Linear)
