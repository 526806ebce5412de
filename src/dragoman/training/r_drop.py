r"""R-Drop (Liang et al., 2021, equations 2 to 4): two passes that drop other units are to say the same.

Every token is read twice, with distributions $p$ and $q$, and costs
$\frac{1}{2}\left(L_p + L_q\right) + \frac{\alpha}{4}\left(KL(p \| q) + KL(q \| p)\right)$,
where $L$ is cross-entropy with label smoothing. This is half of the paper's sum, so that without dropout it is the loss
of one pass, whatever $\alpha$ is.

`consistent_cross_entropy` is the equation, and `r_drop` the objective, which holds the logits of both passes a chunk at
a time.
"""

from functools import partial
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from dragoman.config import Config
from dragoman.data.batching.token_batches import Batch
from dragoman.training.chunked_loss import LogitLoss, Logits, chunked_loss, smoothed_gradient
from dragoman.training.losses import Loss, smoothed_cross_entropy
from dragoman.training.precision import PrecisionName, large_products
from dragoman.training.step import Learner, Objective, predicting
from dragoman.typing import Float, Int


class RDrop(Config):
    """Two passes over every example that drop other units are to say the same (R-Drop, Liang et al., 2021)."""

    kind: Literal["r_drop"] = "r_drop"
    weight: float = Field(5.0, gt=0.0, description="of the divergence between both passes, the paper's alpha")


def consistent_cross_entropy(
    logits: Float[Tensor, "2 tokens vocabulary"], expected: Int[Tensor, " tokens"], *, smoothing: float, weight: float
) -> Loss:
    """The equation above, holding all logits of both passes."""
    one, other = (smoothed_cross_entropy(each, expected, smoothing=smoothing) for each in logits)
    log_p, log_q = logits.float().log_softmax(dim=-1)
    divergence = ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum()  # both directions in one
    return Loss(
        (one.objective + other.objective) / 2 + weight / 4 * divergence,
        (one.negative_log_likelihood + other.negative_log_likelihood) / 2,
    )


def r_drop(smoothing: float, *, weight: float, precision: PrecisionName = "float32") -> Objective[Learner, Batch]:
    """Every target position predicts the next symbol twice, each time under its own dropout."""

    def objective(model: Learner, batch: Batch) -> Loss:
        one, expected = predicting(model, batch)
        other, _ = predicting(model, batch)
        projection = model.unembedding
        return chunked_loss(
            torch.stack([one, other]),
            projection.weight,
            projection.bias,
            partial(consistency_of_logits, expected=expected, smoothing=smoothing, weight=weight),
            products=large_products(precision, one.device),
        )

    return objective


def consistency_of_logits(
    logits: Logits, chunk: slice, *, expected: Int[Tensor, " tokens"], smoothing: float, weight: float
) -> LogitLoss:
    r"""The equation with its gradient, of which $p\,(d - KL(p \| q)) + p - q$ with $d = \log p - \log q$ is new."""
    words = expected[chunk]
    log_probs = logits.log_softmax(dim=-1)
    probabilities = log_probs.exp()
    chosen = log_probs.gather(2, words[None, :, None].expand(2, -1, 1))
    nll = -chosen.sum() / 2
    smoothed = (1 - smoothing) * nll - smoothing * log_probs.mean(dim=-1).sum() / 2
    apart = probabilities[0] - probabilities[1]
    difference = log_probs[0] - log_probs[1]
    signed = torch.stack([difference, -difference])
    divergence = (probabilities * signed).sum(dim=-1, keepdim=True)
    gradient = smoothed_gradient(probabilities, words, smoothing=smoothing).div_(2)
    gradient += weight / 4 * (probabilities * (signed - divergence) + torch.stack([apart, -apart]))
    return LogitLoss(smoothed + weight / 4 * divergence.sum(), nll, gradient)
