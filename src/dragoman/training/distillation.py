r"""Word-level distillation: the student predicts the teacher's distribution at every position (Hinton et al., 2015).

With the teacher's distribution $q$ and the student's $p$, both at temperature $T$, and the student's label-smoothed
cross-entropy $L$, a token costs $(1-\lambda)\,L + \lambda\,T^2\,KL(q \| p)$ (Kim and Rush, 2016, equation 3, minus the
entropy of $q$, so that a student equal to its teacher has no distillation loss). Several teachers either contribute the
mean of their distributions (Hinton et al., 2015, section 1), or alternate at random from step to step. At a temperature
of 1 the gradient is linear in $q$, so both have the same expected gradient.

`distillation_cross_entropy` is the equation; `distillation_loss` computes it in chunks of logits.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, Self

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor

from dragoman.array_types import Float, Int
from dragoman.config import Config
from dragoman.data.batching.token_budget_batches import Batch
from dragoman.models.ensemble import log_mean_probability
from dragoman.nn.cpu_training_ops import LOGIT_DTYPES, cpu_ops_for
from dragoman.training.chunked_loss import (
    LogitLoss,
    Logits,
    Loss,
    SoftTargets,
    chunked_loss,
    fused_linear_cross_entropy,
    label_smoothed_cross_entropy,
    label_smoothed_logit_loss,
)
from dragoman.training.precision import Precision, cast_rows, output_matmul_dtype
from dragoman.training.step import LossFunction, TrainableSeq2Seq, target_states

TeacherLogits = Float[Tensor, "tokens vocabulary"]


class DistillationConfig(Config):
    """Word-level distillation (Hinton et al., 2015): predict a teacher's distribution as well as the target text."""

    kind: Literal["distillation"] = "distillation"
    teacher: Path
    """Folder of a finished translation run, whose tokenizer this run uses."""

    extra_teachers: tuple[Path, ...] = ()
    """Further teachers with the same tokenizer; the student learns the mean of all distributions."""

    alternate_teachers: bool = Field(
        default=False, description="choose one of several teachers at random for each step"
    )
    weight: float = Field(
        default=0.5, gt=0.0, le=1.0, description="weight of the distillation loss; the rest is the target text's"
    )
    temperature: float = Field(default=1.0, gt=0.0, description="softmax temperature of both distributions")

    @model_validator(mode="after")
    def _check_teachers(self) -> Self:
        if self.alternate_teachers and not self.extra_teachers:
            raise ValueError(
                "alternate_teachers = true has no effect with one teacher; leave it out, or set extra_teachers"
            )
        return self

    @property
    def all_teachers(self) -> tuple[Path, ...]:
        return (self.teacher, *self.extra_teachers)


def distillation_cross_entropy(
    logits: Float[Tensor, "tokens vocabulary"],
    teacher: TeacherLogits,
    labels: Int[Tensor, " tokens"],
    *,
    smoothing: float,
    weight: float,
    temperature: float,
) -> Loss:
    """Compute the equation above from all logits of student and teacher."""
    hard = label_smoothed_cross_entropy(logits, labels, smoothing=smoothing)
    log_p = (logits.float() / temperature).log_softmax(dim=-1)
    log_q = (teacher.float() / temperature).log_softmax(dim=-1)
    divergence = (log_q.exp() * (log_q - log_p)).sum()
    value = (1 - weight) * hard.value + weight * temperature**2 * divergence
    return Loss(value, hard.negative_log_likelihood)


