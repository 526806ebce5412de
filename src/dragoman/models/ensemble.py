r"""Ensemble of sequence-to-sequence models with one target vocabulary, which averages their token probabilities.

$p(y) = \frac{1}{M} \sum_m p_m(y)$, an opinion pool with equal weights (Stone, 1961). Members may differ in kind.
"""

import math
from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor, nn

from dragoman.array_types import BeamTokens, Float, Lengths, SourceIds, StepLogits, TargetIds
from dragoman.models.protocols import EncoderDecoder, EnsembleParts


def log_mean_probability(
    logits: Sequence[Float[Tensor, "*positions vocabulary"]],
) -> Float[Tensor, "*positions vocabulary"]:
    """Return the logarithm of the mean probability, from the logits of each member."""
    log_probs = torch.stack([one.log_softmax(dim=-1) for one in logits])
    return log_probs.logsumexp(dim=0) - math.log(len(logits))


@final
class Ensemble(nn.Module):
    """Ensemble; implements `EncoderDecoder`, with log-probabilities as logits and concatenated hidden states."""

    def __init__(self, models: Sequence[EncoderDecoder[Any, Any]]) -> None:
        super().__init__()
        self.networks: Sequence[Any] = nn.ModuleList(models)  # type: ignore[arg-type,assignment]  # members are modules

    @property
    def max_length(self) -> int | None:
        """Maximum length of all members, or None if unlimited."""
        known = [network.max_length for network in self.networks if network.max_length is not None]
        return min(known, default=None)

    def encode(self, source: SourceIds, lengths: Lengths) -> EnsembleParts:
        return EnsembleParts(tuple(network.encode(source, lengths) for network in self.networks))

    def hidden(
        self, source: SourceIds, source_lengths: Lengths, target: TargetIds
    ) -> Float[Tensor, "batch target size"]:
        return torch.cat([network.hidden(source, source_lengths, target) for network in self.networks], dim=-1)

    def unembed(self, hidden: Float[Tensor, "*positions size"]) -> Float[Tensor, "*positions vocabulary"]:
        sizes = [network.unembedding.weight.shape[1] for network in self.networks]
        parts = zip(self.networks, hidden.split(sizes, dim=-1), strict=True)
        return log_mean_probability([network.unembed(part) for network, part in parts])

    def start(self, memory: EnsembleParts, *, beam_size: int) -> EnsembleParts:
        parts = zip(self.networks, memory.parts, strict=True)
        return EnsembleParts(tuple(network.start(part, beam_size=beam_size) for network, part in parts))

    def step(self, tokens: BeamTokens, memory: EnsembleParts, state: EnsembleParts) -> tuple[StepLogits, EnsembleParts]:
        parts = zip(self.networks, memory.parts, state.parts, strict=True)
        logits, after = zip(*(network.step(tokens, its, own) for network, its, own in parts), strict=True)
        return log_mean_probability(logits), EnsembleParts(after)
