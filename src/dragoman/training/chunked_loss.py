r"""Losses over the vocabulary, computed in chunks of tokens so that the logits of a batch are never held at once.

Cross-entropy with label smoothing (Szegedy et al., 2016, section 7), summed over tokens: for a label $y$ and smoothing
$\epsilon$ over a vocabulary of $V$ tokens, $L = -(1-\epsilon)\log p_y - \frac{\epsilon}{V} \sum_v \log p_v$.

`label_smoothed_cross_entropy` is the equation. `fused_linear_cross_entropy` is the fast version for training: it
computes projection, loss and gradients in one pass. `chunked_loss` does the same for any loss of logits that returns
its own gradient.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor

from dragoman.nn.cpu_ops import LOGIT_DTYPES, cpu_ops_for
from dragoman.training.precision import ROW_MULTIPLE, cast_rows
from dragoman.typing import Float, Int

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
    value, nll = _FusedLinearCrossEntropy.apply(hidden, weight, bias, labels, smoothing, soft_targets, matmul_dtype)  # type: ignore[no-untyped-call]
    return Loss(value, nll)


def chunk_rows(vocabulary: int, matmul_dtype: torch.dtype, *, passes: int = 1) -> int:
    """Return the number of tokens per chunk, each with logits from `passes` forward passes."""
    rows = max(1, CHUNK_BYTES // (4 * vocabulary * passes))
    return rows if matmul_dtype == torch.float32 or rows < ROW_MULTIPLE else rows - rows % ROW_MULTIPLE


class _FusedLinearCrossEntropy(torch.autograd.Function):
    r"""The gradient of the logits is $p - (1-\lambda)\,((1-\epsilon)\,e_y + \epsilon/V) - \lambda q$ with soft targets
    $q$; the constant is added at the end."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        smoothing: float,
        soft_targets: SoftTargets | None,
        matmul_dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        differentiable = any(ctx.needs_input_grad[:3])
        sums = _ChunkSums.start(
            hidden, weight, bias, smoothing=smoothing, soft_targets=soft_targets, gradients=differentiable
        )
        cast = hidden.to(matmul_dtype), weight.to(matmul_dtype), None if bias is None else bias.to(matmul_dtype)
        rows = chunk_rows(len(weight), matmul_dtype)
        for begin in range(0, hidden.shape[0], rows):
            sums.add(slice(begin, begin + rows), *cast, labels)
        if differentiable:
            sums.add_uniform_gradient(hidden, weight)
            ctx.save_for_backward(sums.hidden_gradient, sums.weight_gradient, sums.bias_gradient)
        ctx.mark_non_differentiable(sums.nll)
        return sums.value, sums.nll

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        scale = gradients[0]
        hidden, weight, bias = ctx.saved_tensors
        return hidden * scale, weight * scale, None if bias is None else bias * scale, None, None, None, None


