"""Comparison of an imported model with the program that it comes from."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from torch import nn

from dragoman.array_types import Float32
from dragoman.errors import DataError
from dragoman.interop.imported_model import ImportedModel, NetworkConfig, build_network
from dragoman.models.config import DecoderOnlyConfig, EncoderOnlyConfig
from dragoman.models.special_symbols import BOS, EOS
from dragoman.models.task_heads import ModelWithHead, SpanHead
from dragoman.models.weight_storage import set_weights

_LENGTHS = ((3, 5), (11, 7), (17, 13))
"""Lengths of the sources and targets that are compared, without special symbols."""


@final
@dataclass(frozen=True)
class LogitsCheck:
    """Agreement of the logits with those of the other program, on random tokens."""

    library: str
    max_difference: float
    """Greatest difference of two logits."""
    positions: int
    same_best: int
    """Positions with the same most probable token; of a head, with the same label, start or end."""

    def describe(self) -> str:
        """Return the result in words."""
        return (
            f"logits differ from those of {self.library} by at most {self.max_difference:.2g}, and the most probable "
            f"token is the same at {self.same_best} of {self.positions} positions"
        )


def check_logits(model: ImportedModel) -> LogitsCheck | None:
    """Compare the logits of a model with those of the other program; None where it is not installed.

    Logits are compared as log-probabilities, so that added rows do not matter. Raises DataError if they differ by more
    than the tolerance.
    """
    if model.reference is None:
        return None
    network = loaded_network(model)
    generator = np.random.default_rng(0)
    sides = len(model.tokenizer.source), len(model.tokenizer.target)
    greatest, positions, same = 0.0, 0, 0
    begin = [part for part in model.tokenizer.prefixes.source if isinstance(part, int)]
    for lengths in _LENGTHS:
        limit = min(model.max_length - 2, max(lengths))
        source, target = (
            _random_ids(generator, size, min(length, limit), without=model.reference.unnamed)
            for size, length in zip(sides, lengths, strict=True)
        )
        given = ([*begin, *source, EOS], [BOS, *target])
        if isinstance(model.network, DecoderOnlyConfig | EncoderOnlyConfig):
            given = ([], given[1])
        ours = _log_probs(forward(network, model.network, *given))
        theirs = _log_probs(model.reference.logits(*given))
        visible = theirs > -50
        greatest = max(greatest, float(np.abs(ours - theirs)[visible].max()))
        positions += len(ours)
        same += int((ours.argmax(axis=-1) == theirs.argmax(axis=-1)).sum())
    found = LogitsCheck(model.reference.library, greatest, positions, same)
    if not greatest <= model.reference.tolerance:
        raise DataError(
            f"The imported model does not compute what the original computes: its {found.describe()}. Nothing was "
            "written. Report the model, with its configuration."
        )
    return found


def _random_ids(generator: np.random.Generator, size: int, length: int, *, without: frozenset[int]) -> list[int]:
    """Return random ids of a vocabulary, special symbols excluded; another id stands for those `without`."""
    ids: list[int] = generator.integers(4, size, length).tolist()
    other = next(index for index in range(4, size + 1) if index not in without)
    return [other if index in without else index for index in ids]


def loaded_network(model: ImportedModel) -> nn.Module:
    """Build the network of a model with its weights, in evaluation mode on the CPU."""
    masks = isinstance(model.network, EncoderOnlyConfig)  # the mask symbol follows the tokens
    network = build_network(
        model.network,
        source_vocabulary=len(model.tokenizer.source),
        target_vocabulary=len(model.tokenizer.target) + masks,
        head=model.head,
        num_labels=len(model.labels),
    )
    set_weights(network, {name: torch.from_numpy(array) for name, array in model.weights.items()})
    return network.eval()


@torch.inference_mode()
def forward(
    network: Any, config: NetworkConfig, source: list[int], target: list[int]
) -> Float32[np.ndarray, "rows logits"]:
    """Return the logits after each token of a target, or of a head: of the labels, or of starts and ends."""
    tokens, length = torch.tensor([target]), torch.tensor([len(target)])
    match config:
        case EncoderOnlyConfig() if isinstance(network, ModelWithHead):
            if isinstance(network.head, SpanHead):  # segments, and so the places of answers, are those of one text
                return network.head.output(network.backbone.hidden(tokens, length))[0].T.numpy()
            return network(tokens, length).numpy()
        case DecoderOnlyConfig():
            hidden = network.hidden(tokens)
        case EncoderOnlyConfig():
            hidden = network.hidden(tokens, length)
        case _:
            hidden = network.hidden(torch.tensor([source]), torch.tensor([len(source)]), tokens)
    logits: np.ndarray = network.unembed(hidden)[0].numpy()
    return logits


def _log_probs(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    found: np.ndarray = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return found
