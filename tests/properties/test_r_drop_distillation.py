"""R-Drop and word-level distillation in chunks equal PyTorch's functions, in values and gradients."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dragoman.data.batching.token_budget_batches import Batch
from dragoman.models.config import DropoutConfig, EncoderDecoderConfig
from dragoman.models.encoder_decoder import EncoderDecoderTransformer
from dragoman.training.chunked_loss import LogitLoss, Loss, SoftTargets, chunked_loss, fused_linear_cross_entropy
from dragoman.training.distillation import (
    DistillationConfig,
    distillation_cross_entropy,
    distillation_logit_loss,
    distillation_loss,
)
from dragoman.training.distributed import WorkerGroup
from dragoman.training.losses import (
    build_translation_loss,
    cross_entropy_loss,
    r_drop_cross_entropy,
    r_drop_logit_loss,
    r_drop_loss,
)
from dragoman.training.step import LossFunction, compute_gradients
from tests.property_settings import examples
from tests.random_models import NO_DROPOUT, random_transformer
from tests.tiny_training import batch_of

seeds = st.integers(0, 2**32)
smoothings = st.sampled_from([0.0, 0.1, 0.37])
weights = st.sampled_from([0.3, 1.0, 5.0])
shares = st.sampled_from([0.2, 0.5, 1.0])
temperatures = st.sampled_from([1.0, 0.7, 2.0])


@dataclass(frozen=True)
class Problem:
    """Hidden states of some passes, an embedding matrix, the targets, and a teacher's distributions."""

    hidden: Tensor
    weight: Tensor
    bias: Tensor | None
    expected: Tensor
    teacher: Tensor
    smoothing: float

    def leaves(self) -> list[Tensor]:
        known = [self.hidden, self.weight, *([] if self.bias is None else [self.bias])]
        return [tensor.clone().requires_grad_() for tensor in known]

    def in_chunks(
        self, loss: Callable[..., LogitLoss], rows: int, *, products: torch.dtype = torch.float32, **chosen: float
    ) -> tuple[Tensor, ...]:
        """Return three times the chunked loss, its likelihood, and all gradients."""
        own = self.leaves()
        with patch("dragoman.training.chunked_loss.CHUNK_BYTES", 4 * len(self.weight) * len(self.hidden) * rows):
            bias = own[2] if len(own) == 3 else None
            found = chunked_loss(own[0], own[1], bias, lambda z, at: loss(z, at, **chosen), matmul_dtype=products)
        return _with_gradients(found, own)

    def distilled(self, share: float, rows: int) -> tuple[Tensor, ...]:
        """Return the same for the first pass by the standard loss with the teacher's distribution as target."""
        own = self.leaves()
        told = SoftTargets(share, lambda chunk: self.teacher[chunk].softmax(dim=-1))
        with patch("dragoman.training.chunked_loss.CHUNK_BYTES", 4 * len(self.weight) * rows):
            bias = own[2] if len(own) == 3 else None
            chosen = {"smoothing": self.smoothing, "soft_targets": told}
            return _with_gradients(fused_linear_cross_entropy(own[0][0], own[1], bias, self.expected, **chosen), own)

    def at_once(self, loss: Callable[..., Loss], **chosen: float) -> tuple[Tensor, ...]:
        """Return the same from all logits by autograd."""
        own = self.leaves()
        return _with_gradients(loss(F.linear(*own), **chosen), own)


def _with_gradients(loss: Loss, leaves: list[Tensor]) -> tuple[Tensor, ...]:
    gradients = torch.autograd.grad(3 * loss.value, leaves)
    return (3 * loss.value.detach(), loss.negative_log_likelihood, *gradients)


