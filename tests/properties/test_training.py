"""Properties of losses, gradients, schedules and updates, for any sizes."""

import math
from unittest.mock import patch

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from dragoman.data.batching.token_budget_batches import Batch
from dragoman.models.config import DropoutConfig, EncoderDecoderConfig
from dragoman.models.encoder_decoder import EncoderDecoderTransformer
from dragoman.training.checkpoint import average_weights, update_ema
from dragoman.training.chunked_loss import fused_linear_cross_entropy, label_smoothed_cross_entropy
from dragoman.training.losses import cross_entropy_loss
from dragoman.training.optimizers import AdamConfig, AdamWConfig, build_optimizer, set_learning_rate
from dragoman.training.schedules import (
    ConstantSchedule,
    CosineSchedule,
    InverseSqrtSchedule,
    LinearSchedule,
    ScheduleConfig,
    WarmupStableDecaySchedule,
    learning_rate_factor,
)
from dragoman.training.step import compute_gradients
from tests.fake_models import SYMBOLS
from tests.property_settings import examples
from tests.random_models import NO_DROPOUT, random_transformer
from tests.tiny_training import batch_of

seeds = st.integers(0, 2**32)
smoothings = st.sampled_from([0.0, 0.1, 0.37])


# Losses


@examples(50)
@given(st.sampled_from([1, 3, 11]), st.sampled_from([2, 7, 101]), smoothings, seeds)
def test_smoothed_cross_entropy_equals_pytorch(tokens: int, vocabulary: int, smoothing: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(tokens, vocabulary, generator=generator)
    expected = torch.randint(vocabulary, (tokens,), generator=generator)
    loss = label_smoothed_cross_entropy(logits, expected, smoothing=smoothing)
    theirs = F.cross_entropy(logits, expected, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(loss.value, theirs, atol=1e-5, rtol=1e-5)
    plain = F.cross_entropy(logits, expected, reduction="sum")
    torch.testing.assert_close(loss.negative_log_likelihood, plain, atol=1e-5, rtol=1e-5)


Problem = tuple[Tensor, Tensor, Tensor | None, Tensor]


@st.composite
def projections(draw: st.DrawFn) -> Problem:
    """Draw hidden states, weight, optional bias, and targets; logits have about unit variance."""
    tokens, size = draw(st.sampled_from([1, 2, 13, 31])), draw(st.sampled_from([3, 7]))
    vocabulary, bias = draw(st.sampled_from([5, 101])), draw(st.booleans())
    generator = torch.Generator().manual_seed(draw(seeds))
    return (
        torch.randn(tokens, size, generator=generator),
        torch.randn(vocabulary, size, generator=generator) / math.sqrt(size),
        torch.randn(vocabulary, generator=generator) if bias else None,
        torch.randint(vocabulary, (tokens,), generator=generator),
    )


def leaves(problem: Problem) -> list[Tensor]:
    return [tensor.clone().requires_grad_() for tensor in problem[:3] if tensor is not None]


def directly(problem: Problem, smoothing: float) -> tuple[list[Tensor], list[Tensor]]:
    """Return loss, negative log-likelihood and gradients of 3 times the loss by the equation and autograd."""
    own = leaves(problem)
    loss = label_smoothed_cross_entropy(F.linear(*own), problem[3], smoothing=smoothing)
    gradients = torch.autograd.grad(3 * loss.value, own)
    return [loss.value.detach(), loss.negative_log_likelihood], list(gradients)


def in_chunks(
    problem: Problem, smoothing: float, *, chunk_rows: int, products: torch.dtype = torch.float32
) -> tuple[list[Tensor], list[Tensor]]:
    """Return the same by the chunked loss with the given number of rows at a time."""
    own = leaves(problem)
    hidden, weight, bias = own[0], own[1], own[2] if len(own) == 3 else None
    with patch("dragoman.training.chunked_loss.CHUNK_BYTES", 4 * len(weight) * chunk_rows):
        loss = fused_linear_cross_entropy(hidden, weight, bias, problem[3], smoothing=smoothing, matmul_dtype=products)
    gradients = torch.autograd.grad(3 * loss.value, own)
    return [loss.value.detach(), loss.negative_log_likelihood], list(gradients)


@examples(50)
@given(projections(), smoothings, st.sampled_from([0, 1, 2, 5, 1000]))
def test_chunked_loss_equals_the_equation(problem: Problem, smoothing: float, chunk_rows: int) -> None:
    """Both values and all three gradients."""
    expected, expected_gradients = directly(problem, smoothing)
    found, gradients = in_chunks(problem, smoothing, chunk_rows=chunk_rows)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-5)
    torch.testing.assert_close(gradients, expected_gradients, atol=1e-4, rtol=1e-4)


@examples(20)
@given(projections(), smoothings)
def test_frozen_projection_leaves_the_gradient_of_the_states(problem: Problem, smoothing: float) -> None:
    """A frozen weight and bias get no gradient, as with LoRA."""
    _, (expected, *_) = directly(problem, smoothing)
    hidden, *_ = leaves(problem)
    loss = fused_linear_cross_entropy(hidden, *problem[1:], smoothing=smoothing)
    assert loss.value.grad_fn is not None
    assert loss.value.grad_fn.saved_tensors[1:] == (None, None)  # type: ignore[attr-defined]
    found = torch.autograd.grad(3 * loss.value, [hidden])
    torch.testing.assert_close(found[0], expected, atol=1e-4, rtol=1e-4)


@examples(50)
@given(projections(), smoothings, st.sampled_from([1, 5, 1000]))
def test_bfloat16_products_stay_close(problem: Problem, smoothing: float, chunk_rows: int) -> None:
    r"""With 8 significant bits both factors, the bias and the logit are rounded by at most $u = 2^{-9}$ of themselves.

    A logit then moves by at most about $e = 4 u (|h| \cdot |w| + |b|)$, and a token's loss by at most $2 e$. The bound
    of 3 % on the norm of gradients is measured, not derived.
    """
    hidden, weight, bias, _ = problem
    largest = (hidden.abs() @ weight.abs().t() + (0 if bias is None else bias.abs())).max()
    bound = float(2 * 4 * 2**-9 * largest * len(hidden))
    expected, expected_gradients = directly(problem, smoothing)
    found, gradients = in_chunks(problem, smoothing, chunk_rows=chunk_rows, products=torch.bfloat16)
    torch.testing.assert_close(found, expected, atol=bound, rtol=0)
    for gradient, wanted in zip(gradients, expected_gradients, strict=True):
        assert gradient.dtype == torch.float32
        assert float((gradient - wanted).norm()) <= 0.03 * float(wanted.norm()) + 1e-3


def test_chunked_loss_is_the_same_without_gradients() -> None:
    problem = (torch.randn(13, 7), torch.randn(101, 7), None, torch.arange(13))
    with torch.inference_mode():
        loss = fused_linear_cross_entropy(*problem, smoothing=0.1)
        expected = label_smoothed_cross_entropy(problem[0] @ problem[1].t(), problem[3], smoothing=0.1)
    torch.testing.assert_close(loss.value, expected.value)
    torch.testing.assert_close(loss.negative_log_likelihood, expected.negative_log_likelihood)


# Gradients of an update

Pairs = list[tuple[list[int], list[int]]]
words = st.lists(st.integers(4, 12), max_size=7)
micro_batches = st.lists(st.lists(st.tuples(words, words), min_size=1, max_size=3), min_size=4, max_size=4)


def learner(dropout: DropoutConfig = NO_DROPOUT, seed: int = 0) -> EncoderDecoderTransformer:
    config = EncoderDecoderConfig(
        d_model=15, num_heads=3, d_ff=19, encoder_layers=1, decoder_layers=2, dropout=dropout, tie_embeddings="all"
    )
    return random_transformer(config, source_vocabulary=13, target_vocabulary=13, seed=seed).train()


def gradients(
    model: EncoderDecoderTransformer, batches: list[Batch], *, smoothing: float = 0.1, seeds: tuple[int, ...] = (1, 1)
) -> tuple[tuple[float, float, int], dict[str, Tensor]]:
    model.zero_grad(set_to_none=True)
    sums = compute_gradients(model, batches, cross_entropy_loss(smoothing), seeds=seeds, precision="float32")
    found = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert found.keys() == dict(model.named_parameters()).keys()
    return sums, found


@examples(50)
@given(micro_batches, smoothings, seeds)
def test_four_accumulated_batches_equal_one_batch(parts: list[Pairs], smoothing: float, seed: int) -> None:
    model = learner(seed=seed)
    whole = batch_of([pair for part in parts for pair in part])
    sums, together = gradients(model, [whole], smoothing=smoothing)
    sums_of_parts, one_by_one = gradients(model, [batch_of(part) for part in parts], smoothing=smoothing)
    assert sums_of_parts == pytest.approx(sums, rel=1e-5, abs=1e-4)
    torch.testing.assert_close(one_by_one, together, atol=1e-4, rtol=1e-4)


@examples(50)
@given(micro_batches, seeds)
def test_dropout_of_an_example_does_not_depend_on_the_batch(parts: list[Pairs], seed: int) -> None:
    model = learner(DropoutConfig(embedding=0.3, residual=0.3, feed_forward=0.1, attention=0.2), seed=seed)
    sums, together = gradients(model, [batch_of([pair for part in parts for pair in part])])
    firsts = np.cumsum([0, *map(len, parts)]).tolist()
    apart = [batch_of(part, first=first) for part, first in zip(parts, firsts, strict=False)]
    sums_of_parts, one_by_one = gradients(model, apart)
    assert sums_of_parts == pytest.approx(sums, rel=1e-5, abs=1e-4)
    torch.testing.assert_close(one_by_one, together, atol=1e-4, rtol=1e-4)


def test_repeated_examples_get_different_dropout() -> None:
    """In one batch and in two; the dropout does not reveal which occurrence it belongs to."""
    model = learner(DropoutConfig(embedding=0.3, residual=0.3, feed_forward=0.1, attention=0.2))
    pair = ([5, 7, 9], [11, 5, 7])
    one, two = batch_of([pair], first=3), batch_of([pair, pair])
    two.rows[:] = 3
    once, twice, apart = (gradients(model, batches)[0] for batches in ([one], [two], [one, one]))
    assert twice == pytest.approx(apart, rel=1e-6)
    assert abs(twice[0] - 2 * once[0]) > 0.01


@examples(50)
@given(st.lists(st.tuples(words, words), min_size=1, max_size=5), smoothings)
def test_gradients_are_the_mean_over_tokens(pairs: Pairs, smoothing: float) -> None:
    """By the equation on the logits of all real positions, without padding."""
    model, whole = learner(), batch_of(pairs)
    (objective, nll, tokens), found = gradients(model, [whole], smoothing=smoothing)
    assert tokens == sum(len(target) + 1 for _, target in pairs)
    model.zero_grad(set_to_none=True)
    logits = model(whole.source, whole.source_lengths, whole.target)
    rows = [logits[row, : len(target) + 1] for row, (_, target) in enumerate(pairs)]
    symbols = torch.tensor([symbol for _, target in pairs for symbol in [*target, SYMBOLS.eos]])
    mean = F.cross_entropy(torch.cat(rows), symbols, label_smoothing=smoothing)
    plain = F.cross_entropy(torch.cat(rows).detach(), symbols)
    mean.backward()
    assert objective / tokens == pytest.approx(float(mean.detach()), rel=1e-4, abs=1e-5)
    assert nll / tokens == pytest.approx(float(plain), rel=1e-4, abs=1e-5)
    expected = {name: parameter.grad for name, parameter in model.named_parameters()}
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_randomness_is_an_argument_of_a_step() -> None:
    """Equal seeds give bit-identical gradients, other seeds differ, and the ambient generator stays unchanged."""
    model = learner(DropoutConfig(embedding=0.3, residual=0.3, attention=0.3, feed_forward=0.3))
    batches = [batch_of([([5, 7], [11, 5, 7]), ([4], [4])], first=first) for first in (0, 2)]
    before = torch.random.get_rng_state()
    first, second = gradients(model, batches), gradients(model, batches)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert first[0] == second[0]
    torch.testing.assert_close(first[1], second[1], atol=0, rtol=0)
    assert gradients(model, batches, seeds=(1, 2))[0] != first[0]
    one = gradients(model, batches[:1])[0]
    assert first[0][0] != 2 * one[0]  # examples with the same words do not lose the same of them


# Schedules

floors = st.sampled_from([0.0, 0.01, 0.3])


@st.composite
def trainings(draw: st.DrawFn) -> tuple[ScheduleConfig, int]:
    """Draw a schedule, and a number of steps beyond its warm-up."""
    warmup = draw(st.integers(1, 300))
    floor = draw(floors)
    schedule = draw(
        st.sampled_from(
            [
                ConstantSchedule(warmup=warmup),
                InverseSqrtSchedule(warmup=warmup),
                CosineSchedule(warmup=warmup, min_lr_ratio=floor),
                LinearSchedule(warmup=warmup, min_lr_ratio=floor),
                WarmupStableDecaySchedule(warmup=warmup, min_lr_ratio=floor, decay_ratio=draw(st.floats(0.01, 1.0))),
            ]
        )
    )
    return schedule, warmup + draw(st.integers(1, 300))


def end_of(schedule: ScheduleConfig, total: int) -> float:
    match schedule:
        case ConstantSchedule():
            return 1.0
        case InverseSqrtSchedule(warmup=warmup):
            return math.sqrt(warmup / total)
        case (
            CosineSchedule(min_lr_ratio=floor)
            | LinearSchedule(min_lr_ratio=floor)
            | WarmupStableDecaySchedule(min_lr_ratio=floor)
        ):
            return floor


@examples(50)
@given(trainings())
def test_schedules_rise_to_one_and_decay_to_their_end(training: tuple[ScheduleConfig, int]) -> None:
    schedule, total = training
    course = [learning_rate_factor(schedule, update, total_steps=total) for update in range(1, total + 1)]
    warmup = schedule.warmup
    assert course[: warmup - 1] == [update / warmup for update in range(1, warmup)]
    assert course[warmup - 1] == 1.0
    assert all(0.0 <= value <= 1.0 for value in course)
    assert all(later <= sooner for sooner, later in zip(course[warmup - 1 :], course[warmup:], strict=False))
    assert course[-1] == pytest.approx(end_of(schedule, total), abs=1e-12)


@examples(50)
@given(trainings(), st.integers(1, 1000))
def test_only_inverse_square_root_decays_after_the_end(training: tuple[ScheduleConfig, int], beyond: int) -> None:
    schedule, total = training
    after = learning_rate_factor(schedule, total + beyond, total_steps=total)
    if isinstance(schedule, InverseSqrtSchedule):
        assert after == pytest.approx(math.sqrt(schedule.warmup / (total + beyond)))
    else:
        assert after == learning_rate_factor(schedule, total, total_steps=total)


@given(st.integers(1, 4000), st.integers(1, 100_000), st.integers(1, 100_000))
def test_inverse_square_root_equals_the_paper(warmup: int, update: int, total: int) -> None:
    """Vaswani et al. (2017), equation 3, over its value at the peak."""
    paper = min(update**-0.5, update * warmup**-1.5) / warmup**-0.5
    assert learning_rate_factor(InverseSqrtSchedule(warmup=warmup), update, total_steps=total) == pytest.approx(paper)


@pytest.mark.parametrize(
    ("schedule", "course"),
    [
        (ConstantSchedule(warmup=2), [0.5, 1, 1, 1, 1, 1]),
        (ConstantSchedule(), [1, 1, 1, 1, 1, 1]),
        (LinearSchedule(warmup=2), [0.5, 1, 0.75, 0.5, 0.25, 0]),
        (LinearSchedule(warmup=2, min_lr_ratio=0.2), [0.5, 1, 0.8, 0.6, 0.4, 0.2]),
        (CosineSchedule(warmup=2), [0.5, 1, (1 + math.sqrt(0.5)) / 2, 0.5, (1 - math.sqrt(0.5)) / 2, 0]),
        (WarmupStableDecaySchedule(warmup=1, decay_ratio=0.5), [1, 1, 1, 2 / 3, 1 / 3, 0]),
        (WarmupStableDecaySchedule(warmup=1, decay_ratio=0.01, min_lr_ratio=0.1), [1, 1, 1, 1, 1, 0.1]),
    ],
)
def test_schedule_examples(schedule: ScheduleConfig, course: list[float]) -> None:
    assert [learning_rate_factor(schedule, update, total_steps=6) for update in range(1, 7)] == pytest.approx(
        course, abs=1e-12
    )


# Updates


def small() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return nn.Sequential(nn.Embedding(7, 5), nn.Linear(5, 3), nn.LayerNorm(3))


def decays(name: str) -> bool:
    """Return the parameters with weight decay: the linear map's matrix, but not embedding, biases and norm."""
    return name == "1.weight"


@examples(50)
@given(
    st.sampled_from(
        [AdamConfig(), AdamConfig(betas=(0.8, 0.9), epsilon=0.01), AdamWConfig(), AdamWConfig(weight_decay=0.3)]
    ),
    st.lists(st.sampled_from([1.0, 0.1, 0.003]), min_size=1, max_size=5),
    seeds,
)
def test_updates_equal_the_papers(config: AdamConfig | AdamWConfig, rates: list[float], seed: int) -> None:
    """Kingma and Ba (2015), algorithm 1; Loshchilov and Hutter (2019), algorithm 2; in double precision."""
    generator = torch.Generator().manual_seed(seed)
    model = small()
    optimizer = build_optimizer(config, model)
    wanted = {name: parameter.detach().double() for name, parameter in model.named_parameters()}
    first = {name: torch.zeros_like(tensor) for name, tensor in wanted.items()}
    second = {name: torch.zeros_like(tensor) for name, tensor in wanted.items()}
    for step, rate in enumerate(rates, start=1):
        set_learning_rate(optimizer, rate)
        for name, parameter in model.named_parameters():
            parameter.grad = torch.randn(parameter.shape, generator=generator)
            g, (beta, gamma) = parameter.grad.double(), config.betas
            first[name] = beta * first[name] + (1 - beta) * g
            second[name] = gamma * second[name] + (1 - gamma) * g**2
            if isinstance(config, AdamWConfig) and decays(name):
                wanted[name] = (1 - rate * config.weight_decay) * wanted[name]
            m, v = first[name] / (1 - beta**step), second[name] / (1 - gamma**step)
            wanted[name] = wanted[name] - rate * m / (v.sqrt() + config.epsilon)
        optimizer.step()
    found = {name: parameter.detach().double() for name, parameter in model.named_parameters()}
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("config", [AdamConfig(), AdamWConfig(weight_decay=0.0)])
def test_fused_update_equals_pytorch(config: AdamConfig | AdamWConfig) -> None:
    mine, theirs = small(), small()
    fused = build_optimizer(config, mine)
    plain = torch.optim.Adam(
        theirs.parameters(), lr=config.learning_rate, betas=config.betas, eps=config.epsilon, foreach=False, fused=False
    )
    generator = torch.Generator().manual_seed(1)
    for _ in range(7):
        for parameter, other in zip(mine.parameters(), theirs.parameters(), strict=True):
            parameter.grad = torch.randn(parameter.shape, generator=generator)
            other.grad = parameter.grad.clone()
        fused.step()
        plain.step()
    torch.testing.assert_close(list(mine.parameters()), list(theirs.parameters()), atol=1e-6, rtol=1e-6)


# Averages

Several = list[dict[str, Tensor]]


@st.composite
def several_weights(draw: st.DrawFn) -> Several:
    generator = torch.Generator().manual_seed(draw(seeds))
    shapes = {"a": (3, 5), "b": (7,), "c": ()}
    count = draw(st.sampled_from([1, 2, 3, 7]))
    return [{name: torch.randn(shape, generator=generator) for name, shape in shapes.items()} for _ in range(count)]


@examples(50)
@given(several_weights())
def test_checkpoint_average_is_the_mean(several: Several) -> None:
    mean = average_weights(several)
    assert mean.keys() == several[0].keys()
    for name, tensor in mean.items():
        expected = np.mean([weights[name].numpy().astype(np.float64) for weights in several], axis=0)
        assert tensor.dtype == torch.float32
        np.testing.assert_allclose(tensor.numpy(), expected, rtol=1e-7, atol=1e-9)


def test_average_of_equal_weights_is_exact() -> None:
    one = {"a": torch.tensor([0.1, 1e-8, 3e7])}
    assert torch.equal(average_weights([one] * 1009)["a"], one["a"])


@examples(50)
@given(several_weights(), st.sampled_from([0.5, 0.9, 0.999]))
def test_ema_decays_at_its_rate(several: Several, decay: float) -> None:
    r"""$a_n = d^n a_0 + (1-d) \sum_i d^{n-i} w_i$, and the given weights stay unchanged."""
    first = {name: torch.ones_like(tensor) for name, tensor in several[0].items()}
    average = first
    for weights in several:
        average = update_ema(average, weights, decay=decay)
    count = len(several)
    for name, tensor in average.items():
        later = sum((1 - decay) * decay ** (count - 1 - n) * each[name].double() for n, each in enumerate(several))
        torch.testing.assert_close(tensor.double(), decay**count + later, atol=1e-6, rtol=1e-6)
        assert torch.equal(first[name], torch.ones_like(tensor))
