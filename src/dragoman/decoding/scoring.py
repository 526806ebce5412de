"""Forced decoding: how probable given outputs are."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from dragoman.decoding.config import Normalisation
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.length_penalty import normalised
from dragoman.models.protocols import Causal, M, S, Seq2Seq, Stepper
from dragoman.models.special_symbols import Symbols
from dragoman.shapes import Lengths, SourceIds, TargetIds
from dragoman.typing import Float, Int

POSITIONS = 1024
"""How many positions' logits over the vocabulary are held at a time."""


@torch.inference_mode()
def score_targets(
    model: Seq2Seq[M, S],
    source: SourceIds,
    source_lengths: Lengths,
    *,
    target: TargetIds,
    expected: TargetIds,
    symbols: Symbols,
    positions: int = POSITIONS,
) -> Float[Tensor, "batch target"]:
    """The log-probability of each symbol of `expected`, all positions in parallel; zero where it is padding.

    `target` begins with the begin symbol and `expected` is what follows each of its positions. Logits are built for
    `positions` positions at a time.
    """
    hidden = model.hidden(source, source_lengths, target)
    return _log_probs(model.unembed, hidden, expected, pad=symbols.pad, positions=positions)


@torch.inference_mode()
def score_tokens(
    model: Causal[M, S],
    tokens: Int[Tensor, "batch places"],
    expected: Int[Tensor, "batch places"],
    *,
    symbols: Symbols,
    positions: int = POSITIONS,
) -> Float[Tensor, "batch places"]:
    """The log-probability of each symbol of `expected` after the tokens up to its place; zero where it is padding."""
    return _log_probs(model.unembed, model.hidden(tokens), expected, pad=symbols.pad, positions=positions)


@torch.inference_mode()
def score_by_steps(
    model: Stepper[M, S], memory: M, *, target: TargetIds, expected: TargetIds, symbols: Symbols
) -> Float[Tensor, "batch target"]:
    """What `score_targets` returns, one position after the other: the slow twin, for networks that only step."""
    state = model.start(memory, beam=1)
    columns = []
    for place in range(target.shape[1]):
        logits, state = model.step(target[:, place, None], memory, state)
        columns.append(_picked(logits[:, 0], expected[:, place]))
    return torch.stack(columns, dim=1).masked_fill(expected == symbols.pad, 0.0)


def score_hypotheses(
    model: Seq2Seq[M, S],
    source: SourceIds,
    source_lengths: Lengths,
    *,
    outputs: Sequence[Sequence[int]],
    normalisation: Normalisation,
    symbols: Symbols,
) -> list[Hypothesis]:
    """Given outputs, one for each source and without begin and end symbols, as if a search had finished them."""
    target = _rectangle([[symbols.begin, *output] for output in outputs], symbols, source.device)
    expected = _rectangle([[*output, symbols.end] for output in outputs], symbols, source.device)
    log_probs = score_targets(model, source, source_lengths, target=target, expected=expected, symbols=symbols)
    totals = log_probs.sum(dim=1).cpu().numpy()
    scores = normalised(totals, np.array([len(output) + 1 for output in outputs]), normalisation)
    columns = zip(outputs, totals.tolist(), scores.tolist(), log_probs.tolist(), strict=True)
    return [
        Hypothesis(tuple(output), total, score, tuple(row[: len(output) + 1]), finished=True)
        for output, total, score, row in columns
    ]


def _log_probs(
    unembed: Callable[[Tensor], Tensor],
    hidden: Float[Tensor, "batch places size"],
    expected: Int[Tensor, "batch places"],
    *,
    pad: int,
    positions: int,
) -> Float[Tensor, "batch places"]:
    """The log-probabilities of what is expected, with logits for `positions` places at a time; zero for padding."""
    real = expected != pad
    parts = zip(hidden[real].split(positions), expected[real].split(positions), strict=True)
    log_probs = torch.cat([_picked(unembed(states), symbols) for states, symbols in parts])
    return torch.zeros_like(expected, dtype=torch.float).masked_scatter(real, log_probs)


def _picked(logits: Float[Tensor, "places vocabulary"], symbols: Int[Tensor, " places"]) -> Float[Tensor, " places"]:
    wanted = logits.gather(1, symbols[:, None])[:, 0].float()
    return wanted - logits.float().logsumexp(dim=1)


def _rectangle(rows: list[list[int]], symbols: Symbols, device: torch.device) -> Int[Tensor, "batch target"]:
    padded = pad_sequence(
        [torch.tensor(row, dtype=torch.long) for row in rows], batch_first=True, padding_value=symbols.pad
    )
    return padded.to(device)
