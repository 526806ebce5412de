r"""Losses over the vocabulary, computed in chunks of tokens so that the logits of a batch are never held at once.

Cross-entropy with label smoothing (Szegedy et al., 2016, section 7), summed over tokens: for a label $y$ and smoothing
$\epsilon$ over a vocabulary of $V$ tokens, $L = -(1-\epsilon)\log p_y - \frac{\epsilon}{V} \sum_v \log p_v$.

`label_smoothed_cross_entropy` is the equation. `fused_linear_cross_entropy` is the fast version for training: it
computes projection, loss and gradients in one pass. `chunked_loss` does the same for any loss of logits that returns
its own gradient.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor

from dragoman.array_types import Float, Int
from dragoman.nn.cpu_training_ops import LOGIT_DTYPES, cpu_ops_for
from dragoman.training.precision import ROW_MULTIPLE, cast_rows

CHUNK_BYTES = 8 * 2**20  # float32 logits of one chunk

Logits = Float[Tensor, "passes rows vocabulary"]


@runtime_checkable
class OutputProjection(Protocol):
    """Linear layer from hidden states to logits."""

    weight: Tensor
    bias: Tensor | None


@dataclass(frozen=True)
class Loss:
    """Sums over tokens: the value to minimize, and the plain negative log-likelihood."""

    value: Float[Tensor, ""]
    negative_log_likelihood: Float[Tensor, ""]


@dataclass(frozen=True)
class SoftTargets:
    r"""Target distributions $q$ with weight $\lambda$: the loss is $(1-\lambda) L + \lambda KL(q \| p)$."""

    weight: float
    distribution: Callable[[slice], Float[Tensor, "tokens vocabulary"]]


def label_smoothed_cross_entropy(
    logits: Float[Tensor, "tokens vocabulary"], labels: Int[Tensor, " tokens"], *, smoothing: float
) -> Loss:
    """Compute the equation above from all logits."""
    log_probs = logits.float().log_softmax(dim=-1)
    nll = -log_probs.gather(1, labels[:, None]).sum()
    uniform = -log_probs.mean(dim=-1).sum()
    return Loss((1 - smoothing) * nll + smoothing * uniform, nll.detach())


@dataclass(frozen=True)
class _Chunk:
    """Logits of a range of tokens, and their two factors; states and logits may end in rows of padding."""

    tokens: slice
    states: Tensor
    weight: Tensor
    logits: Tensor


def _logit_chunks(hidden: Tensor, weight: Tensor, bias: Tensor | None, matmul_dtype: torch.dtype) -> Iterator[_Chunk]:
    """Compute the logits of all tokens, one chunk at a time; each token may have hidden states of several passes."""
    passes, tokens = math.prod(hidden.shape[:-2]), hidden.shape[-2]
    rows = max(1, CHUNK_BYTES // (4 * len(weight) * passes))
    if matmul_dtype != torch.float32 and rows >= ROW_MULTIPLE:
        rows -= rows % ROW_MULTIPLE
    weight, bias = weight.to(matmul_dtype), None if bias is None else bias.to(matmul_dtype)
    for begin in range(0, tokens, rows):
        chunk = slice(begin, min(begin + rows, tokens))
        states = cast_rows(hidden[..., chunk, :], matmul_dtype)
        yield _Chunk(chunk, states, weight, F.linear(states, weight, bias))


class _Gradients:
    """Gradients of hidden states, weight and bias, summed over chunks; None for a frozen weight or bias."""

    def __init__(self, hidden: Tensor, weight: Tensor, bias: Tensor | None, needed: Sequence[bool]) -> None:
        self.hidden = torch.empty_like(hidden)
        self.weight = torch.zeros_like(weight) if needed[1] else None
        self.bias = torch.zeros_like(bias) if bias is not None and needed[2] else None

    def add(self, chunk: _Chunk, gradient: Tensor) -> None:
        """Add a chunk, given the gradient of its logits without padding."""
        if self.bias is not None:
            self.bias += gradient.sum(dim=tuple(range(gradient.ndim - 1)))
        self.add_products(chunk, cast_rows(gradient, chunk.weight.dtype))

    def add_products(self, chunk: _Chunk, gradient: Tensor) -> None:
        """Add a chunk to the gradients of hidden states and weight, given a padded gradient of its logits."""
        rows = self.hidden[..., chunk.tokens, :]
        rows.copy_((gradient @ chunk.weight)[..., : rows.shape[-2], :])
        if self.weight is not None:
            self.weight += gradient.flatten(0, -2).t() @ chunk.states.flatten(0, -2)


Compute = Callable[[_Gradients | None], tuple[Tensor, Tensor]]
"""Function that returns a loss and its negative log-likelihood, and adds the gradients where there are any."""


class _PrecomputedGradients(torch.autograd.Function):
    """Loss whose gradients are computed in the forward pass, and scaled in the backward pass."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, compute: Compute
    ) -> tuple[Tensor, Tensor]:
        needed = ctx.needs_input_grad[:3]
        gradients = _Gradients(hidden, weight, bias, needed) if any(needed) else None
        value, nll = compute(gradients)
        if gradients is not None:
            ctx.save_for_backward(gradients.hidden, gradients.weight, gradients.bias)
        ctx.mark_non_differentiable(nll)
        return value, nll

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        scale = gradients[0]
        hidden, weight, bias = (None if one is None else one * scale for one in ctx.saved_tensors)
        return hidden, weight, bias, None


