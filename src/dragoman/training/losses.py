r"""Loss functions of all tasks: cross-entropies, summed over the predictions of a batch, and R-Drop.

Label smoothing $\epsilon$ spreads the target over all tokens or labels; of a question, over all positions of an answer.

With R-Drop (Liang et al., 2021, equations 2 to 4), two passes with different dropout shall predict the same. Every
token is predicted twice, with distributions $p$ and $q$, and costs
$\frac{1}{2}\left(L_p + L_q\right) + \frac{\alpha}{4}\left(KL(p \| q) + KL(q \| p)\right)$,
where $L$ is label-smoothed cross-entropy. This is half of the paper's sum, so that without dropout it equals the loss
of one pass for any $\alpha$. `r_drop_cross_entropy` is the equation; `r_drop_loss` computes it in chunks of logits.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, Literal, Protocol, assert_never, runtime_checkable

import torch
from pydantic import Field
from torch import Tensor, nn

from dragoman.array_types import Bool, Float, Int, Lengths, Tokens
from dragoman.config import Config
from dragoman.data.batching.packing import TextBatch
from dragoman.data.batching.token_budget_batches import Batch
from dragoman.data.datasets.labeled import LabeledBatch
from dragoman.data.datasets.qa import SpanBatch
from dragoman.data.datasets.tagged import TaggedBatch
from dragoman.models.task_heads import SpanLogits, answer_mask
from dragoman.training.chunked_loss import (
    LogitLoss,
    Logits,
    Loss,
    OutputProjection,
    chunked_loss,
    fused_linear_cross_entropy,
    label_smoothed_cross_entropy,
    label_smoothed_logit_loss,
)
from dragoman.training.distillation import DistillationConfig, distillation_loss
from dragoman.training.precision import Precision, output_matmul_dtype
from dragoman.training.step import B, LossFunction, TrainableSeq2Seq, target_states

_States = tuple[Float[Tensor, "tokens size"], Int[Tensor, " tokens"]]
"""Last hidden state and label of every predicted token."""


class CrossEntropyConfig(Config):
    """Cross-entropy of the next target token."""

    kind: Literal["cross_entropy"] = "cross_entropy"


class RDropConfig(Config):
    """R-Drop (Liang et al., 2021): penalize the divergence between two passes with different dropout."""

    kind: Literal["r_drop"] = "r_drop"
    weight: float = Field(default=5.0, gt=0.0, description="weight of the divergence, the paper's alpha")


LossConfig = Annotated[CrossEntropyConfig | RDropConfig | DistillationConfig, Field(discriminator="kind")]


@runtime_checkable
class TrainableDecoderOnly(Protocol):
    """Decoder-only model trained by `causal_lm_loss`."""

    unembedding: OutputProjection

    def hidden(self, tokens: Tokens, documents: Tokens | None = None) -> Float[Tensor, "batch places size"]: ...


@runtime_checkable
class TrainableEncoderOnly(Protocol):
    """Encoder-only model trained by `masked_lm_loss`."""

    unembedding: OutputProjection

    def hidden(self, tokens: Tokens, lengths: Lengths) -> Float[Tensor, "batch places size"]: ...

    def mlm_hidden(self, hidden: Float[Tensor, "*positions size"]) -> Float[Tensor, "*positions size"]: ...


def build_translation_loss(
    config: LossConfig, *, smoothing: float, precision: Precision, teachers: Sequence[TrainableSeq2Seq] = ()
) -> LossFunction[TrainableSeq2Seq, Batch]:
    """Build the loss of a batch of sentence pairs; distillation needs its `teachers`."""
    match config:
        case CrossEntropyConfig():
            return cross_entropy_loss(smoothing, precision=precision)
        case RDropConfig(weight=weight):
            return r_drop_loss(smoothing, weight=weight, precision=precision)
        case DistillationConfig(weight=weight, temperature=temperature, alternate_teachers=alternate):
            assert teachers, "distillation needs a teacher"
            return distillation_loss(
                smoothing,
                teachers,
                weight=weight,
                temperature=temperature,
                alternate_teachers=alternate,
                precision=precision,
            )
        case _:
            assert_never(config)


def cross_entropy_loss(smoothing: float, *, precision: Precision = "float32") -> LossFunction[TrainableSeq2Seq, Batch]:
    r"""Return $-\sum_t \log p(y_t | y_{<t}, x)$ under teacher forcing, from the BOS to the EOS symbol."""
    return _token_loss(target_states, smoothing, precision)


def r_drop_cross_entropy(
    logits: Float[Tensor, "2 tokens vocabulary"], labels: Int[Tensor, " tokens"], *, smoothing: float, weight: float
) -> Loss:
    """Compute the equation of R-Drop above from all logits of both passes."""
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
    r"""Compute the equation of R-Drop and its gradient.

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


