r"""Word-level distillation: at every place a student is to predict what a teacher does (Hinton et al., 2015).

With the teacher's distribution $q$, the student's $p$, both at temperature $T$, and the student's own loss $L$ of the
target text (cross-entropy with label smoothing), a token costs $(1-\lambda)\,L + \lambda\,T^2\,KL(q \| p)$ (Kim and
Rush, 2016, equation 3, with the entropy of $q$ taken off, so that a student who is his teacher costs nothing by it).
Of several teachers, $q$ is the mean of their distributions (Hinton et al., 2015, section 1), or, where they take turns,
that of one for each update. At a temperature of 1 the gradient is then that of the mean in expectation: it is linear in
$q$.

`distilled_cross_entropy` is the equation, and `distilled` the objective, which holds the logits of both a chunk at a
time: those of the student by the road of every training where the temperature is 1, and by `chunks` otherwise.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, Self

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor

from dragoman.config import Config
from dragoman.data.batching.token_batches import Batch
from dragoman.models.ensemble import mean_probability
from dragoman.nn.cpu_ops import LOGITS, core_for
from dragoman.training.chunked_loss import LogitLoss, Logits, chunked_loss, smoothed_gradient
from dragoman.training.losses import Loss, Taught, smoothed_cross_entropy, unembedding_loss
from dragoman.training.precision import PrecisionName, large_products, rounded
from dragoman.training.step import Learner, Objective, predicting
from dragoman.typing import Float, Int

TeacherLogits = Float[Tensor, "tokens vocabulary"]


class WordDistillation(Config):
    """At every place, predict what a teacher predicts there (Hinton et al., 2015), beside what the target text has."""

    kind: Literal["word_distillation"] = "word_distillation"
    teacher: Path
    """A finished run of translation, whose tokenizer this run takes."""

    beside: tuple[Path, ...] = ()
    """Further teachers of the same tokenizer: what is learnt from is the mean of the distributions of all."""

    in_turns: bool = Field(False, description="of several teachers, one is asked for each update, by chance")
    weight: float = Field(0.5, gt=0.0, le=1.0, description="share of the teacher; the rest is the target text's")
    temperature: float = Field(1.0, gt=0.0, description="both distributions are flattened by it before they are met")

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        if self.in_turns and not self.beside:
            raise ValueError("in_turns = true has no effect with one teacher; leave it out, or name others by beside")
        return self

    @property
    def teachers(self) -> tuple[Path, ...]:
        """All of them."""
        return (self.teacher, *self.beside)


def distilled_cross_entropy(
    logits: Float[Tensor, "tokens vocabulary"],
    teacher: TeacherLogits,
    expected: Int[Tensor, " tokens"],
    *,
    smoothing: float,
    weight: float,
    temperature: float,
) -> Loss:
    """The equation above, holding all logits of student and teacher."""
    own = smoothed_cross_entropy(logits, expected, smoothing=smoothing)
    log_p = (logits.float() / temperature).log_softmax(dim=-1)
    log_q = (teacher.float() / temperature).log_softmax(dim=-1)
    divergence = (log_q.exp() * (log_q - log_p)).sum()
    objective = (1 - weight) * own.objective + weight * temperature**2 * divergence
    return Loss(objective, own.negative_log_likelihood)


def distilled(
    smoothing: float,
    teachers: Sequence[Learner],
    *,
    weight: float,
    temperature: float,
    in_turns: bool = False,
    precision: PrecisionName = "float32",
) -> Objective[Learner, Batch]:
    """Every target position predicts the next symbol, and the distribution that the teachers have there in the mean.

    With `in_turns` it is that of one of them, which PyTorch's generator draws.
    The teachers are in evaluation mode, on the device of the student, and share its vocabulary.
    """

    def objective(model: Learner, batch: Batch) -> Loss:
        hidden, expected = predicting(model, batch)
        products = large_products(precision, hidden.device)
        asked = [teachers[int(torch.randint(len(teachers), ()))]] if in_turns else teachers
        predicted = [_what_it_predicts(teacher, batch, products) for teacher in asked]
        below = model.unembedding
        if temperature == 1:
            taught = Taught(weight, partial(_mean_distribution, predicted))
            return unembedding_loss(
                hidden, below.weight, below.bias, expected, smoothing=smoothing, taught=taught, products=products
            )

        def loss(logits: Logits, chunk: slice) -> LogitLoss:
            theirs = [of_chunk(chunk).float() for of_chunk in predicted]
            return step(logits, theirs[0] if len(theirs) == 1 else mean_probability(theirs), expected[chunk])

        step = partial(distillation_of_logits, smoothing=smoothing, weight=weight, temperature=temperature)
        return chunked_loss(hidden[None], below.weight, below.bias, loss, products=products)

    return objective


def _mean_distribution(predicted: Sequence[Callable[[slice], TeacherLogits]], chunk: slice) -> TeacherLogits:
    """Of the probabilities of all teachers."""
    share, mean = 1 / len(predicted), None
    for of_chunk in predicted:
        logits = of_chunk(chunk)
        mean = torch.zeros(logits.shape, device=logits.device) if mean is None else mean
        core = core_for(mean) if logits.dtype in LOGITS else None
        if core is not None:
            core.add_probabilities(logits, share, mean)
        else:
            mean.add_(logits.float().softmax(dim=-1), alpha=share)
    assert mean is not None, "there is a teacher"
    return mean


@torch.no_grad()
def _what_it_predicts(teacher: Learner, batch: Batch, products: torch.dtype) -> Callable[[slice], TeacherLogits]:
    """A teacher's logits for a stretch of the target positions of a batch, in the format of products."""
    hidden, _ = predicting(teacher, batch)
    states, above = hidden.to(products), teacher.unembedding
    table = above.weight.detach().to(products)
    shift = None if above.bias is None else above.bias.detach().to(products)

    def of_chunk(chunk: slice) -> TeacherLogits:
        some = rounded(states[chunk], products)  # the last chunk may be of any number of rows
        return F.linear(some, table, shift)[: chunk.stop - chunk.start]

    return of_chunk


def distillation_of_logits(
    logits: Logits,
    teacher: TeacherLogits,
    expected: Int[Tensor, " tokens"],
    *,
    smoothing: float,
    weight: float,
    temperature: float,
) -> LogitLoss:
    r"""The equation with its gradient, of which $\lambda T (p - q)$ is new."""
    log_probs = logits.log_softmax(dim=-1)
    nll = -log_probs.gather(2, expected[None, :, None]).sum()
    smoothed = (1 - smoothing) * nll - smoothing * log_probs.mean(dim=-1).sum()
    gradient = (1 - weight) * smoothed_gradient(log_probs.exp(), expected, smoothing=smoothing)
    flat = log_probs if temperature == 1 else (logits / temperature).log_softmax(dim=-1)
    theirs = (teacher / temperature).log_softmax(dim=-1)
    divergence = F.kl_div(flat[0], theirs, reduction="sum", log_target=True)
    gradient += weight * temperature * (flat.exp() - theirs.exp())
    objective = (1 - weight) * smoothed + weight * temperature**2 * divergence
    return LogitLoss(objective, nll, gradient)
