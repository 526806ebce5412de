r"""Losses that compare distributions over the vocabulary, of logits that are never held at once.

Such a loss says for the logits of some tokens what they cost, and its gradient in them. Projection and both other
gradients are the same for all of them, and are made here a chunk of tokens at a time, in one pass. One token may be
read several times, as by a network that drops other units each time: its logits are then side by side in a chunk.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from dragoman.training.losses import Loss, rows_of_chunks
from dragoman.training.precision import rounded
from dragoman.typing import Float, Int

Hidden = Float[Tensor, "passes tokens size"]
Logits = Float[Tensor, "passes rows vocabulary"]


@dataclass(frozen=True)
class LogitLoss:
    """What some tokens cost, summed, and the gradient of the objective in their logits."""

    objective: Float[Tensor, ""]
    negative_log_likelihood: Float[Tensor, ""]
    gradient: Logits


LossOfLogits = Callable[[Logits, slice], LogitLoss]
"""The loss of the float32 logits of a stretch of tokens; it may write into them."""


def chunked_loss(
    hidden: Hidden,
    weight: Float[Tensor, "vocabulary size"],
    bias: Float[Tensor, " vocabulary"] | None,
    loss: LossOfLogits,
    *,
    products: torch.dtype = torch.float32,
) -> Loss:
    """The sum of `loss` over all tokens; `products` is the number format of the three large products."""
    objective, nll = _ChunkedLoss.apply(hidden, weight, bias, loss, products)  # type: ignore[no-untyped-call]
    return Loss(objective, nll)


def smoothed_gradient(
    probabilities: Logits, expected: Int[Tensor, " rows"], *, smoothing: float
) -> Float[Tensor, "passes rows vocabulary"]:
    r"""The gradient of smoothed cross-entropy in the logits, $p - (1-\epsilon)\,e_y - \epsilon/V$."""
    gradient = probabilities - smoothing / probabilities.shape[-1]
    words = expected[None, :, None].expand(len(gradient), -1, 1)
    return gradient.scatter_add_(2, words, gradient.new_full(words.shape, smoothing - 1))


class _ChunkedLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, loss: LossOfLogits, products: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        wanted = any(ctx.needs_input_grad[:3])
        objective, nll = hidden.new_zeros((), dtype=torch.float32), hidden.new_zeros((), dtype=torch.float32)
        gradients = _Gradients(hidden, weight, bias) if wanted else None
        table = weight.to(products)
        shift = None if bias is None else bias.to(products)
        tokens, rows = hidden.shape[1], rows_of_chunks(len(weight), products, passes=len(hidden))
        for begin in range(0, tokens, rows):
            chunk = slice(begin, min(begin + rows, tokens))
            some = rounded(hidden[:, chunk], products)
            found = loss(F.linear(some, table, shift)[:, : chunk.stop - begin].float(), chunk)
            objective += found.objective
            nll += found.negative_log_likelihood
            if gradients is not None:
                gradients.add(chunk, found.gradient, some, table)
        if gradients is not None:
            ctx.save_for_backward(gradients.hidden, gradients.weight, gradients.bias)
        ctx.mark_non_differentiable(nll)
        return objective, nll

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        scale = gradients[0]
        hidden, weight, bias = ctx.saved_tensors
        return hidden * scale, weight * scale, None if bias is None else bias * scale, None, None


class _Gradients:
    """Those in hidden states, weight and bias, gathered chunk by chunk."""

    def __init__(self, hidden: Tensor, weight: Tensor, bias: Tensor | None) -> None:
        self.hidden = torch.empty_like(hidden)
        self.weight = torch.zeros_like(weight)
        self.bias = None if bias is None else torch.zeros_like(bias)

    def add(self, chunk: slice, gradient: Tensor, states: Tensor, table: Tensor) -> None:
        if self.bias is not None:
            self.bias += gradient.sum(dim=(0, 1))
        count, gradient = gradient.shape[1], rounded(gradient, table.dtype)
        self.hidden[:, chunk] = (gradient @ table)[:, :count].to(self.hidden.dtype)
        self.weight += gradient.flatten(0, 1).t() @ states.flatten(0, 1)
