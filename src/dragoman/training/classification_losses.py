r"""Objectives of classification, token classification and extractive question answering: cross-entropies, summed.

The network is a `models.headed.Headed`. With label smoothing $\epsilon$ the target is spread over all labels, of an
answer over all places where it may stand.
"""

import torch
from torch import Tensor, nn

from dragoman.data.datasets.labeled import LabelBatch
from dragoman.data.datasets.qa import SpanBatch
from dragoman.data.datasets.tagged import TagBatch
from dragoman.models.task_heads import SpanLogits, answer_places
from dragoman.training.losses import Loss, smoothed_cross_entropy
from dragoman.training.step import Objective
from dragoman.typing import Bool, Float, Int


def sequence_labels(smoothing: float) -> Objective[nn.Module, LabelBatch]:
    """Every text has one label; the sum is over texts."""

    def objective(model: nn.Module, batch: LabelBatch) -> Loss:
        logits: Tensor = model(batch.tokens, batch.lengths)
        return smoothed_cross_entropy(logits, batch.labels, smoothing=smoothing)

    return objective


def token_labels(smoothing: float) -> Objective[nn.Module, TagBatch]:
    """Every word has a label, which its first token is to tell; the sum is over words."""

    def objective(model: nn.Module, batch: TagBatch) -> Loss:
        logits: Tensor = model(batch.tokens, batch.lengths)
        counted = batch.labels >= 0
        return smoothed_cross_entropy(logits[counted], batch.labels[counted], smoothing=smoothing)

    return objective


def spans(smoothing: float) -> Objective[nn.Module, SpanBatch]:
    r"""$-\frac{1}{2}(\log p_{begin} + \log p_{end})$ of the answer (Devlin et al., 2019, section 4.2).

    The sum is over windows; where a window does not hold the answer, begin and end are to be at place 0.
    """

    def objective(model: nn.Module, batch: SpanBatch) -> Loss:
        logits: SpanLogits = model(batch.tokens, batch.lengths, batch.segments)
        allowed = answer_places(batch.lengths, batch.segments)
        begin = masked_cross_entropy(logits.starts, batch.starts, allowed, smoothing=smoothing)
        end = masked_cross_entropy(logits.ends, batch.ends, allowed, smoothing=smoothing)
        return Loss(
            (begin.objective + end.objective) / 2, (begin.negative_log_likelihood + end.negative_log_likelihood) / 2
        )

    return objective


def masked_cross_entropy(
    logits: Float[Tensor, "rows places"],
    expected: Int[Tensor, " rows"],
    allowed: Bool[Tensor, "rows places"],
    *,
    smoothing: float,
) -> Loss:
    """Smoothed cross-entropy among the allowed places of each row, of which the expected is one."""
    lowest = torch.finfo(torch.float32).min
    log_probs = logits.float().masked_fill(~allowed, lowest).log_softmax(dim=-1)
    nll = -log_probs.gather(1, expected[:, None]).sum()
    uniform = -(log_probs.masked_fill(~allowed, 0).sum(dim=-1) / allowed.sum(dim=-1)).sum()
    return Loss((1 - smoothing) * nll + smoothing * uniform, nll.detach())