@st.composite
def problems(draw: st.DrawFn, *, passes: int) -> Problem:
    tokens, size = draw(st.sampled_from([1, 2, 13, 31])), draw(st.sampled_from([3, 7]))
    vocabulary, bias = draw(st.sampled_from([5, 101])), draw(st.booleans())
    generator = torch.Generator().manual_seed(draw(seeds))
    return Problem(
        hidden=torch.randn(passes, tokens, size, generator=generator),
        weight=torch.randn(vocabulary, size, generator=generator) / math.sqrt(size),
        bias=torch.randn(vocabulary, generator=generator) if bias else None,
        expected=torch.randint(vocabulary, (tokens,), generator=generator),
        teacher=torch.randn(tokens, vocabulary, generator=generator),
        smoothing=draw(smoothings),
    )


def plain_r_drop(logits: Tensor, labels: Tensor, *, smoothing: float, weight: float) -> Loss:
    """Return half the sum of the paper from PyTorch's own losses."""
    options = {"label_smoothing": smoothing, "reduction": "sum"}
    one, other = (F.cross_entropy(each, labels, **options) for each in logits)
    p, q = logits.log_softmax(dim=-1)
    there = F.kl_div(q, p, log_target=True, reduction="sum")  # of p from q
    back = F.kl_div(p, q, log_target=True, reduction="sum")
    nll = sum(F.cross_entropy(each, labels, reduction="sum") for each in logits.detach()) / 2
    return Loss((one + other + weight / 2 * (there + back)) / 2, nll)


@examples(50)
@given(problems(passes=2), weights, st.sampled_from([0, 1, 5, 1000]))
def test_chunked_r_drop_equals_pytorch(problem: Problem, weight: float, rows: int) -> None:
    """Value, likelihood and all gradients, from all logits and from a few rows at a time."""
    known = {"labels": problem.expected, "smoothing": problem.smoothing, "weight": weight}
    expected = problem.at_once(plain_r_drop, **known)
    torch.testing.assert_close(problem.at_once(r_drop_cross_entropy, **known), expected, atol=1e-4, rtol=1e-4)
    found = problem.in_chunks(r_drop_logit_loss, rows, **known)
    torch.testing.assert_close(found, expected, atol=3e-4, rtol=1e-4)


@examples(50)
@given(problems(passes=2), st.sampled_from([1, 5, 31, 70, 128]))
def test_bfloat16_r_drop_is_close_for_any_chunk(problem: Problem, rows: int) -> None:
    """Chunks are filled up to whole multiples of rows, which exceed a chunk if the vocabulary is large."""
    known = {"labels": problem.expected, "smoothing": problem.smoothing, "weight": 1.0}
    expected = problem.in_chunks(r_drop_logit_loss, rows, **known)
    found = problem.in_chunks(r_drop_logit_loss, rows, products=torch.bfloat16, **known)
    for one, other in zip(found, expected, strict=True):
        assert float((one - other).norm()) <= 0.05 * float(other.norm()) + 0.05


def plain_distillation(
    logits: Tensor, teacher: Tensor, labels: Tensor, *, smoothing: float, weight: float, temperature: float
) -> Loss:
    own = F.cross_entropy(logits[0], labels, label_smoothing=smoothing, reduction="sum")
    p, q = (logits[0] / temperature).log_softmax(dim=-1), (teacher / temperature).softmax(dim=-1)
    divergence = F.kl_div(p, q, reduction="sum")
    nll = F.cross_entropy(logits[0].detach(), labels, reduction="sum")
    return Loss((1 - weight) * own + weight * temperature**2 * divergence, nll)


@examples(50)
@given(problems(passes=1), shares, temperatures, st.sampled_from([0, 1, 5, 1000]))
def test_chunked_distillation_equals_pytorch(problem: Problem, weight: float, temperature: float, rows: int) -> None:
    chosen = {"smoothing": problem.smoothing, "weight": weight, "temperature": temperature}
    known = {"teacher": problem.teacher, "labels": problem.expected, **chosen}
    expected = problem.at_once(plain_distillation, **known)

    def of_chunk(logits: Tensor, chunk: slice) -> LogitLoss:
        return distillation_logit_loss(logits, problem.teacher[chunk], problem.expected[chunk], **chosen)

    found = problem.in_chunks(of_chunk, rows)
    torch.testing.assert_close(found, expected, atol=3e-4, rtol=1e-4)
    if temperature == 1:
        torch.testing.assert_close(problem.distilled(weight, rows), expected, atol=3e-4, rtol=1e-4)
    equation = problem.at_once(lambda logits, **options: distillation_cross_entropy(logits[0], **options), **known)
    torch.testing.assert_close(equation, expected, atol=1e-4, rtol=1e-4)