def causal_lm_loss(
    smoothing: float = 0.0, *, precision: Precision = "float32"
) -> LossFunction[TrainableDecoderOnly, TextBatch]:
    r"""Return $-\sum_t \log p(x_{t+1} | x_{\le t})$ over the counted positions (Radford et al., 2018).

    The model gets document ids only where a row holds several documents; otherwise its causal mask suffices.
    """

    def states(model: TrainableDecoderOnly, batch: TextBatch) -> _States:
        hidden = model.hidden(batch.tokens, batch.document_ids if batch.has_multiple_documents else None)
        return hidden[batch.loss_mask], batch.labels[batch.loss_mask]

    return _token_loss(states, smoothing, precision)


def masked_lm_loss(
    smoothing: float = 0.0, *, precision: Precision = "float32"
) -> LossFunction[TrainableEncoderOnly, TextBatch]:
    """Predict the original token at every selected position (Devlin et al., 2019, section 3.1)."""

    def states(model: TrainableEncoderOnly, batch: TextBatch) -> _States:
        hidden = model.hidden(batch.tokens, batch.lengths)[batch.loss_mask]
        return model.mlm_hidden(hidden), batch.labels[batch.loss_mask]

    return _token_loss(states, smoothing, precision)


def classification_loss(smoothing: float) -> LossFunction[nn.Module, LabeledBatch | TaggedBatch]:
    """Predict one label per text, or the label of every word at its first token; the sum is over texts or words.

    Tokens with a negative label are not predicted.
    """

    def loss(model: nn.Module, batch: LabeledBatch | TaggedBatch) -> Loss:
        logits: Tensor = model(batch.tokens, batch.lengths)
        labeled = batch.labels >= 0
        return label_smoothed_cross_entropy(logits[labeled], batch.labels[labeled], smoothing=smoothing)

    return loss


def question_answering_loss(smoothing: float) -> LossFunction[nn.Module, SpanBatch]:
    r"""Return $-\frac{1}{2}(\log p_{start} + \log p_{end})$ of the answer (Devlin et al., 2019, section 4.2).

    The sum is over windows. In a window without the answer, start and end are position 0.
    """

    def loss(model: nn.Module, batch: SpanBatch) -> Loss:
        logits: SpanLogits = model(batch.tokens, batch.lengths, batch.segments)
        allowed = answer_mask(batch.lengths, batch.segments)
        start = masked_cross_entropy(logits.starts, batch.starts, allowed, smoothing=smoothing)
        end = masked_cross_entropy(logits.ends, batch.ends, allowed, smoothing=smoothing)
        return Loss((start.value + end.value) / 2, (start.negative_log_likelihood + end.negative_log_likelihood) / 2)

    return loss


def masked_cross_entropy(
    logits: Float[Tensor, "rows places"],
    labels: Int[Tensor, " rows"],
    allowed: Bool[Tensor, "rows places"],
    *,
    smoothing: float,
) -> Loss:
    """Label-smoothed cross-entropy over the allowed positions of each row, which include the label."""
    lowest = torch.finfo(torch.float32).min
    log_probs = logits.float().masked_fill(~allowed, lowest).log_softmax(dim=-1)
    nll = -log_probs.gather(1, labels[:, None]).sum()
    uniform = -(log_probs.masked_fill(~allowed, 0).sum(dim=-1) / allowed.sum(dim=-1)).sum()
    return Loss((1 - smoothing) * nll + smoothing * uniform, nll.detach())


def _token_loss(states: Callable[[Any, B], _States], smoothing: float, precision: Precision) -> LossFunction[Any, B]:
    """Return the loss of the output projection on the states and labels of a batch."""

    def loss(model: Any, batch: B) -> Loss:
        hidden, labels = states(model, batch)
        weight, bias = model.unembedding.weight, model.unembedding.bias
        dtype = output_matmul_dtype(precision, hidden.device)
        return fused_linear_cross_entropy(hidden, weight, bias, labels, smoothing=smoothing, matmul_dtype=dtype)

    return loss
