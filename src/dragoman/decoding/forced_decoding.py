"""Forced decoding: log-probabilities of given outputs."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from dragoman.array_types import Float, Int, Lengths, SourceFeatures, SourceIds, TargetIds, Tokens
from dragoman.decoding.config import LengthPenalty
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.length_penalty import normalize_by_length
from dragoman.models.protocols import DecoderOnly, EncoderDecoder, M, S, source_arguments
from dragoman.models.special_symbols import BOS, EOS, PAD

POSITIONS_PER_CHUNK = 1024
"""Positions whose logits over the vocabulary are in memory at a time."""


@torch.inference_mode()
def score_targets(
    model: EncoderDecoder[M, S],
    source: SourceIds,
    source_lengths: Lengths,
    *,
    target: TargetIds,
    expected: TargetIds,
    source_features: SourceFeatures | None = None,
) -> Float[Tensor, "batch target"]:
    """Return the log-probability of each token of `expected`, all positions in parallel; zero at padding.

    `target` begins with the begin symbol, and `expected` holds the token after each of its positions.
    """
    hidden = model.hidden(source, source_lengths, target, **source_arguments(model, source_features))
    return _log_probs(model.unembed, hidden, expected)


@torch.inference_mode()
def score_tokens(model: DecoderOnly[M, S], tokens: Tokens, expected: Tokens) -> Float[Tensor, "batch positions"]:
    """Return the log-probability of each token of `expected` after the tokens before it; zero at padding."""
    return _log_probs(model.unembed, model.hidden(tokens), expected)


def score_outputs(
    model: EncoderDecoder[M, S],
    source: SourceIds,
    source_lengths: Lengths,
    *,
    outputs: Sequence[Sequence[int]],
    penalty: LengthPenalty,
    source_features: SourceFeatures | None = None,
) -> list[Hypothesis]:
    """Score one output per source, given without begin and end symbol, as a finished hypothesis."""
    target, _ = pad_batch([[BOS, *output] for output in outputs], device=source.device)
    expected, _ = pad_batch([[*output, EOS] for output in outputs], device=source.device)
    log_probs = score_targets(
        model, source, source_lengths, target=target, expected=expected, source_features=source_features
    )
    totals = log_probs.sum(dim=1).cpu().numpy()
    scores = normalize_by_length(totals, np.array([len(output) + 1 for output in outputs]), penalty)
    columns = zip(outputs, totals.tolist(), scores.tolist(), log_probs.tolist(), strict=True)
    return [
        Hypothesis(tuple(output), total, score, tuple(row[: len(output) + 1]), finished=True)
        for output, total, score, row in columns
    ]


def _log_probs(
    unembed: Callable[[Tensor], Tensor], hidden: Float[Tensor, "batch positions size"], expected: Tokens
) -> Float[Tensor, "batch positions"]:
    chunk = POSITIONS_PER_CHUNK
    real, found = expected != PAD, []
    for states, tokens in zip(hidden[real].split(chunk), expected[real].split(chunk), strict=True):
        logits = unembed(states)
        found.append(logits.gather(1, tokens[:, None])[:, 0].float() - logits.float().logsumexp(dim=1))
    return torch.zeros_like(expected, dtype=torch.float).masked_scatter(real, torch.cat(found))


def pad_batch(
    rows: Sequence[Sequence[int]], *, device: torch.device
) -> tuple[Int[Tensor, "batch places"], Int[Tensor, " batch"]]:
    """Return ids padded at the end, and their lengths."""
    ids = [torch.tensor(row, dtype=torch.long) for row in rows]
    padded = pad_sequence(ids, batch_first=True, padding_value=PAD)
    return padded.to(device), torch.tensor([len(row) for row in rows], device=device)