# Objectives of whole networks

PAIRS = [([5, 7, 4], [11, 5, 7]), ([4], [4]), ([9, 9, 8, 6, 5], [12]), ([], [5, 6, 7, 8, 9])]


def learner(seed: int = 0, dropout: DropoutConfig = NO_DROPOUT, size: int = 8) -> EncoderDecoderTransformer:
    config = EncoderDecoderConfig(
        d_model=size, num_heads=2, encoder_layers=1, decoder_layers=1, d_ff=11, dropout=dropout, tie_embeddings="all"
    )
    return random_transformer(config, source_vocabulary=13, target_vocabulary=13, seed=seed).train()


def update(
    model: EncoderDecoderTransformer, objective: LossFunction, batches: list[Batch]
) -> tuple[tuple[float, float, int], dict[str, Tensor]]:
    """Return the sums of a training step, and its gradients by name."""
    model.zero_grad(set_to_none=True)
    sums = compute_gradients(model, batches, objective, seeds=(1, 1), precision="float32")
    return sums, {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


@examples(50)
@given(seeds, smoothings, weights)
def test_r_drop_without_dropout_is_the_plain_loss(seed: int, smoothing: float, weight: float) -> None:
    model, whole = learner(seed), [batch_of(PAIRS)]
    sums, gradients = update(model, r_drop_loss(smoothing, weight=weight), whole)
    once, expected = update(model, cross_entropy_loss(smoothing), whole)
    assert sums == pytest.approx(once, rel=1e-5)
    torch.testing.assert_close(gradients, expected, atol=1e-4, rtol=1e-4)


def test_both_passes_draw_from_the_step_seed() -> None:
    model = learner(dropout=DropoutConfig(embedding=0.3, residual=0.3))
    light, heavy = r_drop_loss(0.1, weight=0.5), r_drop_loss(0.1, weight=5.0)
    first, again, more = (update(model, objective, [batch_of(PAIRS)])[0] for objective in (light, light, heavy))
    assert first == again
    assert more[1:] == first[1:]
    assert more[0] > first[0]  # the passes disagree, and that costs


def test_r_drop_equals_one_worker_on_several() -> None:
    """A step shared by two or three workers has the loss and gradients of one worker."""
    model = learner(dropout=DropoutConfig(embedding=0.3, residual=0.3, attention=0.2))
    objective = r_drop_loss(0.1, weight=5.0)
    (loss, nll, count), together = update(model, objective, [batch_of(PAIRS)])
    indifferent, _ = update(model, r_drop_loss(0.1, weight=1e-9), [batch_of(PAIRS)])
    assert loss > indifferent[0] + 0.1 * count  # what the passes disagree in, and not rounding
    for size in (2, 3):
        parts = [WorkerGroup(rank, size).own_part(batch_of(PAIRS))[0] for rank in range(size)]
        found = [update(model, objective, [part]) for part in parts]
        assert sum(sums[0] for sums, _ in found) == pytest.approx(loss, rel=1e-5)
        assert sum(sums[1] for sums, _ in found) == pytest.approx(nll, rel=1e-5)
        for name, gradient in together.items():
            whole = sum(own[name] * (sums[2] / count) for sums, own in found)
            torch.testing.assert_close(whole, gradient, atol=1e-4, rtol=1e-4)


@examples(50)
@given(seeds, st.sampled_from(["r_drop", "distilled 2", "distilled 1"]))
def test_four_accumulated_batches_equal_one_batch(seed: int, kind: str) -> None:
    model, teacher = learner(seed), learner(seed + 1, size=6).eval()
    objective = r_drop_loss(0.1, weight=3.0)
    if kind != "r_drop":
        objective = distillation_loss(0.1, [teacher], weight=0.4, temperature=float(kind.split()[1]))
    sums, together = update(model, objective, [batch_of(PAIRS)])
    parts, one_by_one = update(model, objective, [batch_of([pair]) for pair in PAIRS])
    assert parts == pytest.approx(sums, rel=1e-5)
    torch.testing.assert_close(one_by_one, together, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("temperature", [1.0, 1.7])
def test_a_student_equal_to_its_teacher_has_zero_gradient(temperature: float) -> None:
    model = learner(3)
    (loss, nll, tokens), gradients = update(
        model, distillation_loss(0.1, [learner(3)], weight=1.0, temperature=temperature), [batch_of(PAIRS)]
    )
    assert loss / tokens == pytest.approx(0, abs=1e-5)
    assert nll > 1
    for gradient in gradients.values():
        torch.testing.assert_close(gradient, torch.zeros_like(gradient), atol=1e-5, rtol=0)


def test_teachers_get_no_gradient() -> None:
    teacher = learner(1)
    update(learner(0), distillation_loss(0.1, [teacher], weight=0.5, temperature=1.0), [batch_of(PAIRS)])
    assert all(parameter.grad is None for parameter in teacher.parameters())


@examples(50)
@given(seeds, shares, temperatures)
def test_several_teachers_average_their_distributions(seed: int, weight: float, temperature: float) -> None:
    model, batch = learner(seed), batch_of(PAIRS)
    teachers = [learner(seed + 1, size=6).eval(), learner(seed + 2).eval(), learner(seed + 3, size=4).eval()]
    objective = distillation_loss(0.1, teachers, weight=weight, temperature=temperature)
    found = update(model, objective, [batch])

    def whole(model: EncoderDecoderTransformer, batch: Batch) -> Loss:
        inputs = batch.source, batch.source_lengths, batch.target
        real = torch.arange(batch.target.shape[1]) < batch.target_lengths[:, None]
        with torch.no_grad():
            mean = sum(teacher(*inputs)[real].softmax(dim=-1) for teacher in teachers) / len(teachers)
        chosen = {"smoothing": 0.1, "weight": weight, "temperature": temperature}
        return plain_distillation(model(*inputs)[real][None], mean.log(), batch.labels[real], **chosen)

    torch.testing.assert_close(found, update(model, whole, [batch]), atol=1e-3, rtol=1e-4)


def test_alternating_teachers_teach_one_step_each() -> None:
    """The batches of a step have one teacher on all workers, drawn from the step's seed."""
    model, teachers = learner(1), [learner(2, size=6).eval(), learner(3).eval(), learner(4, size=4).eval()]
    chosen = {"weight": 0.7, "temperature": 1.0}
    alone = [update(model, distillation_loss(0.1, [one], **chosen), [batch_of(PAIRS)])[0][0] for one in teachers]
    config = DistillationConfig(
        teacher=Path("a"), extra_teachers=(Path("b"), Path("c")), alternate_teachers=True, **chosen
    )
    objective = build_translation_loss(config, smoothing=0.1, precision="float32", teachers=teachers)
    asked = set()
    for number in range(30):
        model.zero_grad(set_to_none=True)
        loss, *_ = compute_gradients(model, [batch_of(PAIRS)], objective, seeds=(1, number), precision="float32")
        parts, *_ = compute_gradients(
            model, [batch_of([pair]) for pair in PAIRS], objective, seeds=(1, number), precision="float32"
        )
        assert parts == pytest.approx(loss, rel=1e-5)
        nearest = min(range(3), key=lambda teacher: abs(alone[teacher] - loss))
        assert loss == pytest.approx(alone[nearest], rel=1e-5)
        asked.add(nearest)
    assert asked == {0, 1, 2}