def distillation_loss(
    smoothing: float,
    teachers: Sequence[TrainableSeq2Seq],
    *,
    weight: float,
    temperature: float,
    alternate_teachers: bool = False,
    precision: Precision = "float32",
) -> LossFunction[TrainableSeq2Seq, Batch]:
    """Predict every target token, and the mean distribution of the teachers at its position.

    With `alternate_teachers`, PyTorch's generator draws one of them for each batch. The teachers are in evaluation
    mode, on the device of the student, and share its vocabulary.
    """

    def loss(model: TrainableSeq2Seq, batch: Batch) -> Loss:
        hidden, labels = target_states(model, batch)
        matmul_dtype = output_matmul_dtype(precision, hidden.device)
        used = [teachers[int(torch.randint(len(teachers), ()))]] if alternate_teachers else teachers
        predictions = [_teacher_logits(teacher, batch, matmul_dtype) for teacher in used]
        projection = model.unembedding
        if temperature == 1:
            soft_targets = SoftTargets(weight, partial(_mean_distribution, predictions))
            return fused_linear_cross_entropy(
                hidden,
                projection.weight,
                projection.bias,
                labels,
                smoothing=smoothing,
                soft_targets=soft_targets,
                matmul_dtype=matmul_dtype,
            )

        def chunk_loss(logits: Logits, chunk: slice) -> LogitLoss:
            teacher_logits = [logits_of(chunk).float() for logits_of in predictions]
            mean = teacher_logits[0] if len(teacher_logits) == 1 else log_mean_probability(teacher_logits)
            return distillation_logit_loss(
                logits, mean, labels[chunk], smoothing=smoothing, weight=weight, temperature=temperature
            )

        return chunked_loss(hidden[None], projection.weight, projection.bias, chunk_loss, matmul_dtype=matmul_dtype)

    return loss


def distillation_logit_loss(
    logits: Logits,
    teacher: TeacherLogits,
    labels: Int[Tensor, " tokens"],
    *,
    smoothing: float,
    weight: float,
    temperature: float,
) -> LogitLoss:
    r"""Compute the equation and its gradient, to which the divergence adds $\lambda T (p - q)$."""
    log_probs = logits.log_softmax(dim=-1)
    hard = label_smoothed_logit_loss(log_probs, log_probs.exp(), labels, smoothing=smoothing)
    log_p = log_probs if temperature == 1 else (logits / temperature).log_softmax(dim=-1)
    log_q = (teacher / temperature).log_softmax(dim=-1)
    divergence = F.kl_div(log_p[0], log_q, reduction="sum", log_target=True)
    gradient = hard.gradient.mul_(1 - weight)
    gradient += weight * temperature * (log_p.exp() - log_q.exp())
    value = (1 - weight) * hard.value + weight * temperature**2 * divergence
    return LogitLoss(value, hard.negative_log_likelihood, gradient)


@torch.no_grad()
def _teacher_logits(
    teacher: TrainableSeq2Seq, batch: Batch, matmul_dtype: torch.dtype
) -> Callable[[slice], TeacherLogits]:
    """Return a function from a range of target positions to the teacher's logits there, in `matmul_dtype`."""
    hidden, _ = target_states(teacher, batch)
    states, projection = hidden.to(matmul_dtype), teacher.unembedding
    weight = projection.weight.detach().to(matmul_dtype)
    bias = None if projection.bias is None else projection.bias.detach().to(matmul_dtype)

    def logits_of(chunk: slice) -> TeacherLogits:
        padded = cast_rows(states[chunk], matmul_dtype)  # the last chunk may have any number of rows
        return F.linear(padded, weight, bias)[: chunk.stop - chunk.start]

    return logits_of


def _mean_distribution(predictions: Sequence[Callable[[slice], TeacherLogits]], chunk: slice) -> TeacherLogits:
    """Average the probabilities of all teachers."""
    share, mean = 1 / len(predictions), None
    for logits_of in predictions:
        logits = logits_of(chunk)
        mean = torch.zeros(logits.shape, device=logits.device) if mean is None else mean
        cpu_ops = cpu_ops_for(mean) if logits.dtype in LOGIT_DTYPES else None
        if cpu_ops is not None:
            cpu_ops.accumulate_softmax(logits, share, mean)
        else:
            mean.add_(logits.float().softmax(dim=-1), alpha=share)
    assert mean is not None, "distillation needs a teacher"
    return mean
