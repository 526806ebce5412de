"""Forced decoding: log-probabilities of given outputs."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from dragoman.array_types import Float, Int, Lengths, SourceFeatures, SourceIds, TargetIds
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
    chunk: int = POSITIONS_PER_CHUNK,
) -> Float[Tensor, "batch target"]:
    """Return the log-probability of each token of `expected`, all positions in parallel; zero at padding.

    `target` begins with the begin symbol, and `expected` holds the token after each of its positions. Logits are
    computed for `chunk` positions at a time.
    """
    hidden = model.hidden(source, source_lengths, target, **source_arguments(model, source_features))
    return _log_probs(model.unembed, hidden, expected, chunk=chunk)


@torch.inference_mode()
def score_tokens(
    model: DecoderOnly[M, S],
    tokens: Int[Tensor, "batch places"],
    expected: Int[Tensor, "batch places"],
    *,
    chunk: int = POSITIONS_PER_CHUNK,
) -> Float[Tensor, "batch places"]:
    """Return the log-probability of each token of `expected` after the tokens before it; zero at padding."""
    return _log_probs(model.unembed, model.hidden(tokens), expected, chunk=chunk)


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
    target = _pad([[BOS, *output] for output in outputs], source.device)
    expected = _pad([[*output, EOS] for output in outputs], source.device)
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
    unembed: Callable[[Tensor], Tensor],
    hidden: Float[Tensor, "batch places size"],
    expected: Int[Tensor, "batch places"],
    *,
    chunk: int,
) -> Float[Tensor, "batch places"]:
    """Return the log-probabilities of the expected tokens, with logits for `chunk` positions at a time."""
    real = expected != PAD
    parts = zip(hidden[real].split(chunk), expected[real].split(chunk), strict=True)
    log_probs = torch.cat([_token_log_probs(unembed(states), tokens) for states, tokens in parts])
    return torch.zeros_like(expected, dtype=torch.float).masked_scatter(real, log_probs)


def _token_log_probs(
    logits: Float[Tensor, "places vocabulary"], tokens: Int[Tensor, " places"]
) -> Float[Tensor, " places"]:
    chosen = logits.gather(1, tokens[:, None])[:, 0].float()
    return chosen - logits.float().logsumexp(dim=1)


def _pad(rows: list[list[int]], device: torch.device) -> Int[Tensor, "batch target"]:
    padded = pad_sequence([torch.tensor(row, dtype=torch.long) for row in rows], batch_first=True, padding_value=PAD)
    return padded.to(device)
