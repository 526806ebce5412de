r"""R-Drop (Liang et al., 2021, equations 2 to 4): two passes with different dropout shall predict the same.

Every token is predicted twice, with distributions $p$ and $q$, and costs
$\frac{1}{2}\left(L_p + L_q\right) + \frac{\alpha}{4}\left(KL(p \| q) + KL(q \| p)\right)$,
where $L$ is label-smoothed cross-entropy. This is half of the paper's sum, so that without dropout it equals the loss
of one pass, whatever $\alpha$ is.

`r_drop_cross_entropy` is the equation; `r_drop_loss` computes it in chunks of logits.
"""

from functools import partial
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from dragoman.array_types import Float, Int
from dragoman.config import Config
from dragoman.data.batching.token_budget_batches import Batch
from dragoman.training.chunked_loss import (
    LogitLoss,
    Logits,
    Loss,
    chunked_loss,
    label_smoothed_cross_entropy,
    label_smoothed_logit_loss,
)
from dragoman.training.precision import Precision, output_matmul_dtype
from dragoman.training.step import LossFunction, TrainableSeq2Seq, target_states


class RDropConfig(Config):
    """R-Drop (Liang et al., 2021): penalize the divergence between two passes with different dropout."""

    kind: Literal["r_drop"] = "r_drop"
    weight: float = Field(5.0, gt=0.0, description="weight of the divergence, the paper's alpha")


def r_drop_cross_entropy(
    logits: Float[Tensor, "2 tokens vocabulary"], labels: Int[Tensor, " tokens"], *, smoothing: float, weight: float
) -> Loss:
    """Compute the equation above from all logits of both passes."""
    first, second = (label_smoothed_cross_entropy(each, labels, smoothing=smoothing) for each in logits)
    log_p, log_q = logits.float().log_softmax(dim=-1)
    divergence = ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum()  # both directions in one
    return Loss(
        (first.value + second.value) / 2 + weight / 4 * divergence,
        (first.negative_log_likelihood + second.negative_log_likelihood) / 2,
    )


def r_drop_loss(
    smoothing: float, *, weight: float, precision: Precision = "float32"
) -> LossFunction[TrainableSeq2Seq, Batch]:
    """Predict every target token in two passes, each with its own dropout masks."""

    def loss(model: TrainableSeq2Seq, batch: Batch) -> Loss:
        first, labels = target_states(model, batch)
        second, _ = target_states(model, batch)
        projection = model.unembedding
        return chunked_loss(
            torch.stack([first, second]),
            projection.weight,
            projection.bias,
            partial(r_drop_logit_loss, labels=labels, smoothing=smoothing, weight=weight),
            matmul_dtype=output_matmul_dtype(precision, first.device),
        )

    return loss


def r_drop_logit_loss(
    logits: Logits, chunk: slice, *, labels: Int[Tensor, " tokens"], smoothing: float, weight: float
) -> LogitLoss:
    r"""Compute the equation and its gradient.

    To the gradient of cross-entropy it adds $p\,(d - KL(p \| q)) + p - q$ with $d = \log p - \log q$.
    """
    log_probs = logits.log_softmax(dim=-1)
    probabilities = log_probs.exp()
    both = label_smoothed_logit_loss(log_probs, probabilities, labels[chunk], smoothing=smoothing)
    difference = probabilities[0] - probabilities[1]
    log_ratio = log_probs[0] - log_probs[1]
    log_ratios = torch.stack([log_ratio, -log_ratio])
    divergence = (probabilities * log_ratios).sum(dim=-1, keepdim=True)
    gradient = both.gradient.div_(2)
    gradient += weight / 4 * (probabilities * (log_ratios - divergence) + torch.stack([difference, -difference]))
    return LogitLoss(both.value / 2 + weight / 4 * divergence.sum(), both.negative_log_likelihood / 2, gradient)