def fused_linear_cross_entropy(
    hidden: Float[Tensor, "tokens size"],
    weight: Float[Tensor, "vocabulary size"],
    bias: Float[Tensor, " vocabulary"] | None,
    labels: Int[Tensor, " tokens"],
    *,
    smoothing: float,
    soft_targets: SoftTargets | None = None,
    matmul_dtype: torch.dtype = torch.float32,
) -> Loss:
    """Compute the same loss from hidden states, one chunk of logits at a time, with gradients in the same pass.

    `matmul_dtype` is the number format of the three large products; softmax and sums are always in float32.
    """

    def compute(gradients: _Gradients | None) -> tuple[Tensor, Tensor]:
        sums = _CrossEntropySums(hidden, weight, bias, gradients, smoothing=smoothing, soft_targets=soft_targets)
        for chunk in _logit_chunks(hidden, weight, bias, matmul_dtype):
            sums.add(chunk, labels[chunk.tokens])
        sums.add_uniform_gradient(hidden)
        return sums.value, sums.nll

    return Loss(*_PrecomputedGradients.apply(hidden, weight, bias, compute))  # type: ignore[no-untyped-call]


class _CrossEntropySums:
    r"""Cross-entropies and gradients summed over chunks of tokens.

    With soft targets $q$, the gradient of the logits is
    $p - (1-\lambda)\,((1-\epsilon)\,e_y + \epsilon/V) - \lambda q$.
    The label has weight `certainty`; all tokens together have weight `uniform`, whose gradient is added at the end.
    """

    def __init__(
        self,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        gradients: _Gradients | None,
        *,
        smoothing: float,
        soft_targets: SoftTargets | None,
    ) -> None:
        self.gradients, self.soft_targets = gradients, soft_targets
        self.soft_weight = 0.0 if soft_targets is None else soft_targets.weight
        self.certainty, self.uniform = (1 - self.soft_weight) * (1 - smoothing), (1 - self.soft_weight) * smoothing
        self.vocabulary = len(weight)
        self.weight_sum = weight.float().sum(dim=0)
        self.bias_sum = 0.0 if bias is None else bias.float().sum()
        self.value, self.nll = hidden.new_zeros(2, dtype=torch.float32).unbind()

    def add(self, chunk: _Chunk, labels: Tensor) -> None:
        soft = None if self.soft_targets is None else self.soft_targets.distribution(chunk.tokens)
        cpu_ops = cpu_ops_for(self.weight_sum) if chunk.logits.dtype in LOGIT_DTYPES else None
        if cpu_ops is not None:
            self._add_by_cpu_ops(cpu_ops, chunk, labels, soft)
            return
        states, logits = (rows[: len(labels)].float() for rows in (chunk.states, chunk.logits))
        probs = logits.softmax(dim=-1)  # the one pass that computes exponentials
        likeliest = probs.amax(dim=-1, keepdim=True)  # at least 1/V, so its logarithm is exact enough
        log_normalizer = logits.amax(dim=-1, keepdim=True) - likeliest.log()
        label_log_probs = logits.gather(1, labels[:, None]) - log_normalizer
        self.nll -= label_log_probs.sum()
        # sum_v log p_v = sum_v z_v - V log Z: no further pass over the vocabulary.
        mean_log_prob = (states @ self.weight_sum + self.bias_sum) / logits.shape[1] - log_normalizer[:, 0]
        self.value -= self.certainty * label_log_probs.sum() + self.uniform * mean_log_prob.sum()
        if soft is not None:
            self._add_divergence(soft, torch.dot(soft.flatten(), (logits - log_normalizer).flatten()))
        if self.gradients is not None:
            probs.scatter_add_(1, labels[:, None], probs.new_full((len(labels), 1), -self.certainty))
            if soft is not None:
                probs.sub_(soft, alpha=self.soft_weight)
            self.gradients.add(chunk, probs)

    def _add_divergence(self, soft: Tensor, mean_log_prob: Tensor | float) -> None:
        r"""Add $KL(q \| p)$ of a chunk, given the mean of $\log p$ under $q$, summed over tokens."""
        log_soft = soft.clamp_min(torch.finfo(soft.dtype).tiny).log_()  # 0 log 0 is 0
        self.value += self.soft_weight * (torch.dot(soft.flatten(), log_soft.flatten()) - mean_log_prob)

    def _add_by_cpu_ops(self, cpu_ops: Any, chunk: _Chunk, labels: Tensor, soft: Tensor | None) -> None:
        """Add a chunk; overwrite its logits by their gradient."""
        logits, count = chunk.logits, len(labels)
        bias_gradient = None if self.gradients is None else self.gradients.bias
        nll, mean_log_prob, soft_log_prob = cpu_ops.cross_entropy(
            logits[:count], labels, self.certainty, soft, self.soft_weight, bias_gradient
        )
        self.nll += nll
        self.value += self.certainty * nll - self.uniform * mean_log_prob
        if soft is not None:
            self._add_divergence(soft, soft_log_prob)
        logits[count:] = 0
        if self.gradients is not None:
            self.gradients.add_products(chunk, logits)

    def add_uniform_gradient(self, hidden: Tensor) -> None:
        if self.gradients is None:
            return
        share = self.uniform / self.vocabulary
        self.gradients.hidden -= share * self.weight_sum
        if self.gradients.weight is not None:
            self.gradients.weight -= share * hidden.sum(dim=0)
        if self.gradients.bias is not None:
            self.gradients.bias -= share * hidden.shape[0]