@dataclass
class _ChunkSums:
    """Losses and gradients summed over chunks; `certainty` is the weight of the label, `uniform` of all tokens."""

    certainty: float
    uniform: float
    soft_targets: SoftTargets | None
    weight_sum: Tensor
    bias_sum: Tensor | float
    value: Tensor
    nll: Tensor
    hidden_gradient: Tensor | None
    weight_gradient: Tensor | None
    bias_gradient: Tensor | None

    @classmethod
    def start(
        cls,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        *,
        smoothing: float,
        soft_targets: SoftTargets | None,
        gradients: bool,
    ) -> "_ChunkSums":
        hard = 1.0 if soft_targets is None else 1 - soft_targets.weight
        return cls(
            certainty=hard * (1 - smoothing),
            uniform=hard * smoothing,
            soft_targets=soft_targets,
            weight_sum=weight.float().sum(dim=0),
            bias_sum=0.0 if bias is None else bias.float().sum(),
            value=hidden.new_zeros((), dtype=torch.float32),
            nll=hidden.new_zeros((), dtype=torch.float32),
            hidden_gradient=torch.empty_like(hidden) if gradients else None,
            weight_gradient=torch.zeros_like(weight) if gradients else None,
            bias_gradient=torch.zeros_like(bias) if gradients and bias is not None else None,
        )

    def add(self, chunk: slice, hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor) -> None:
        rows, labels = hidden[chunk], labels[chunk]
        padded = cast_rows(rows, rows.dtype)
        logits = F.linear(padded, weight, bias)
        soft = None
        if self.soft_targets is not None:
            soft = self.soft_targets.distribution(slice(chunk.start, chunk.start + len(rows)))
        cpu_ops = cpu_ops_for(self.weight_sum) if logits.dtype in LOGIT_DTYPES else None
        if cpu_ops is not None:
            self._add_by_cpu_ops(cpu_ops, chunk, logits, weight, padded, labels, soft)
            return
        logits = logits[: len(rows)].float()
        probs = logits.softmax(dim=-1)  # the one pass that computes exponentials
        likeliest = probs.amax(dim=-1, keepdim=True)  # at least 1/V, so its logarithm is exact enough
        log_normalizer = logits.amax(dim=-1, keepdim=True) - likeliest.log()
        label_log_probs = logits.gather(1, labels[:, None]) - log_normalizer
        self.nll -= label_log_probs.sum()
        # sum_v log p_v = sum_v z_v - V log Z: no further pass over the vocabulary.
        mean_log_prob = (rows.float() @ self.weight_sum + self.bias_sum) / weight.shape[0] - log_normalizer[:, 0]
        self.value -= self.certainty * label_log_probs.sum() + self.uniform * mean_log_prob.sum()
        if soft is not None:
            self._add_divergence(soft, torch.dot(soft.flatten(), (logits - log_normalizer).flatten()))
        if self.hidden_gradient is None or self.weight_gradient is None:
            return
        gradient = probs
        gradient.scatter_add_(1, labels[:, None], gradient.new_full((len(labels), 1), -self.certainty))
        if soft is not None:
            gradient.sub_(soft, alpha=self.soft_weight)
        if self.bias_gradient is not None:
            self.bias_gradient += gradient.sum(dim=0)
        gradient = cast_rows(gradient, weight.dtype)
        self.hidden_gradient[chunk] = (gradient @ weight)[: len(rows)]
        self.weight_gradient += gradient.t() @ padded

    @property
    def soft_weight(self) -> float:
        return 0.0 if self.soft_targets is None else self.soft_targets.weight

    def _add_divergence(self, soft: Tensor, mean_log_prob: Tensor | float) -> None:
        r"""Add $KL(q \| p)$ of a chunk, given the mean of $\log p$ under $q$, summed over tokens."""
        log_soft = soft.clamp_min(torch.finfo(soft.dtype).tiny).log_()  # 0 log 0 is 0
        self.value += self.soft_weight * (torch.dot(soft.flatten(), log_soft.flatten()) - mean_log_prob)

    def _add_by_cpu_ops(
        self,
        cpu_ops: Any,
        chunk: slice,
        logits: Tensor,
        weight: Tensor,
        padded: Tensor,
        labels: Tensor,
        soft: Tensor | None,
    ) -> None:
        """Add a chunk in one pass over each row of logits, which is overwritten by its gradient."""
        count = len(labels)
        nll, mean_log_prob, soft_log_prob = cpu_ops.cross_entropy(
            logits[:count], labels, self.certainty, soft, self.soft_weight, self.bias_gradient
        )
        self.nll += nll
        self.value += self.certainty * nll - self.uniform * mean_log_prob
        if soft is not None:
            self._add_divergence(soft, soft_log_prob)
        if self.hidden_gradient is None or self.weight_gradient is None:
            return
        logits[count:] = 0
        self.hidden_gradient[chunk] = (logits @ weight)[:count]
        self.weight_gradient += logits.t() @ padded

    def add_uniform_gradient(self, hidden: Tensor, weight: Tensor) -> None:
        share = self.uniform / weight.shape[0]
        assert self.hidden_gradient is not None
        assert self.weight_gradient is not None
        self.hidden_gradient -= share * self.weight_sum
        self.weight_gradient -= share * hidden.sum(dim=0)
        if self.bias_gradient is not None:
            self.bias_gradient -= share * hidden.shape[0]


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
    value, nll = _ChunkedLoss.apply(hidden, weight, bias, loss, matmul_dtype)  # type: ignore[no-untyped-call]
    return Loss(value, nll)


def label_smoothed_gradient(
    probabilities: Logits, labels: Int[Tensor, " rows"], *, smoothing: float
) -> Float[Tensor, "passes rows vocabulary"]:
    r"""Return the gradient of label-smoothed cross-entropy in the logits, $p - (1-\epsilon)\,e_y - \epsilon/V$."""
    gradient = probabilities - smoothing / probabilities.shape[-1]
    index = labels[None, :, None].expand(len(gradient), -1, 1)
    return gradient.scatter_add_(2, index, gradient.new_full(index.shape, smoothing - 1))


class _ChunkedLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        loss: LogitLossFunction,
        matmul_dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        differentiable = any(ctx.needs_input_grad[:3])
        value, nll = hidden.new_zeros((), dtype=torch.float32), hidden.new_zeros((), dtype=torch.float32)
        gradients = _Gradients(hidden, weight, bias) if differentiable else None
        cast_weight = weight.to(matmul_dtype)
        cast_bias = None if bias is None else bias.to(matmul_dtype)
        tokens, rows = hidden.shape[1], chunk_rows(len(weight), matmul_dtype, passes=len(hidden))
        for begin in range(0, tokens, rows):
            chunk = slice(begin, min(begin + rows, tokens))
            states = cast_rows(hidden[:, chunk], matmul_dtype)
            found = loss(F.linear(states, cast_weight, cast_bias)[:, : chunk.stop - begin].float(), chunk)
            value += found.value
            nll += found.negative_log_likelihood
            if gradients is not None:
                gradients.add(chunk, found.gradient, states, cast_weight)
        if gradients is not None:
            ctx.save_for_backward(gradients.hidden, gradients.weight, gradients.bias)
        ctx.mark_non_differentiable(nll)
        return value, nll

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        scale = gradients[0]
        hidden, weight, bias = ctx.saved_tensors
        return hidden * scale, weight * scale, None if bias is None else bias * scale, None, None


class _Gradients:
    """Gradients of hidden states, weight and bias, summed over chunks."""

    def __init__(self, hidden: Tensor, weight: Tensor, bias: Tensor | None) -> None:
        self.hidden = torch.empty_like(hidden)
        self.weight = torch.zeros_like(weight)
        self.bias = None if bias is None else torch.zeros_like(bias)

    def add(self, chunk: slice, gradient: Tensor, states: Tensor, weight: Tensor) -> None:
        if self.bias is not None:
            self.bias += gradient.sum(dim=(0, 1))
        count, gradient = gradient.shape[1], cast_rows(gradient, weight.dtype)
        self.hidden[:, chunk] = (gradient @ weight)[:, :count].to(self.hidden.dtype)
        self.weight += gradient.flatten(0, 1).t() @ states.flatten(0, 1)
