"""Losses of task heads against their equations in double precision."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dragoman.data.datasets.labeled import LabeledBatch
from dragoman.data.datasets.qa import SpanBatch
from dragoman.data.datasets.tagged import TaggedBatch
from dragoman.models.task_heads import SpanLogits, answer_mask
from dragoman.training.losses import (
    classification_loss,
    masked_cross_entropy,
    question_answering_loss,
)
from dragoman.training.step import compute_gradients

TOKENS = torch.tensor([[2, 7, 5, 3, 0], [2, 11, 3, 0, 0], [2, 5, 7, 9, 3]])
LENGTHS = torch.tensor([4, 3, 5])
ROWS = np.arange(3)
SMOOTHINGS = pytest.mark.parametrize("smoothing", [0.0, 0.3])


class Table(nn.Module):
    """Model whose logits depend on each token; for texts, on the second token."""

    def __init__(self, width: int, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.logits = nn.Parameter(torch.randn(13, width, generator=torch.Generator().manual_seed(3)))

    def forward(self, tokens: Tensor, lengths: Tensor, segments: Tensor | None = None) -> Tensor | SpanLogits:
        found = self.logits[tokens]
        if self.kind == "sequence":
            return found[:, 1]
        return found if self.kind == "token" else SpanLogits(*found.unbind(-1))


def cross_entropy(logits: list[float], expected: int, smoothing: float) -> tuple[float, float]:
    """Return the label-smoothed and the plain cross-entropy."""
    normalizer = math.log(math.fsum(math.exp(logit) for logit in logits))
    nll = [normalizer - logit for logit in logits]
    return (1 - smoothing) * nll[expected] + smoothing * math.fsum(nll) / len(nll), nll[expected]


def total(pairs: list[tuple[float, float]]) -> list[float]:
    return [math.fsum(column) for column in zip(*pairs, strict=True)]


def found(objective, model, batch) -> list[float]:
    loss = objective(model, batch)
    assert not loss.negative_log_likelihood.requires_grad
    return [loss.value.item(), loss.negative_log_likelihood.item()]


@SMOOTHINGS
def test_classification_loss_of_texts(smoothing):
    model = Table(3, "sequence")
    batch = LabeledBatch(ROWS, TOKENS, LENGTHS, torch.tensor([2, 0, 1]))
    rows = model.logits.detach().double()[TOKENS[:, 1]].tolist()
    expected = total([cross_entropy(row, label, smoothing) for row, label in zip(rows, [2, 0, 1], strict=True)])
    assert found(classification_loss(smoothing), model, batch) == pytest.approx(expected, rel=1e-5)


@SMOOTHINGS
def test_classification_loss_of_words(smoothing):
    model = Table(3, "token")
    labels = torch.tensor([[-1, 2, -1, -1, -1], [-1, 0, -1, -1, -1], [-1, 1, 2, -1, -1]])
    batch = TaggedBatch(ROWS, TOKENS, LENGTHS, labels)
    rows = model.logits.detach().double()
    counted = [(7, 2), (11, 0), (5, 1), (7, 2)]
    expected = total([cross_entropy(rows[token].tolist(), label, smoothing) for token, label in counted])
    assert batch.target_count == 4
    assert found(classification_loss(smoothing), model, batch) == pytest.approx(expected, rel=1e-5)


@SMOOTHINGS
def test_question_answering_loss(smoothing):
    model = Table(2, "span")
    segments = torch.tensor([[0, 1, 1, 1, 0], [0, 0, 1, 0, 0], [0, 1, 1, 1, 1]])
    batch = SpanBatch(ROWS, TOKENS, LENGTHS, segments, torch.tensor([1, 0, 2]), torch.tensor([2, 0, 2]))
    # Positions of each row: 0 and the context without its end symbol; then the indices of start and end among them.
    places = [([0, 1, 2], 1, 2), ([0], 0, 0), ([0, 1, 2, 3], 2, 2)]
    pairs = []
    for row, (allowed, start, end) in enumerate(places):
        logits = model.logits.detach().double()[TOKENS[row][allowed]]
        for side, place in ((0, start), (1, end)):
            smoothed, plain = cross_entropy(logits[:, side].tolist(), place, smoothing)
            pairs.append((smoothed / 2, plain / 2))
    assert found(question_answering_loss(smoothing), model, batch) == pytest.approx(total(pairs), rel=1e-5)


def test_forbidden_positions_have_no_probability():
    logits = torch.randn(2, 5, generator=torch.Generator().manual_seed(5), requires_grad=True)
    allowed = torch.tensor([[1, 0, 1, 1, 0], [1, 0, 0, 0, 0]]).bool()
    spoilt = torch.where(allowed, logits, 1e30)
    expected = torch.tensor([2, 0])
    one = masked_cross_entropy(logits, expected, allowed, smoothing=0.1)
    other = masked_cross_entropy(spoilt, expected, allowed, smoothing=0.1)
    torch.testing.assert_close(one.value, other.value)
    one.value.backward()
    assert logits.grad[~allowed].abs().max() == 0
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("kind", ["sequence", "token", "span"])
def test_gradients_do_not_depend_on_the_batches(kind):
    """The mean is over examples, words or windows, for any batches."""
    labels = torch.tensor([[-1, 2, -1, -1, -1], [-1, 0, -1, -1, -1], [-1, 1, 2, -1, -1]])
    segments = torch.tensor([[0, 1, 1, 1, 0], [0, 0, 1, 0, 0], [0, 1, 1, 1, 1]])
    starts, ends = torch.tensor([1, 0, 2]), torch.tensor([2, 0, 2])

    def batch(rows: list[int]):
        picked = TOKENS[rows], LENGTHS[rows]
        match kind:
            case "sequence":
                return LabeledBatch(ROWS[rows], *picked, torch.tensor([2, 0, 1])[rows])
            case "token":
                return TaggedBatch(ROWS[rows], *picked, labels[rows])
            case _:
                return SpanBatch(ROWS[rows], *picked, segments[rows], starts[rows], ends[rows])

    objective = {
        "sequence": classification_loss,
        "token": classification_loss,
        "span": question_answering_loss,
    }[kind](0.1)
    gradients = []
    for split in ([[0, 1, 2]], [[2], [0, 1]], [[1], [2], [0]]):
        model = Table(2 if kind == "span" else 3, kind)
        _, _, count = compute_gradients(
            model, [batch(rows) for rows in split], objective, seeds=(1, 1), precision="float32"
        )
        assert count == {"sequence": 3, "token": 4, "span": 3}[kind]
        gradients.append(model.logits.grad)
    for gradient in gradients[1:]:
        torch.testing.assert_close(gradient, gradients[0])
    assert answer_mask(LENGTHS, segments).any()