@dataclass(frozen=True)
class LogitLoss:
    """Loss of a chunk of tokens, summed, and the gradient of its value in the logits."""

    value: Float[Tensor, ""]
    negative_log_likelihood: Float[Tensor, ""]
    gradient: Logits


LogitLossFunction = Callable[[Logits, slice], LogitLoss]
"""Loss of the float32 logits of a chunk of tokens; it may overwrite them."""


def chunked_loss(
    hidden: Float[Tensor, "passes tokens size"],
    weight: Float[Tensor, "vocabulary size"],
    bias: Float[Tensor, " vocabulary"] | None,
    loss: LogitLossFunction,
    *,
    matmul_dtype: torch.dtype = torch.float32,
) -> Loss:
    """Sum `loss` over all tokens, of which each may have logits from several forward passes.

    `matmul_dtype` is the number format of the three large products.
    """

    def compute(gradients: _Gradients | None) -> tuple[Tensor, Tensor]:
        value, nll = hidden.new_zeros(2, dtype=torch.float32).unbind()
        for chunk in _logit_chunks(hidden, weight, bias, matmul_dtype):
            found = loss(chunk.logits[:, : chunk.tokens.stop - chunk.tokens.start].float(), chunk.tokens)
            value += found.value
            nll += found.negative_log_likelihood
            if gradients is not None:
                gradients.add(chunk, found.gradient)
        return value, nll

    return Loss(*_PrecomputedGradients.apply(hidden, weight, bias, compute))  # type: ignore[no-untyped-call]


def label_smoothed_logit_loss(
    log_probs: Logits, probabilities: Logits, labels: Int[Tensor, " rows"], *, smoothing: float
) -> LogitLoss:
    r"""Sum label-smoothed cross-entropy over passes and tokens, with gradient $p - (1-\epsilon)\,e_y - \epsilon/V$."""
    index = labels[None, :, None].expand(len(log_probs), -1, 1)
    nll = -log_probs.gather(2, index).sum()
    gradient = probabilities - smoothing / probabilities.shape[-1]
    gradient.scatter_add_(2, index, gradient.new_full(index.shape, smoothing - 1))
    return LogitLoss((1 - smoothing) * nll - smoothing * log_probs.mean(dim=-1).sum(), nll, gradient)
